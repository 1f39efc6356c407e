"""Experiments whose runs do next to nothing, or nothing but count, for `bench spark`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.results import Results


class Trivial(Experiment):
    """Many runs that take no time: what is left is the way there and back."""

    name = "trivial"
    title = "Runs that take no time"
    claim_ids = ()

    def __init__(self, runs: int = 0, **parameters: int) -> None:
        """Workers get one without arguments: what a run needs to know is a parameter."""
        self._runs = runs
        self._parameters = parameters

    def points(self, scale: Scale) -> Sequence[Parameters]:
        return [{"number": number, **self._parameters} for number in range(self._runs)]

    def run(self, parameters: Parameters, seed: int) -> Row:
        return {"value": seed % 1000}

    def claims(self, results: Results) -> Sequence[Claim]:
        return []

    def plots(self, results: Results) -> Sequence[Plot]:
        return []


class Counting(Trivial):
    """Runs that keep one core busy, in Python and in numpy by halves."""

    name = "counting"

    def run(self, parameters: Parameters, seed: int) -> Row:
        steps = parameters["steps"]
        assert isinstance(steps, int)
        total = 0
        for number in range(steps):
            total = (total * 31 + number) & 0xFFFF_FFFF
        numbers = np.random.default_rng(seed).random(1 << 16)
        for _ in range(steps // 20_000):
            numbers = np.sort(np.sin(numbers * 97.0))
        return {"total": total, "largest": float(numbers[-1])}
