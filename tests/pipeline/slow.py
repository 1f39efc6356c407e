"""An experiment whose runs take a while, so that something can happen meanwhile, and need a part of
the package that is compiled."""

from __future__ import annotations

import time
from collections.abc import Sequence

from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.results import Results
from tests.pipeline.shipped import use_a_kernel

RUNS = 16
RUN_S = 0.3


class Slow(Experiment):
    name = "slow"
    title = "Runs that take a while"
    claim_ids = ()

    def points(self, scale: Scale) -> Sequence[Parameters]:
        return [{"number": number} for number in range(RUNS)]

    def run(self, parameters: Parameters, seed: int) -> Row:
        time.sleep(RUN_S)
        found = use_a_kernel()
        within = str(found["package"]).endswith(".zip/epicast/__init__.py")
        return {"value": seed % 1000, "answers": found["answers"], "shipped": within}

    def claims(self, results: Results) -> Sequence[Claim]:
        return []

    def plots(self, results: Results) -> Sequence[Plot]:
        return []
