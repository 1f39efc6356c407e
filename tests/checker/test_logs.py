"""Logs as files: what is read of them, what is refused, and the command."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import epicast_checker
from bench.nemesis.synthetic import write
from epicast_checker import FormatError, PublisherLog, SubscriberLog, check, hash_bytes, hash_rows
from epicast_checker.__main__ import main
from tests.checker.runs import perfect

STREAMS = {1: ("orders", "nothing")}


def test_it_imports_nothing_of_what_it_judges() -> None:
    folder = Path(epicast_checker.__file__).parent
    paths = sorted(folder.glob("*.py"))
    assert len(paths) > 5
    allowed = {*sys.stdlib_module_names, "numpy", "pyarrow", "epicast_checker"}
    for path in paths:
        assert len(path.read_text().splitlines()) <= 500
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                names = [node.module or ""]
            for name in names:
                assert name.partition(".")[0] in allowed, f"{path.name} imports {name}"


def test_hashes() -> None:
    rows = np.frombuffer(bytes(range(240)), np.uint8).reshape(20, 12)
    alike = hash_bytes([row.tobytes() for row in rows])
    assert (hash_rows(rows) == alike).all() and len(set(alike.tolist())) == 20
    values = [b"", b"\0", b"\0\0", b"a", b"a" * 8, b"a" * 9, b"b" * 9]
    assert len(set(hash_bytes(values).tolist())) == len(values), "lengths count, too"
    assert hash_bytes(values)[3] == hash_bytes([b"a"])[0]
    many = np.arange(10**6, dtype="<u8").view(np.uint8).reshape(-1, 8)
    assert len(np.unique(hash_rows(many))) == 10**6


def test_a_log_whose_writer_was_killed_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    log = SubscriberLog(tmp_path, "s", STREAMS)
    log.opened(1, 1, 1, 0)
    log.events(1, 1, 1, 0, hash_bytes([b"a", b"b"]))
    log.flush()
    size = log.path.stat().st_size
    log.events(1, 1, 3, 0, hash_bytes([b"c"]))
    log.close()
    content = log.path.read_bytes()
    for cut in (size, size + 1, size + 40, len(content) - 20):
        log.path.write_bytes(content[:cut])
        (found,) = check(tmp_path).subscribers
        assert (found.events, found.closed) == (2, False), cut


def test_a_writer_that_was_killed_before_it_wrote_anything(tmp_path: Path) -> None:
    log = SubscriberLog(tmp_path, "s", {1: ("a", "nothing")})
    log.events(1, 1, 1, 0, hash_bytes([b"x"]))
    log.close()
    (tmp_path / "subscriber-s-000002.arrows").touch()
    (found,) = check(tmp_path).subscribers
    assert found.events == 1


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there are no logs"):
        check(tmp_path)
    (tmp_path / "bad.arrows").write_bytes(b"what is this")
    with pytest.raises(FormatError, match="is no log"):
        check(tmp_path)
    (tmp_path / "bad.arrows").unlink()
    schema = pa.schema([("x", pa.int64())])
    with pa.OSFile(str(tmp_path / "other.arrows"), "wb") as file:
        pa.ipc.new_stream(file, schema).close()
    with pytest.raises(FormatError, match="has the format None"):
        check(tmp_path)
    (tmp_path / "other.arrows").unlink()
    log = PublisherLog(tmp_path, "p", STREAMS)
    with pytest.raises(FormatError, match="2 events, 1 keys"):
        log.sent(1, 5, 1, 0, hash_bytes([b"a", b"b"]), hash_bytes([b"k"]))
    log.sent(99, 5, 1, 0, hash_bytes([b"a"]))
    log.close()
    with pytest.raises(FormatError, match="nobody says what stream 99 is"):
        check(tmp_path)
    with pytest.raises(ValueError, match="sometimes"):
        PublisherLog(tmp_path, "q", {1: ("orders", "sometimes")})


def test_a_large_run_that_went_well_is_small_here(tmp_path: Path) -> None:
    write(tmp_path, 250_000, 2)
    report = check(tmp_path, events_per_file=100_000)
    assert report.faults == 0 and report.events == 4 * 250_000
    assert [each.acked for each in report.streams] == [150_000, 100_000]
    assert {each.stalled_s for each in report.subscribers} == {0.0}
    assert {each.ack_stalled_s for each in report.streams} == {0.003}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    perfect(Random(1)).write(tmp_path / "good", Random(1))
    assert main([str(tmp_path / "good"), "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "no promise was broken" in out and "never delivered" in out
    run = perfect(Random(1))
    run.rows["s0"] = [row for row in run.rows["s0"] if row.first != 20]
    run.write(tmp_path / "bad", Random(1))
    result = tmp_path / "result.json"
    assert main([str(tmp_path / "bad"), "--json", "--out", str(result)]) == 1
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert json.loads(result.read_text()) == document and document["faults"] == 4
    assert "comparing, part 1 of 1" in captured.err
    sides = {(s["subscriber"], s["stream"]): s for s in document["subscribers"]}
    assert sides["s0", "orders"]["holes"] == sides["s0", "prices"]["never_delivered"] == 1
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "there are no logs" in capsys.readouterr().err
