"""Tiny experiments for testing the shell around experiments.

`Gated` and `Faulty` look at the directory named by EPICAST_TEST_GATE, so that a test, not a clock,
decides when a run may end and whether it fails.
"""

import fcntl
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np

from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.registry import Registry
from epicast.experiments.results import Results
from epicast.reporting import new_figure

GATE = "EPICAST_TEST_GATE"
HERE = "tests.unit.experiments.synthetic"


def gate() -> Path:
    return Path(os.environ[GATE])


class Averages(Experiment):
    """Means of uniform samples: several rows per run, some values missing, numpy scalars."""

    name = "averages"
    title = "Means of <samples> & more"
    claim_ids = ("T1", "T2")

    def points(self, scale: Scale) -> list[Parameters]:
        sizes = {"smoke": 3, "paper": 5, "beyond": 7}[scale]
        return [
            {"size": 10**power, "kind": kind}
            for power in range(1, sizes + 1)
            for kind in ("plain", "squared")
        ]

    def run(self, parameters: Parameters, seed: int) -> Sequence[Row]:
        rng = np.random.default_rng(seed)
        size, kind = parameters["size"], parameters["kind"]
        assert isinstance(size, int)
        sample = rng.random(min(size, 1000)) ** (2 if kind == "squared" else 1)
        return [
            {"part": "whole", "mean": sample.mean(), "largest": np.float32(sample.max())},
            {"part": "half", "mean": sample[: size // 2].mean(), "count": np.int64(size // 2)},
        ]

    def claims(self, results: Results) -> list[Claim]:
        plain = results.where(kind="plain", part="whole").numbers("mean")
        squared = results.where(kind="squared", part="whole").numbers("mean")
        return [
            Claim("T1", "0.5", f"{plain[-1]:.3f}", abs(plain[-1] - 0.5) < 0.1, "mean of plain"),
            Claim("T2", "more", f"{squared[-1]:.3f}", squared[-1] > 0.5, "cannot [hold]"),
        ]

    def plots(self, results: Results) -> list[Plot]:
        figure, axes = new_figure("size", "mean")
        plain = results.where(kind="plain", part="whole")
        axes.plot(plain.numbers("size"), plain.numbers("mean"))
        return [Plot("means", "Means & sizes", figure)]


class Again(Averages):
    """Covers the same claims."""

    name = "again"


class Gated(Averages):
    """From its third point on, a run waits for the file `open`, holding a lock on its own file."""

    name = "gated"
    claim_ids = ("T3",)

    def points(self, scale: Scale) -> list[Parameters]:
        return [{"number": number} for number in range(6)]

    def run(self, parameters: Parameters, seed: int) -> Row:
        number = parameters["number"]
        assert isinstance(number, int)
        with (gate() / f"run-{number}").open("a") as mine:
            fcntl.flock(mine, fcntl.LOCK_EX)
            while number >= 2 and not (gate() / "open").exists():
                time.sleep(0.01)
        return {"value": Random(seed).random()}

    def claims(self, results: Results) -> list[Claim]:
        return [Claim("T3", "six", str(len(results)), len(results) == 6)]

    def plots(self, results: Results) -> list[Plot]:
        return []


class Faulty(Gated):
    """Point 1 raises and point 2 loses its process, unless the file `open` exists."""

    name = "faulty"
    claim_ids = ("T4", "T5")

    def run(self, parameters: Parameters, seed: int) -> Row:
        if not (gate() / "open").exists():
            if parameters["number"] == 1:
                raise RuntimeError("no luck today")
            if parameters["number"] == 2:
                os.kill(os.getpid(), signal.SIGKILL)
        return {"value": seed}

    def claims(self, results: Results) -> list[Claim]:
        return [Claim("T4", "a", "b", True), Claim("T5", "a", "b", True)]


def registry() -> Registry:
    return Registry(
        {"averages": f"{HERE}:Averages", "gated": f"{HERE}:Gated", "faulty": f"{HERE}:Faulty"}
    )
