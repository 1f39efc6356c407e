"""`epicast audit` as a person or a script meets it; one session of the tests serves them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench.evidence_files import (
    BEGIN,
    MILLISECOND,
    MadeStream,
    acked_rows,
    chosen,
    got_rows,
    in_batches,
    write_log,
    write_owner,
    write_publisher,
    write_subscriber,
)
from epicast.cli import main
from epicast.evidence import Role
from epicast.pipeline.audit import job

STREAM = MadeStream(events=2000, keys=9)


@pytest.fixture(autouse=True)
def _shared(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command starts a session of its own; here it gets the one that runs already."""
    from contextlib import nullcontext

    monkeypatch.setattr(job, "spark_session", lambda *_, **__: nullcontext(spark))


def write(root: Path, lost: int = 0) -> None:
    write_owner(root, STREAM)
    write_publisher(root, STREAM, acked_rows(STREAM))
    rows = got_rows(STREAM)
    kept = np.delete(np.arange(len(rows["kind"])), np.arange(5, 5 + lost))
    write_subscriber(root, STREAM, chosen(rows, kept), region="eu")


def test_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "logs")
    page = tmp_path / "out" / "report.html"
    assert main(["audit", str(tmp_path / "logs"), "--report", str(page)]) == 0
    shown = capsys.readouterr().out
    assert "All promises were kept." in shown
    assert "reader/1" in shown
    text = page.read_text("utf-8")
    assert text.count("<img") == 2
    assert "&lt;" not in text
    assert "reader/1" in text


def test_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, lost=2)
    assert main(["audit", str(tmp_path), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["violations"] == {"lost": 14}
    assert found["complete"]
    assert not found["holds"]
    [reader] = found["subscribers"]
    assert (reader["name"], reader["region"], reader["stream"]) == ("reader/1", "eu", "prices")
    assert reader["counts"]["owed"] == 2000
    # Handed out 2 ms after the last of their events was stored; ranges have up to two batches.
    assert reader["staleness"]["max_ns"] == 3 * MILLISECOND
    assert 2 * MILLISECOND <= reader["staleness"]["p50_ns"] <= 2 * MILLISECOND * 65 / 64
    assert found["findings"][0] | {"who": ""} == {
        "what": "lost", "who": "", "stream": "prices", "epoch": 1, "first": 29, "last": 42,
    }  # fmt: skip


def test_truncated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_owner(tmp_path, STREAM)
    write_subscriber(tmp_path, STREAM, got_rows(STREAM), close=False)
    assert main(["audit", str(tmp_path)]) == 1
    assert "TRUNCATED" in capsys.readouterr().out
    assert main(["audit", str(tmp_path), "--accept-truncated"]) == 0


def other_columns(root: Path, change: Any) -> None:
    """A log of one file with another schema."""
    folder = write_log(root, Role.SUBSCRIBER, "reader", [STREAM], [])
    [file] = folder.iterdir()
    with pa.OSFile(str(file)) as source:
        schema = pa.ipc.open_stream(source).schema
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, change(schema)):
        pass


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda schema: schema.remove(7), "no column 'digest'"),
        (lambda schema: schema.set(6, pa.field("time", pa.string())), "'time' is string"),
        (lambda schema: schema.with_metadata({"format": "other"}), "is not evidence"),
        (lambda schema: schema.with_metadata({**schema.metadata, b"file": b"x"}), "its head"),
        (lambda schema: schema.with_metadata({**schema.metadata, b"role": b"owner"}), "the role"),
    ],
)
def test_bad_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, said: str
) -> None:
    other_columns(tmp_path, change)
    assert main(["audit", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert str(tmp_path) in error
    assert "Traceback" not in error


def test_bad_ranges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = got_rows(STREAM)
    rows["last"][4] = 1
    write_owner(tmp_path, STREAM)
    write_log(tmp_path, Role.SUBSCRIBER, "r", [STREAM], in_batches(Role.SUBSCRIBER, rows))
    assert main(["audit", str(tmp_path)]) == 2
    assert "row 5 of the log has the range 22..1" in capsys.readouterr().err


def test_bad_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in [
        ([str(tmp_path / "none")], "is not a folder"),
        ([str(tmp_path)], "holds no logs"),
        ([str(tmp_path), "--grace", "5"], "without a unit"),
    ]:
        assert main(["audit", *arguments]) == 2
        assert said in capsys.readouterr().err
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "000001.arrow").write_bytes(b"")
    assert main(["audit", str(tmp_path)]) == 2
    assert "not the folder of a log" in capsys.readouterr().err


def test_grace(tmp_path: Path) -> None:
    """What was stored just before a subscription ended need not have reached it."""
    from bench.numpy_audit import audit_in_memory
    from epicast.pipeline.audit import Rules

    rows = got_rows(STREAM, last=1500)
    rows["time"][-1] = closed = BEGIN + 180 * MILLISECOND
    write_owner(tmp_path, STREAM)
    write_subscriber(tmp_path, STREAM, rows)
    for grace, lost in [(0, 310), (30 * MILLISECOND, 10), (31 * MILLISECOND, 0)]:
        result = audit_in_memory(tmp_path, Rules(grace_ns=grace))
        assert result.totals.counts.lost == lost, (grace, closed)
