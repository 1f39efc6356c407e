"""Logs written by version 1 are read by every later version.

Each fixture was recorded once: `python -m tests.log.test_format` writes one to tests/log/fixtures.
None must be recorded again for a version that is out.

* `version1`: every batch has offsets.
* `version1_even`: batches of events that are all alike have their lengths instead.
* `version1_named`: rewritten batches name everybody heard in them, also who was heard again later.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from crc32c import crc32c

from epicast.core import EventBatch, EventKind, Run
from epicast.log import DiskDirectory, GcPolicy, History, LogConfig, TooNew, gc_payload, parse
from tests.log.streams import everything

FIXTURES = Path(__file__).parent / "fixtures"
NEWEST = FIXTURES / "version1_named"
POLICY = GcPolicy(latest_per_key=True)
CONFIG = LogConfig(segment_bytes=4096, window_bytes=4096)


def write(path: Path) -> list[Path]:
    """A rewritten segment, one that was not, and an active one in a later epoch."""
    history = History(DiskDirectory(path), 7, policy=POLICY, config=CONFIG, epoch=2)
    for turn in range(20):
        first = 10 * turn + 1
        history.append(
            EventBatch.build(
                7,
                first,
                [b"value %d" % seq for seq in range(first, first + 10)],
                keys=[b"key %d" % (seq % 25) for seq in range(first, first + 10)],
                time=[1000 * seq for seq in range(first, first + 10)],
                runs=[Run(77, first, 10)],
                epoch=2,
            )
        )
    history.append(
        EventBatch.build(
            7,
            201,
            [gc_payload(parse('key == "key 3"'), b"and data"), b"no key"],
            keys=[b"", b""],
            kinds=[EventKind.GC, EventKind.DATA],
            time=5,
            epoch=2,
        )
    )
    while history.compact():
        pass
    history.append(EventBatch.build(7, 203, [b"x"], seqs=[205], last=210, epoch=2))
    history.raise_epoch(3)
    history.append(EventBatch.build(7, 211, [b"last"], keys=[b"key 4"], epoch=3))
    history.close()
    return sorted(path.glob("*.seg"))


@pytest.mark.parametrize("name", ["version1", "version1_even", "version1_named"])
def test_version_1_is_still_read(tmp_path: Path, name: str) -> None:
    copy = tmp_path / "log"
    shutil.copytree(FIXTURES / name, copy)
    history = History(DiskDirectory(copy), 7, policy=POLICY, config=CONFIG)
    assert history.recovery.truncation is None
    assert (history.epoch, history.start, history.end) == (3, 1, 211)
    assert history.publishers() == {77: 200}
    events = {event.seq: event for event in everything(history)}
    latest = {seq for seq in range(176, 201) if seq % 25 not in (3, 4)}
    assert events.keys() == latest | {201, 202, 205, 211}
    for seq in latest:
        event = events[seq]
        assert event.key == b"key %d" % (seq % 25)
        assert event.payload == b"value %d" % seq
        assert event.time == 1000 * seq
    assert (events[201].kind, events[202].payload) == (EventKind.GC, b"no key")
    assert (events[205].payload, events[211].payload) == (b"x", b"last")
    history.append(EventBatch.build(7, 212, [b""], epoch=3))
    history.close()


def test_what_is_written_now_is_what_was_written_then(tmp_path: Path) -> None:
    written = {path.name: path.read_bytes() for path in write(tmp_path / "log")}
    recorded = {path.name: path.read_bytes() for path in NEWEST.glob("*.seg")}
    assert written == recorded


def test_the_fixture_has_all_there_is() -> None:
    recorded = sorted(NEWEST.glob("*.seg"))
    flags = [path.read_bytes()[10] for path in recorded]
    assert 1 in flags and 0 in flags, "a rewritten segment and others"
    assert all(path.read_bytes()[:8] == b"EPICLOG\n" for path in recorded)


def test_a_log_of_a_later_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    copy = tmp_path / "log"
    shutil.copytree(NEWEST, copy)
    segment = copy / "00000000000000000101.seg"
    content = bytearray(segment.read_bytes())
    content[8] = 2
    content[60:64] = crc32c(bytes(content[:60])).to_bytes(4, "little")
    segment.write_bytes(content)
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    with pytest.raises(TooNew, match="version 2 of the log format"):
        History(DiskDirectory(copy), 7, policy=POLICY, config=CONFIG)
    (copy / "lock").unlink()
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


if __name__ == "__main__":
    shutil.rmtree(NEWEST, ignore_errors=True)
    for made in write(NEWEST):
        print(made.name, made.stat().st_size)
    (NEWEST / "lock").unlink()
