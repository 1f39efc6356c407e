"""A sweep on a real cluster, with the package shipped to it, that loses a worker in the middle."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from epicast.experiments.executor import InlineExecutor
from epicast.experiments.model import Scale
from epicast.experiments.tasks import make_tasks
from epicast.pipeline.masters import answer_of
from tests.pipeline import slow
from tests.pipeline.conftest import ROOT
from tests.pipeline.standalone import Standalone

SWEEP = """
import json, sys
from epicast.experiments.model import Scale
from epicast.experiments.tasks import make_tasks
from epicast.pipeline.sweeping import SparkExecutor
from tests.pipeline.slow import Slow

for outcome in SparkExecutor(sys.argv[1]).run(make_tasks(Slow(), Scale.SMOKE, 1)):
    print(json.dumps([outcome.key, outcome.rows, outcome.error]), flush=True)
"""


def test_a_worker_that_dies_in_the_middle_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Standalone(tmp_path, 2) as cluster:
        with socket.create_connection(("127.0.0.1", cluster.port)) as connection:
            # This is what tells a master from others who listen: it refuses a file, type 8.
            assert answer_of(connection, 60.0)[8] == 8
        # A process of its own: there is one session per process.
        sweep = subprocess.Popen(
            [sys.executable, "-c", SWEEP, cluster.url], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        with sweep:
            assert sweep.stdout is not None
            found = [json.loads(sweep.stdout.readline()) for _ in range(4)]
            cluster.workers[0].kill()
            found += [json.loads(line) for line in sweep.stdout]
    assert sweep.returncode == 0
    monkeypatch.setattr(slow, "RUN_S", 0.0)
    wanted = {
        outcome.key: [{**row, "shipped": True} for row in outcome.rows]
        for outcome in InlineExecutor().run(make_tasks(slow.Slow(), Scale.SMOKE, 1))
    }
    assert len(found) == slow.RUNS, "every result once"
    assert [error for _, _, error in found if error] == []
    assert {key: rows for key, rows, _ in found} == wanted
