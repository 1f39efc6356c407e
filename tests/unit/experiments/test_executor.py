"""The executor of this process. The one on Spark: tests/pipeline/test_sweeping.py."""

import os

from epicast.experiments.executor import InlineExecutor
from epicast.experiments.model import Parameters, Row, Scale
from epicast.experiments.tasks import make_tasks
from tests.unit.experiments.synthetic import Averages


class Somewhere(Averages):
    """Where a run is, unless it has bad luck."""

    name = "somewhere"

    def run(self, parameters: Parameters, seed: int) -> Row:
        if parameters["size"] == 100:
            raise RuntimeError("no luck today")
        return {"process": os.getpid()}


def test_in_this_process_in_order_and_a_run_that_raises_fails_alone() -> None:
    tasks = make_tasks(Somewhere(), Scale.SMOKE, 1)
    found = list(InlineExecutor().run(tasks))
    assert [outcome.key for outcome in found] == [task.key for task in tasks]
    assert [bool(outcome.error) for outcome in found] == [False, False, True, True, False, False]
    assert "RuntimeError: no luck today" in found[2].error
    assert {row["process"] for outcome in found for row in outcome.rows} == {os.getpid()}
