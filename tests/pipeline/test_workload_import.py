"""Traces of others as workloads; and what is wrong with them, said before anything is left."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epicast.cli import main
from epicast.pipeline import session
from epicast.pipeline.workloads import importing
from epicast.pipeline.workloads.chunks import Columns
from epicast.pipeline.workloads.errors import WorkloadError
from epicast.pipeline.workloads.files import chunk_path, read_columns
from epicast.pipeline.workloads.importing import import_trace
from epicast.pipeline.workloads.manifest import Workload, load_workload
from epicast.pipeline.workloads.traces import TraceColumns

ALL = TraceColumns(time="when", key="what", op="how", size="bytes", time_unit="ms")


def columns_of(directory: Path, workload: Workload) -> Columns:
    chunks = [
        read_columns(chunk_path(directory, number), *Columns._fields)
        for number in range(len(workload.chunks))
    ]
    return Columns(*(np.concatenate(parts) for parts in zip(*chunks, strict=True)))


def write_csv(path: Path, rows: list[tuple[Any, ...]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([("how", "when", "ignored", "what", "bytes"), *rows])
    return path


def test_rows_are_sorted_by_time_and_otherwise_stay_in_order(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "_ROWS_PER_CHUNK", 700)
    rng = np.random.default_rng(1)
    count = 3_000
    time = rng.integers(-50, 500, count)
    key = rng.integers(-(2**63), 2**63 - 1, count)
    op, size = rng.integers(0, 3, count), rng.integers(0, 1_000, count)
    names = np.array(["update", "Insert", "d"])[op]
    rows = list(zip(names, time, [""] * count, key, size, strict=True))
    out = tmp_path / "out"
    workload = import_trace(spark, write_csv(tmp_path / "trace.csv", rows), out, ALL)
    order = np.argsort(time, kind="stable")
    found = columns_of(out, workload)
    assert (found.time == time[order] * 1_000_000).all()
    assert (found.key == key[order]).all()
    assert (found.op == op[order]).all() and (found.size == size[order]).all()
    assert workload == load_workload(out) and len(workload.chunks) > 2
    assert workload.trace is not None and workload.trace.keys == "integers"
    assert workload.deletes == (op == 2).sum() and workload.spec is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "trace.csv"]


def test_text_keys_are_hashed_and_fractions_of_a_second_are_exact(
    spark: Any, tmp_path: Path
) -> None:
    keys = ["one, two", 'say "x"', "17", "one, two"]
    rows = [("u", f"{at}.123456789", "", key, 5) for at, key in enumerate(keys)]
    trace = write_csv(tmp_path / "trace.csv", rows)
    seconds = TraceColumns(time="when", key="what")
    workload = import_trace(spark, trace, tmp_path / "out", seconds)
    found = columns_of(tmp_path / "out", workload)
    assert found.time.tolist() == [at * 10**9 + 123456789 for at in range(4)]
    assert workload.trace is not None and workload.trace.keys == "hashed"
    one, say, number, again = found.key.tolist()
    assert one == again and len({one, say, number}) == 3 and min(one, say, number) >= 0
    # The same everywhere and always, or keys of two imports would not match.
    assert number == 1_920_899_555_557_485_333
    assert set(found.op.tolist()) == {0} and set(found.size.tolist()) == {0}


def test_parquet_with_timestamps_and_codes(spark: Any, tmp_path: Path) -> None:
    moments = [datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC) for second in (5, 3)]
    table = pa.table(
        {
            "when": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "what": pa.array([7, -8], pa.int32()),
            "how": pa.array([2, 1], pa.int8()),
            "bytes": pa.array([0, 12], pa.int64()),
        }
    )
    pq.write_table(table, tmp_path / "trace.parquet")
    workload = import_trace(spark, tmp_path / "trace.parquet", tmp_path / "out", ALL)
    found = columns_of(tmp_path / "out", workload)
    assert found.time.tolist() == [int(m.timestamp()) * 10**9 for m in reversed(moments)]
    assert found.key.tolist() == [-8, 7] and found.op.tolist() == [1, 2]
    with pytest.raises(WorkloadError, match="column 'x' has the type double; keys are"):
        pq.write_table(pa.table({"time": [1], "x": [0.5]}), tmp_path / "bad.parquet")
        import_trace(spark, tmp_path / "bad.parquet", tmp_path / "no", TraceColumns(key="x"))


GOOD = ("update", 1, "", 5, 10)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("update", "soon", "", 5, 10), "row 3, column 'when' is 'soon', which is not a time"),
        (("update", 1, "", "", 10), "row 3, column 'what' is empty, which is not a key"),
        (("upsert", 1, "", 5, 10), "row 3, column 'how' is 'upsert', which is not update, insert"),
        (("update", 1, "", 5, -1), "row 3, column 'bytes' is '-1', which is not a number of"),
        (("update", 1, "", 5), "row 3, column 'bytes' is empty"),
        (("update", 1e30, "", 5, 1), "row 3, column 'when' is '1e\\+30', which is not a time"),
    ],
)
def test_a_wrong_value_is_named_with_its_row(
    spark: Any, tmp_path: Path, row: tuple[Any, ...], words: str
) -> None:
    trace = write_csv(tmp_path / "trace.csv", [GOOD, GOOD, row, GOOD, row])
    with pytest.raises(WorkloadError, match=words):
        import_trace(spark, trace, tmp_path / "out", ALL)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.csv"]


def test_too_little_disk(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = write_csv(tmp_path / "trace.csv", [("update", 1, "", 2, 3)] * 1000)
    usage = shutil.disk_usage(tmp_path)._replace(free=20_000)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(WorkloadError, match=r"1,000 rows take up to .* make room"):
        import_trace(spark, trace, tmp_path / "out", ALL)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.csv"]


def test_a_trace_without_rows(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"trace\.csv has no rows"):
        import_trace(spark, write_csv(tmp_path / "trace.csv", []), tmp_path / "out", ALL)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def shared_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def shared(master: str) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr(session, "spark_session", shared)


@pytest.mark.usefixtures("shared_session")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write_csv(tmp_path / "trace.csv", [GOOD])
    names = ["--time-column", "when", "--key-column", "what"]
    out = str(tmp_path / "out")
    assert main(["workload", "import", str(trace), "--out", out, *names, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 1
    assert main(["workload", "import", str(trace), "--out", out, *names]) == 2
    assert "is there already; choose another" in capsys.readouterr().err


def no_session(master: str) -> None:
    raise AssertionError("Spark is started for what could be seen without it")


def test_what_can_be_seen_without_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "spark_session", no_session)
    table = pa.table({"time": [1, 2], "key": [1, 2]})
    pq.write_table(table, tmp_path / "good.parquet")
    half = (tmp_path / "good.parquet").read_bytes()[:-50]
    folder = tmp_path / "parts"
    folder.mkdir()
    pq.write_table(table, folder / "a.parquet")
    (folder / "b.parquet").write_bytes(half)
    (tmp_path / "half.parquet").write_bytes(half)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "twice.csv").write_text("time,time\n")
    (tmp_path / "names.csv").write_text("stamp,key\n")
    (tmp_path / "latin.csv").write_bytes("größe,key\n".encode("latin-1"))
    (tmp_path / "notes.txt").write_text("")
    wrong = {
        "half.parquet": "half.parquet is damaged, or was not written to its end",
        "parts": "b.parquet is damaged, or was not written to its end",
        "empty.csv": "empty.csv is empty",
        "twice.csv": "two columns have the same name",
        "names.csv": "has no column 'time'; there are: stamp, key",
        "latin.csv": "cannot be read as CSV in UTF-8",
        "notes.txt": "is neither .csv nor .parquet",
        "nowhere.csv": "there is no ",
    }
    for name, words in wrong.items():
        status = main(["workload", "import", str(tmp_path / name), "--out", str(tmp_path / "out")])
        assert (status, (tmp_path / "out").exists()) == (2, False)
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("epicast: ") and words in line
