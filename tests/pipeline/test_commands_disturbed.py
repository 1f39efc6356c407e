"""Commands on Spark as processes of their own: left alone, interrupted, and robbed of a worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.evidence_files import (
    MadeStream,
    acked_rows,
    got_rows,
    write_owner,
    write_publisher,
    write_subscriber,
)
from epicast.pipeline.workloads.files import EVENTS
from epicast.pipeline.workloads.generating import generate
from epicast.pipeline.workloads.spec import WorkloadSpec
from tests.cli.conftest import LAUNCH
from tests.pipeline.processes import Process, descendants

PATIENCE_S = 200.0


@contextmanager
def started(*call: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, *map(str, call), "--master", "local[2]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def workers_of(process: subprocess.Popen[str]) -> list[Process]:
    """Python processes started by a Python process that Java started."""
    family = {each.pid: each for each in descendants(process.pid)}
    daemons = {
        pid
        for pid, each in family.items()
        if each.name.startswith("python")
        and each.parent in family
        and family[each.parent].name == "java"
    }
    return [each for each in family.values() if each.parent in daemons]


def java_of(process: subprocess.Popen[str]) -> list[Process]:
    return [each for each in descendants(process.pid) if each.name == "java"]


def is_one_sentence(said: str) -> bool:
    return not any(word in said for word in ("Traceback", "py4j", "java.", "\tat "))


def test_a_workload_is_generated_although_java_and_a_worker_are_killed(
    spark: Any, tmp_path: Path
) -> None:
    spec = WorkloadSpec(model="zipf", events=16 << 20, keys=1000, skew=1.1, seed=5)
    call = ("workload", "generate", "zipf", "--events", spec.events, "--keys", spec.keys,
            "--seed", spec.seed, "--out", tmp_path / "out", "--json")  # fmt: skip
    folder = tmp_path / "out" / EVENTS
    for victims, parts, reason in (
        (java_of, 1, "Spark's Java process has ended"),
        (workers_of, 0, "a worker process died"),  # at once: few parts are left for them to make
    ):
        with started(*call) as process:
            wait_for(lambda parts=parts: len(set(folder.glob("part-*"))) >= parts, process)
            for victim in wait_for(lambda victims=victims: victims(process), process):
                os.kill(victim.pid, signal.SIGKILL)
            _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 2, said
        assert is_one_sentence(said), said
        assert reason in said and "start again to go on" in said
    with started(*call) as process:
        out, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    undisturbed = generate(spark, spec, tmp_path / "again")
    assert json.loads(out)["digest"] == undisturbed.digest


def test_a_workload_is_analysed(spark: Any, tmp_path: Path) -> None:
    for skew in (1.1, 1.2):
        spec = WorkloadSpec(model="zeta", events=200_000, skew=skew, insertions=10.0)
        generate(spark, spec, tmp_path / f"{skew}")
    with started("workload", "analyse", tmp_path / "1.1", tmp_path / "1.2", "--json") as process:
        out, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    found = json.loads(out)
    assert [claim["id"] for claim in found["claims"]] == ["S5", "S7"]
    assert found["workloads"][1]["curve"][-1]["generated"] == 200_000
    assert "S6" in found["not_judged"][0]
    assert (tmp_path / "1.1" / "report.html").stat().st_size > 10_000


def write_logs(root: Path, events: int) -> None:
    stream = MadeStream(events=events, keys=9)
    write_owner(root, stream)
    write_publisher(root, stream, acked_rows(stream))
    write_subscriber(root, stream, got_rows(stream), region="eu")


def test_an_audit(tmp_path: Path) -> None:
    write_logs(tmp_path / "logs", 5000)
    with started("audit", tmp_path / "logs", "--json") as process:
        out, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert json.loads(out)["events"] == 5000


def test_an_audit_is_interrupted(tmp_path: Path) -> None:
    write_logs(tmp_path / "logs", 3_000_000)
    with started("audit", tmp_path / "logs") as process:
        wait_for(lambda: workers_of(process), process)
        family = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    assert is_one_sentence(said), said
    deadline = time.monotonic() + 20
    while any(each.lives() for each in family):
        assert time.monotonic() < deadline
        time.sleep(0.1)
