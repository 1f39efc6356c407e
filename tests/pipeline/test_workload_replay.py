"""Workloads into a live geoplex: what a subscriber gets is the workload."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.cli import main
from epicast.client import sync
from epicast.core import EventBatch, EventKind
from epicast.geo.local import LocalGeoplex
from epicast.log.predicate import gc_payload, key_in
from epicast.pipeline.workloads import replaying
from epicast.pipeline.workloads.chunks import ChunkMaker, Columns, Op
from epicast.pipeline.workloads.errors import WorkloadError
from epicast.pipeline.workloads.event_columns import encode_rows
from epicast.pipeline.workloads.files import EVENTS, chunk_path, write_chunk
from epicast.pipeline.workloads.manifest import describe
from epicast.pipeline.workloads.replaying import Pace, Position, Replay
from epicast.pipeline.workloads.spec import Sizes, WorkloadSpec

SPEC = WorkloadSpec(
    model="zipf", events=9_000, keys=50, skew=1.1, insertions=10.0, temporary=20.0, lifetime=2.0,
    sizes=Sizes("uniform", 0, 30), chunk_events=2_500, seed=9,
)  # fmt: skip


def made(directory: Path, spec: WorkloadSpec = SPEC) -> Columns:
    """A workload, without Spark."""
    (directory / EVENTS).mkdir(parents=True)
    maker = ChunkMaker(spec)
    chunks = [maker.make(number) for number in range(spec.chunks)]
    facts = [write_chunk(chunk_path(directory, at), chunk) for at, chunk in enumerate(chunks)]
    describe(directory, facts, spec)
    return Columns(*(np.concatenate(columns) for columns in zip(*chunks, strict=True)))


def plain_events(columns: Columns) -> list[tuple[bytes, bytes, int]]:
    found = []
    for key, op, size in zip(*(column.tolist() for column in columns[1:]), strict=True):
        name = key.to_bytes(8, "little", signed=True)
        if op == Op.DELETE:
            found.append((b"", gc_payload(key_in([name])), int(EventKind.GC)))
        else:
            found.append((name, bytes(size), int(EventKind.DATA)))
    return found


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2),
                          st.sampled_from([0, 3, 3, 200])), min_size=1, max_size=40))  # fmt: skip
def test_rows_become_the_events_that_build_would_make(rows: list[tuple[int, int, int]]) -> None:
    key, op, size = zip(*rows, strict=True)
    columns = Columns(
        np.zeros(len(rows), dtype=np.int64),
        np.array(key, dtype=np.int64),
        np.array(op, dtype=np.int8),
        np.array(size, dtype=np.int32),
    )
    names, payloads, kinds = zip(*plain_events(columns), strict=True)
    wanted = EventBatch.build(3, 11, payloads, keys=names, kinds=kinds)
    assert encode_rows(3, 11, columns).events() == wanted.events()


@pytest.fixture(scope="module")
def local() -> Iterator[LocalGeoplex]:
    with LocalGeoplex() as running:
        yield running


def received(local: LocalGeoplex, stream: str, after: int, rows: int) -> list[Any]:
    """Key, payload and kind of everything behind a number; None for what was collected."""
    found: list[Any] = []
    with sync.connect(local.address("us"), agent=False) as node:
        for batch in node.stream(stream).subscribe(after=after).batches():
            assert isinstance(batch, EventBatch)
            numbered = {event.seq: event for event in batch.events()}
            for seq in range(batch.first, batch.last + 1):
                event = numbered.get(seq)
                found.append(event and (event.key, event.payload, event.kind))
            if len(found) >= rows:
                return found
    raise AssertionError("the stream ended")


def head(local: LocalGeoplex, stream: str) -> int:
    with sync.connect(local.address("us"), agent=False) as node:
        return node.stream(stream).head().seq


def test_a_subscriber_gets_the_workload(local: LocalGeoplex, tmp_path: Path) -> None:
    columns = made(tmp_path)
    before = head(local, "audit")
    outcome = Replay(tmp_path, "audit", local.address("us"), Pace()).run()
    rows = len(columns.key)
    assert (outcome.rows, outcome.position, outcome.last) == (rows, rows, before + rows)
    expected: list[Any] = plain_events(columns)
    deleted: set[int] = set()
    for at in reversed(range(rows)):  # what is deleted later is gone
        if columns.op[at] == Op.DELETE:
            deleted.add(columns.key.item(at))
        elif columns.key.item(at) in deleted:
            expected[at] = None
    assert deleted and received(local, "audit", before, rows) == expected


class Stop(Exception):
    pass


def test_an_interrupted_replay_publishes_every_row_once(
    local: LocalGeoplex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = msgspec.structs.replace(SPEC, temporary=0.0)
    columns = made(tmp_path, spec)
    before, address = head(local, "audit"), local.address("us")
    monkeypatch.setattr(replaying, "_ROWS_AT_ONCE", 700)

    def stop_after(rows: int) -> Any:
        seen = [0]

        def told(done: int) -> None:
            seen[0] += done
            if seen[0] >= rows:
                raise Stop

        return told

    with pytest.raises(Stop):
        Replay(tmp_path, "audit", address, Pace()).run(told=stop_after(2_000))
    file = tmp_path / "replay-audit.json"
    saved = msgspec.json.decode(file.read_bytes(), type=Position)
    assert saved.rows == 2_100  # read 700 at a time
    # As if it had been killed before the position was saved.
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(saved, rows=1_234)))
    outcome = Replay(tmp_path, "audit", address, Pace()).run(limit=5_000)
    assert (outcome.rows, outcome.position) == (5_000 - 1_234, 5_000)
    outcome = Replay(tmp_path, "audit", address, Pace(rate=1e6)).run()
    assert outcome.position == spec.events == head(local, "audit") - before
    assert received(local, "audit", before, spec.events) == plain_events(columns)
    assert Replay(tmp_path, "audit", address, Pace()).run().rows == 0
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(saved, digest="another")))
    with pytest.raises(WorkloadError, match="the position of another replay"):
        Replay(tmp_path, "audit", address, Pace())


def test_when_rows_are_due() -> None:
    times = np.array([5_000_000_000, 6_000_000_000, 9_000_000_000])
    assert Pace(rate=4.0).due(2, times, 0).tolist() == [0.5, 0.75, 1.0]
    assert Pace(speed=2.0).due(2, times, 5_000_000_000).tolist() == [0.0, 0.5, 2.0]
    assert Pace().due(2, times, 0).tolist() == [0.0, 0.0, 0.0]


def test_the_command(
    local: LocalGeoplex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    address = local.address("us").removeprefix("epicast://")
    call = ["workload", "replay", str(tmp_path), "--stream", "audit", "--proxy", address]
    assert main([*call, "--rate", "20000", "--limit", "3000", "--json"]) == 0
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert (document["events"], document["position"]) == (3_000, 3_000)
    # The last row is due after 2999/20000 s, and may go out up to 50 ms before that.
    assert document["seconds"] >= 2_999 / 20_000 - 0.05 and document["events_per_s"] > 0
    assert "100 of 100 done" in told.err
    assert main([*call, "--speed", "1e6"]) == 0
    assert "in all, " in capsys.readouterr().out
    assert main([*call[:-3], "nowhere", "--proxy", address]) == 2
    assert "there is no stream 'nowhere'" in capsys.readouterr().err
    assert main([*call, "--rate", "1", "--speed", "1"]) == 2
    assert main(["workload", "replay", str(tmp_path / "no"), "--stream", "audit"]) == 2
    assert "is not a workload: there is no workload.json" in capsys.readouterr().err
