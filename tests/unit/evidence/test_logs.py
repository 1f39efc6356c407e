"""Logs on files: what is in them, how they are cut, and what becomes of them in trouble."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from epicast.core import EventBatch, EventKind, Run
from epicast.evidence import (
    EvidenceError,
    Facts,
    Kind,
    LogBounds,
    OwnerLog,
    PublisherLog,
    Role,
    SubscriberLog,
    content_hashes,
    ends_of_earlier_logs,
)
from epicast.evidence.files import END_OF_STREAM
from epicast.evidence.schema import StreamFacts
from epicast.log.predicate import gc_payload, parse


def facts(role: Role) -> Facts:
    streams = {7: StreamFacts("prices", "us", latest_per_key=True)}
    return Facts(role=role, name="a", region="us", geoplex="g", run="r1", streams=streams)


def clock() -> Iterator[int]:
    now = 1_000
    while True:
        yield now
        now += 10


def read(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """The rows of a log and the metadata of its files."""
    rows, heads = [], []
    for file in sorted(folder.iterdir()):
        with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as stream:
            metadata = stream.schema.metadata
            heads.append({k.decode(): v.decode() for k, v in metadata.items()})
            rows += stream.read_all().to_pylist()
    return rows, heads


def test_an_owner(tmp_path: Path) -> None:
    log = OwnerLog(tmp_path, facts(Role.OWNER), wall_clock_ns=clock().__next__)
    even = EventBatch.even(7, 1, b"k1pk2q", 2, 1)
    log.stored(even)
    gc = gc_payload(parse('key == "k1"'))
    mixed = EventBatch.build(
        7, 3, [b"xyz", gc, b""], keys=[b"long", b"", b"k2"], epoch=4, runs=[Run(99, 5, 3)],
        kinds=[EventKind.DATA, EventKind.GC, EventKind.DATA],
    )  # fmt: skip
    log.stored(mixed)
    log.dropped(7, 4, 2)
    log.close()
    (first, second, dropped, end), (head,) = read(tmp_path / "owner-a-r1")
    assert first | {"contents": None} == {
        "kind": Kind.EVENTS, "stream": 7, "epoch": 0, "first": 1, "last": 2, "time": 1_000,
        "contents": None, "keys": b"k1k2", "key_bytes": b"\2\0\0\0", "sizes": b"\1\0\0\0",
        "gc": b"", "runs": b"",
    }  # fmt: skip
    assert first["contents"] == content_hashes(even).tobytes()
    assert (second["keys"], second["epoch"], second["time"]) == (b"longk2", 4, 1_010)
    assert np.frombuffer(second["key_bytes"], "<u4").tolist() == [4, 0, 2]
    assert np.frombuffer(second["sizes"], "<u4").tolist() == [3, len(gc), 0]
    assert np.frombuffer(second["runs"], "<u8").tolist() == [99, 5, 3]
    assert msgspec.msgpack.decode(second["gc"]) == [[4, gc]]
    assert (dropped["kind"], dropped["last"]) == (Kind.DROPPED, 2)
    assert (end["kind"], end["first"], end["time"]) == (Kind.END, 3, 1_030)
    assert head["format"] == "epicast-evidence/1"
    assert msgspec.json.decode(head["streams"])["7"]["latest_per_key"] is True
    with pytest.raises(EvidenceError, match="not tombstones"):
        log.stored(EventBatch.build(7, 1, [b"x"], seqs=[2]))


def test_what_is_left_of_a_batch(tmp_path: Path) -> None:
    batch = EventBatch.build(
        7, 1, [b"%d" % n for n in (2, 3, 5, 8, 9)], seqs=[2, 3, 5, 8, 9], last=10,
        runs=[Run(99, 41, 4), Run(0, 0, 6)],
    )  # fmt: skip
    for most, expected in [(9, [(2, 3), (5, 5), (8, 9)]), (2, [(5, 5), (8, 9)]), (0, [])]:
        log = OwnerLog(tmp_path / str(most), facts(Role.OWNER))
        assert log.left(batch, most) == len(expected)
        log.close(knows_all=False)
        (*rows, end), _ = read(tmp_path / str(most) / "owner-a-r1")
        assert [(row["first"], row["last"]) for row in rows] == expected
        assert end["time"] == 0
    (first, second, _, _), _ = read(tmp_path / "9" / "owner-a-r1")
    assert np.frombuffer(first["runs"], "<u8").tolist() == [99, 42, 2]
    assert np.frombuffer(second["runs"], "<u8").tolist() == [0, 0, 1]
    assert first["contents"] == content_hashes(batch.slice(2, 3)).tobytes()
    log = OwnerLog(tmp_path, facts(Role.OWNER))
    assert log.left(EventBatch.build(7, 1, [], seqs=[], last=4), 9) == 0


def test_where_earlier_logs_end(tmp_path: Path) -> None:
    def write(name: str, run: str, *lasts: tuple[int, int]) -> OwnerLog:
        log = OwnerLog(tmp_path, msgspec.structs.replace(facts(Role.OWNER), name=name, run=run))
        for stream, last in lasts:
            log.stored(EventBatch.build(stream, last, [b"x"]))
            log.flush()
        return log

    assert ends_of_earlier_logs(tmp_path, "us/1") == {}
    write("us/1", "aa", (7, 100), (8, 50), (9, 1)).close()
    os.utime(next(tmp_path.iterdir()), (0, 0))  # two folders may be made within one tick
    write("us/1", "bb", (7, 120), (8, 70), (7, 110))  # killed; it had copied the stream anew
    write("us/11", "cc", (7, 500)).close()
    write("us", "dd", (7, 600)).close()
    assert ends_of_earlier_logs(tmp_path, "us/1") == {7: 110, 8: 70, 9: 1}
    assert ends_of_earlier_logs(tmp_path, "us") == {7: 600}
    [file] = (tmp_path / "owner-us+1-bb").iterdir()
    for size in (file.stat().st_size - 5, 10, 0):
        os.truncate(file, size)
        assert ends_of_earlier_logs(tmp_path, "us/1")[9] == 1


def test_a_publisher(tmp_path: Path) -> None:
    log = PublisherLog(tmp_path, facts(Role.PUBLISHER), wall_clock_ns=clock().__next__)
    batch = EventBatch.build(7, 1, [b"x", b"y"])
    sent = log.sent(batch)
    log.acknowledged(7, 4, 99, 10, 2, 20, sent)
    log.close()
    (row, end), _ = read(tmp_path / "publisher-a-r1")
    content = int(content_hashes(batch).sum(dtype=np.uint64))
    assert row == {"kind": Kind.ACKED, "stream": 7, "epoch": 4, "first": 10, "last": 11,
                   "publisher": 99, "below": 20, "sent": 1_000, "acked": 1_010,
                   "content": content}  # fmt: skip
    assert end["kind"] == Kind.END


def test_a_subscriber(tmp_path: Path) -> None:
    log = SubscriberLog(tmp_path, facts(Role.SUBSCRIBER), wall_clock_ns=clock().__next__)
    log.opened(2, 7, 4, 1)
    log.delivered(2, EventBatch.build(7, 1, [b"x", b"y"], seqs=[1, 3], last=5, epoch=4))
    log.reset(2, 7, 5, 1)
    log.closed(2, 7, 5, 0)
    log.close()
    rows, _ = read(tmp_path / "subscriber-a-r1")
    assert [(r["kind"], r["epoch"], r["first"], r["last"], r["time"]) for r in rows] == [
        (Kind.OPENED, 4, 1, 0, 1_000),
        (Kind.EVENTS, 4, 1, 1, 1_010),
        (Kind.TOMBSTONES, 4, 2, 2, 1_010),
        (Kind.EVENTS, 4, 3, 3, 1_010),
        (Kind.TOMBSTONES, 4, 4, 5, 1_010),
        (Kind.RESET, 5, 1, 0, 1_020),
        (Kind.CLOSED, 5, 0, 0, 1_030),
        (Kind.END, 0, 6 + 1, 0, 0),
    ]
    assert {row["subscription"] for row in rows[:-1]} == {2}


def test_more_ranges_than_the_buffer_holds(tmp_path: Path) -> None:
    log = SubscriberLog(tmp_path, facts(Role.SUBSCRIBER))
    seqs = list(range(2, 40_002, 2))
    batch = EventBatch.build(7, 1, [b""] * len(seqs), seqs=seqs)
    for _ in range(2):
        log.delivered(1, batch)
    log.close()
    rows, _ = read(tmp_path / "subscriber-a-r1")
    once = [(s, s) for s in range(1, 40_001)]
    assert [(row["first"], row["last"]) for row in rows[:-1]] == once * 2


def test_files_follow_each_other_and_the_oldest_go(tmp_path: Path) -> None:
    log = OwnerLog(tmp_path, facts(Role.OWNER), LogBounds(file_bytes=3_000, total_bytes=9_000))
    for number in range(20):
        log.stored(EventBatch.build(7, number + 1, [b"p"], keys=[b"k" * 1000]))
        log.flush()
    log.close()
    files = sorted((tmp_path / "owner-a-r1").iterdir())
    assert sum(file.stat().st_size for file in files) < 12_000
    assert all(file.read_bytes().endswith(END_OF_STREAM) for file in files)
    rows, heads = read(tmp_path / "owner-a-r1")
    dropped = int(heads[-1]["dropped_rows"])
    assert 0 < dropped < 20
    assert int(heads[0]["rows_before"]) == dropped
    assert [row["first"] for row in rows[:-1]] == list(range(dropped + 1, 21))
    assert rows[-1]["first"] == 20
    numbers = [int(head["file"]) for head in heads]
    assert numbers == list(range(numbers[0], numbers[0] + len(files)))


_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from epicast.core import EventBatch
from epicast.evidence import Facts, OwnerLog, Role
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
log = OwnerLog(Path(sys.argv[1]), Facts(role=Role.OWNER, name="a", run="r1"))
for number in range(9):
    log.stored(EventBatch.build(7, number + 1, [b"p"], keys=[b"k" * 1000]))
    log.flush()
assert "large" in log.problem, log.problem
log.close()
"""


def test_a_full_disk_ends_the_log_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the evidence in") == 1
    (file,) = (tmp_path / "owner-a-r1").iterdir()
    assert not file.read_bytes().endswith(END_OF_STREAM)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EvidenceError, match="no evidence can be written to"):
        OwnerLog(tmp_path / "file", facts(Role.OWNER))


WITHOUT_PANDAS = """
import sys
from pathlib import Path
from epicast.core import EventBatch
from epicast.evidence import Facts, OwnerLog, PublisherLog, Role, SubscriberLog, warm_up

warm_up()
root, batch = Path(sys.argv[1]), EventBatch.build(7, 1, [b"x"], keys=[b"long enough"])
owner = OwnerLog(root, Facts(role=Role.OWNER, name="a", run="r"))
owner.stored(batch)
publisher = PublisherLog(root, Facts(role=Role.PUBLISHER, name="a", run="r"))
publisher.acknowledged(7, 1, 1, 1, 1, 1, publisher.sent(batch))
subscriber = SubscriberLog(root, Facts(role=Role.SUBSCRIBER, name="a", run="r"))
subscriber.delivered(1, batch)
for log in (owner, publisher, subscriber):
    log.close()
sys.exit("pandas" in sys.modules)
"""


def test_writing_does_not_import_pandas(tmp_path: Path) -> None:
    """Which pyarrow does behind one's back, and which stops everything else for half a second."""
    subprocess.run([sys.executable, "-c", WITHOUT_PANDAS, str(tmp_path)], check=True)
