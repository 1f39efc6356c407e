"""An experiment whose runs take a while, so that something can happen meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence

from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.results import Results

RUNS = 30
RUN_S = 0.5


class Slow(Experiment):
    name = "slow"
    title = "Runs that take a while"
    claim_ids = ()

    def points(self, scale: Scale) -> Sequence[Parameters]:
        return [{"number": number} for number in range(RUNS)]

    def run(self, parameters: Parameters, seed: int) -> Row:
        time.sleep(RUN_S)
        return {"value": seed % 1000}

    def claims(self, results: Results) -> Sequence[Claim]:
        return []

    def plots(self, results: Results) -> Sequence[Plot]:
        return []
