"""Workloads on Spark: the same files whatever the tasks, resumed, and never written over."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from epicast.cli import main
from epicast.pipeline import session
from epicast.pipeline.jobs import run_tasks
from epicast.pipeline.workloads import generating
from epicast.pipeline.workloads.chunks import ChunkMaker
from epicast.pipeline.workloads.errors import WorkloadError
from epicast.pipeline.workloads.files import EVENTS, chunk_path, facts_of, read_columns
from epicast.pipeline.workloads.generating import generate, prepare
from epicast.pipeline.workloads.manifest import FILE, PLAN, load_workload
from epicast.pipeline.workloads.spec import Sizes, WorkloadSpec

SPEC = WorkloadSpec(
    model="zipf", events=19_000, keys=400, skew=1.1, insertions=20.0, temporary=5.0, lifetime=3.0,
    sizes=Sizes("uniform", 1, 50), chunk_events=2_000, seed=3,
)  # fmt: skip


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_the_files_are_the_same_whatever_the_tasks(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    monkeypatch.setattr(generating, "_TASKS_PER_CORE", 1)
    monkeypatch.setattr(generating, "cores_of", lambda spark: cores)
    made = generate(spark, SPEC, tmp_path / "out")
    maker = ChunkMaker(SPEC)
    assert made.chunks == [facts_of(maker.make(chunk)) for chunk in range(SPEC.chunks)]
    assert made == load_workload(tmp_path / "out")
    assert made.rows == made.updates + made.inserts + made.deletes > SPEC.events
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [EVENTS, FILE]


def test_any_reader_of_parquet_can_read_it(spark: Any, tmp_path: Path) -> None:
    generate(spark, SPEC, tmp_path / "out")
    read = spark.read.parquet(str(tmp_path / "out" / EVENTS))
    assert read.schema.simpleString() == "struct<time:bigint,key:bigint,op:tinyint,size:int>"
    found = read.orderBy("time", "key").toArrow()
    maker = ChunkMaker(SPEC)
    made = [maker.make(chunk) for chunk in range(SPEC.chunks)]
    time, key, op, size = (np.concatenate(columns) for columns in zip(*made, strict=True))
    order = np.lexsort([key, time])
    for name, column in {"time": time, "key": key, "op": op, "size": size}.items():
        assert (found.column(name).to_numpy() == column[order]).all()


def test_an_interrupted_run_goes_on_with_what_is_missing(spark: Any, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    made = generate(spark, SPEC, out)
    (out / FILE).rename(out / PLAN)
    (out / PLAN).write_bytes(msgspec.json.encode(SPEC))
    for chunk in (0, 7):
        chunk_path(out, chunk).unlink()
    (out / EVENTS / ".part-000007.parquet.99").write_bytes(b"half of a file")
    kept = chunk_path(out, 3).stat().st_mtime_ns
    with pytest.raises(WorkloadError, match="it was not finished: start"):
        load_workload(out)
    with pytest.raises(WorkloadError, match=r"another workload \(seed is 3\)"):
        generate(spark, replace(SPEC, seed=4), out)
    wanted: list[int] = []
    assert generate(spark, SPEC, out, wanted.append) == made
    assert wanted == [2] and chunk_path(out, 3).stat().st_mtime_ns == kept
    shutil.copytree(out / EVENTS, other / EVENTS)
    (other / PLAN).write_bytes(msgspec.json.encode(SPEC))
    chunk_path(other, 5).write_bytes(chunk_path(out, 5).read_bytes()[:-100])
    with pytest.raises(WorkloadError, match=r"part-000005\.parquet is damaged"):
        generate(spark, SPEC, other)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear")
    with pytest.raises(WorkloadError, match="is there already and is no workload"):
        prepare(SPEC, tmp_path)
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(WorkloadError, match="holds a workload already"):
        prepare(SPEC, tmp_path)
    with pytest.raises(WorkloadError, match="does not describe a workload"):
        load_workload(tmp_path)


def test_too_little_room_is_told_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=10_000_000_000)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    billions = replace(SPEC, events=10**10, chunk_events=1 << 20)
    with pytest.raises(WorkloadError, match=r"events take about \d+\.\d GB and there are 10\.0 GB"):
        prepare(billions, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    prepare(replace(billions, events=10**8), tmp_path / "out")
    usage = usage._replace(free=3_000_000)
    with pytest.raises(WorkloadError, match=r"take about \d\d\.\d MB and there are 3\.0 MB"):
        prepare(replace(billions, events=3 * 10**6), tmp_path / "small")


def test_a_task_that_cannot_write_says_where(spark: Any, tmp_path: Path) -> None:
    prepare(SPEC, tmp_path / "out")
    (tmp_path / "out" / EVENTS).rmdir()
    (tmp_path / "out" / EVENTS).write_text("in the way")
    task = generating._Task(SPEC, str(tmp_path / "out"), [0])
    with pytest.raises(WorkloadError, match=r"part-000000\.parquet: cannot be written: Not a dir"):
        list(run_tasks(spark, generating.make_chunks, [task]))


@pytest.fixture
def shared_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the session of the tests, and leave it running."""

    @contextmanager
    def shared(master: str) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr(session, "spark_session", shared)


@pytest.mark.usefixtures("shared_session")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    call = ["workload", "generate", "zeta", "--events", "2e4", "--skew", "1.2", "--out", str(out)]
    assert main([*call, "--json"]) == 0
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert document["rows"] == 20_000 and document["digest"] == load_workload(out).digest
    assert "generating: 1 of 1 done" in told.err
    (key,) = read_columns(chunk_path(out, 0), "key")
    assert key.max() > 1_000_000
    assert main(call) == 2
    assert "holds a workload already" in capsys.readouterr().err
    assert main(["workload", "generate", "zipf", "--events", "many", "--out", "x"]) == 2
    assert "'many' is not a whole number such as 1e6" in capsys.readouterr().err
