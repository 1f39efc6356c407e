"""Faults put into logs in chosen numbers: each is found, counted exactly, and nothing else is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.evidence_files import (
    MILLISECOND,
    SECOND,
    MadeStream,
    Rows,
    acked_rows,
    chosen,
    got_rows,
    write_owner,
    write_publisher,
    write_subscriber,
)
from bench.numpy_audit import audit_in_memory
from epicast.evidence import Kind
from epicast.evidence.files import END_OF_STREAM
from epicast.pipeline.audit import AuditResult, Rules, audit_logs
from tests.pipeline.conftest import MASTER

RULES = Rules(block_bits=9, clock_tolerance_ns=5 * MILLISECOND)
EVENTS = 5000
SIZE = 7
"""Events in a range."""


class Scene:
    """An owner, a publisher, a subscriber that follows, and one that comes when all is over."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.stream = MadeStream(events=EVENTS, latest_per_key=True, keys=50)
        self.acked = acked_rows(self.stream)
        self.live = got_rows(self.stream, bits=9, size=SIZE)
        self.late = got_rows(
            self.stream, bits=9, dead=self.stream.superseded(),
            at_ns=int(self.stream.stored[-1]) + SECOND,
        )  # fmt: skip

    def write(self) -> dict[str, Path]:
        return {"owner": self.write_owner()[0], **self.write_users()}

    def write_owner(self) -> list[Path]:
        return [write_owner(self.root, self.stream, file_bytes=1 << 12, rows=60)]

    def write_users(self) -> dict[str, Path]:
        small = {"file_bytes": 1 << 12, "rows": 60}
        return {
            "publisher": write_publisher(self.root, self.stream, self.acked, **small),
            "live": write_subscriber(self.root, self.stream, self.live, "live", **small),
            "late": write_subscriber(self.root, self.stream, self.late, "late", **small),
        }

    def full_ranges(self, rows: Rows, count: int) -> np.ndarray[Any, Any]:
        """Some EVENTS rows of SIZE events, apart from each other and from the ends."""
        whole = (rows["kind"] == Kind.EVENTS) & (rows["last"] - rows["first"] + 1 == SIZE)
        return np.flatnonzero(whole)[10:-10:9][:count]


def lose(scene: Scene, count: int = 3) -> dict[str, int]:
    gone = scene.full_ranges(scene.live, count)
    scene.live = chosen(scene.live, np.setdiff1d(np.arange(len(scene.live["kind"])), gone))
    return {"lost": count * SIZE}


def repeat(scene: Scene, count: int = 4) -> dict[str, int]:
    again = scene.full_ranges(scene.live, count + 20)[20:]
    order = np.sort(np.concatenate([np.arange(len(scene.live["kind"])), again]), kind="stable")
    scene.live = chosen(scene.live, order)
    return {"duplicated": count * SIZE}


def swap(scene: Scene, count: int = 5) -> dict[str, int]:
    """A range and the next change places: the second of them comes too late."""
    order = np.arange(len(scene.live["kind"]))
    for at in scene.full_ranges(scene.live, count + 40)[40:].tolist():
        order[at], order[at + 1] = order[at + 1], order[at]
    times = scene.live["time"]
    scene.live = chosen(scene.live, order) | {"time": times}
    return {"out_of_order": count}


def change(scene: Scene, count: int = 2) -> dict[str, int]:
    rows = scene.full_ranges(scene.live, count + 10)[10:]
    scene.live["digest"][rows] ^= np.uint64(1)
    return {"forged": count * SIZE}


def invent(scene: Scene) -> dict[str, int]:
    """Events behind the last that was ever published."""
    end = len(scene.live["kind"]) - 1
    scene.live = chosen(scene.live, np.concatenate([np.arange(end), [end - 1, end]]))
    scene.live["first"][end] = EVENTS + 1
    scene.live["last"][end] = EVENTS + 5
    scene.live["last"][end + 1] = EVENTS + 5
    return {"forged": 5}


def bury(scene: Scene, count: int = 6) -> dict[str, int]:
    """Tombstones for events that nothing has collected: the last of their key."""
    rows = np.flatnonzero(scene.late["kind"] == Kind.EVENTS)[:count]
    events = int((scene.late["last"][rows] - scene.late["first"][rows] + 1).sum())
    scene.late["kind"][rows] = Kind.TOMBSTONES
    scene.late["digest"][rows] = 0
    return {"unmatched": events}


def bury_early(scene: Scene) -> dict[str, int]:
    """A tombstone, rightly so, but handed out before there was a reason."""
    next_of_key = {}
    following: dict[int, int] = {}
    for seq in range(EVENTS, 0, -1):
        key = int(scene.stream.key_numbers[seq - 1])
        following[seq] = next_of_key.get(key, 0)
        next_of_key[key] = seq
    rows = scene.full_ranges(scene.live, 60)[50:51]
    at = int(rows[0])
    first, last = int(scene.live["first"][at]), int(scene.live["last"][at])
    limit = int(scene.live["time"][at]) + RULES.clock_tolerance_ns
    early = [s for s in range(first, last + 1)
             if not following[s] or scene.stream.stored[following[s] - 1] > limit]  # fmt: skip
    scene.live["kind"][at] = Kind.TOMBSTONES
    scene.live["digest"][at] = 0
    return {"unmatched": len(early)}


def hurry(scene: Scene, count: int = 3) -> dict[str, int]:
    """Handed out half a second before it was stored; the log's times go back, too."""
    rows = scene.full_ranges(scene.live, count + 30)[30:]
    scene.live["time"][rows] -= SECOND // 2
    return {"clock": 2 * count}


def promise(scene: Scene, count: int = 4) -> dict[str, int]:
    """Acknowledged, and the owner knows nothing of it."""
    end = scene.acked
    extra = chosen(end, np.full(count, len(end["kind"]) - 1))
    extra["first"] = EVENTS + 1 + 10 * np.arange(count, dtype=np.uint64)
    extra["last"] = extra["first"] + np.uint64(9)
    scene.acked = {name: np.concatenate([end[name], extra[name]]) for name in end}
    return {"acked_but_lost": 10 * count}


def promise_other(scene: Scene) -> dict[str, int]:
    """The owner has something else instead."""
    scene.acked["content"][[3, 70]] += np.uint64(1)
    return {"acked_but_lost": 2 * scene.stream.batch}


FAULTS: list[Callable[[Scene], dict[str, int]]] = [
    lose, repeat, swap, change, invent, bury, bury_early, hurry, promise, promise_other,
]  # fmt: skip


def expected_of(faults: list[dict[str, int]]) -> dict[str, int]:
    names = {name for fault in faults for name in fault}
    return {name: sum(fault.get(name, 0) for fault in faults) for name in names}


def check(result: AuditResult, expected: dict[str, int]) -> None:
    assert result.violations == expected
    assert result.holds is not bool(expected)
    counts = result.totals.counts
    assert counts.unjudged == counts.pending == 0
    named = {finding.what.replace(" ", "_") for finding in result.findings}
    assert named <= expected.keys()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_alone(tmp_path: Path, fault: Callable[[Scene], dict[str, int]]) -> None:
    scene = Scene(tmp_path)
    expected = fault(scene)
    assert all(expected.values())
    scene.write()
    check(audit_in_memory(tmp_path, RULES), expected)


def test_all_together_on_spark(tmp_path: Path, spark: Any) -> None:
    scene = Scene(tmp_path)
    # `invent` moves the end, `swap` the order: those that choose rows by their place come first.
    order = [change, bury, bury_early, promise, promise_other, invent, swap, repeat, lose]
    expected = expected_of([fault(scene) for fault in order])
    logs = scene.write()
    result = audit_logs(tmp_path, spark=spark, master=MASTER, rules=RULES)
    check(result, expected)
    owed = result.totals.counts
    assert owed.owed == 2 * EVENTS
    assert (
        owed.delivered + owed.tombstoned + owed.lost + owed.forged - 5 + owed.unmatched == owed.owed
    )
    assert {line.name: line.counts.lost for line in result.subscribers} == {
        "late/1": 0, "live/1": expected["lost"],
    }  # fmt: skip
    again = audit_in_memory(tmp_path, RULES)
    again.seconds = result.seconds
    key = lambda finding: (finding.what, finding.who, finding.first)  # noqa: E731
    for each in (result, again):
        each.findings.sort(key=key)
    assert result == again
    assert len(list(logs["owner"].iterdir())) > 1


def test_an_honest_scene(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write()
    result = audit_in_memory(tmp_path, RULES)
    assert result.holds
    assert result.is_complete
    dead = int(scene.stream.superseded().sum())
    counts = result.totals.counts
    assert (counts.owed, counts.acked) == (2 * EVENTS, EVENTS)
    assert (counts.delivered, counts.tombstoned) == (2 * EVENTS - dead, dead)
    assert result.totals.staleness.events == counts.delivered
    assert sum(result.totals.slots) == counts.delivered


def cut_in_batch(log: Path) -> None:
    file = sorted(log.iterdir())[-1]
    os.truncate(file, file.stat().st_size - 200)


def cut_end_mark(log: Path) -> None:
    file = sorted(log.iterdir())[-1]
    os.truncate(file, file.stat().st_size - len(END_OF_STREAM))


def remove_first(log: Path) -> None:
    sorted(log.iterdir())[0].unlink()


def remove_middle(log: Path) -> None:
    sorted(log.iterdir())[1].unlink()


def remove_last(log: Path) -> None:
    sorted(log.iterdir())[-1].unlink()


def cut_in_head(log: Path) -> None:
    os.truncate(sorted(log.iterdir())[-1], 100)


@pytest.mark.parametrize("who", ["owner", "publisher", "live"])
@pytest.mark.parametrize(
    "damage",
    [cut_in_batch, cut_end_mark, remove_first, remove_middle, remove_last, cut_in_head],
    ids=lambda damage: damage.__name__,
)
def test_damaged_logs(tmp_path: Path, damage: Callable[[Path], None], who: str) -> None:
    """Never clean, never a false accusation, and accepted only if that is asked for."""
    logs = Scene(tmp_path).write()
    assert len(list(logs[who].iterdir())) >= 3
    damage(logs[who])
    result = audit_in_memory(tmp_path, RULES)
    assert [Path(each.log) for each in result.truncated] == [logs[who]]
    assert result.truncated[0].reason
    assert not result.holds
    assert result.violations == {}
    assert audit_in_memory(tmp_path, RULES, accept_truncated=True).holds
    if who == "owner":
        assert (result.totals.counts.unjudged > 0) is (result.events < EVENTS)


def test_no_log_of_the_owner(tmp_path: Path) -> None:
    logs = Scene(tmp_path).write()
    shutil.rmtree(logs["owner"])
    result = audit_in_memory(tmp_path, RULES)
    assert result.ownerless == ["prices"]
    assert result.totals.counts.unjudged == 2 * EVENTS + EVENTS
    assert result.violations == {}
    assert not result.holds


def test_an_owner_that_was_started_again(tmp_path: Path) -> None:
    """Its logs are one; what is in both is the same, or in conflict."""
    scene = Scene(tmp_path)
    scene.write()
    again = MadeStream(events=EVENTS, latest_per_key=True, keys=50)
    write_owner(tmp_path, again, run="s")
    assert audit_in_memory(tmp_path, RULES).holds
    again.contents[[5, 17, 3000]] += np.uint64(1)
    write_owner(tmp_path, again, run="t")
    assert audit_in_memory(tmp_path, RULES).violations == {"conflicting": 3}


def test_tombstones_are_not_excused_by_logs_that_tell_everything_twice(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    expected = bury(scene)
    scene.write()
    write_owner(tmp_path, scene.stream, run="s")
    assert audit_in_memory(tmp_path, RULES).violations == expected
