"""When a backup is complete: not before the last collector has come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epicast.backup.errors import BackupError
from epicast.backup.online import _catch_up
from epicast.backup.writing import StreamBackup
from epicast.client import Reset, Watermark
from epicast.core import EventBatch
from epicast.protocols.sprinkler import StreamInfo
from epicast.runtime import run

INFO = StreamInfo(7, "prices", 1, "us", latest_per_key=True)


class Source:
    """A stream whose head moves each time it is asked for, and what is read of it."""

    name = "prices"

    def __init__(self, heads: list[tuple[int, int]], items: list[EventBatch | Reset]) -> None:
        self._heads = [Watermark(*head) for head in heads]
        self._items = items
        self.asked = 0

    async def head(self, timeout: float) -> Watermark:
        self.asked += 1
        return self._heads.pop(0) if len(self._heads) > 1 else self._heads[0]

    def subscribe(self, after: Watermark) -> Source:
        self.after = after
        return self

    async def next_batch(self, timeout: float) -> EventBatch | Reset | None:
        return self._items.pop(0) if self._items else None

    async def __aenter__(self) -> Source:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def batch(first: int, last: int, *, without: tuple[int, ...] = (), epoch: int = 1) -> EventBatch:
    seqs = [seq for seq in range(first, last + 1) if seq not in without]
    keys = [b"a" if seq in (5, 120) else b"%d" % seq for seq in seqs]
    return EventBatch.build(
        7, first, [b""] * len(seqs), keys=keys, seqs=seqs, last=last, epoch=epoch
    )


def caught_up(folder: Path, source: Any) -> StreamBackup:
    copy = StreamBackup(folder, INFO, None)
    with copy:
        run(_catch_up(source, copy, lambda *_: None, 1.0))
    return copy


def test_it_goes_on_to_what_has_collected_a_tombstone(tmp_path: Path) -> None:
    source = Source([(1, 100), (1, 120)], [batch(1, 100, without=(5,)), batch(101, 120)])
    assert caught_up(tmp_path, source).place == (1, 120)
    assert source.after == (0, 0) and source.asked == 2


def test_a_tombstone_on_the_way_makes_it_go_on_again(tmp_path: Path) -> None:
    source = Source(
        [(1, 50), (1, 60), (1, 70), (1, 70)],
        [batch(1, 50, without=(3,)), batch(51, 60, without=(55,)), batch(61, 70)],
    )
    assert caught_up(tmp_path, source).place == (1, 70)


def test_without_tombstones_it_ends_at_the_head_it_was_told_first(tmp_path: Path) -> None:
    source = Source([(1, 50), (1, 60)], [batch(1, 50), batch(51, 60)])
    assert caught_up(tmp_path, source).place == (1, 50)


def test_a_stream_that_begins_anew_meanwhile(tmp_path: Path) -> None:
    source = Source(
        [(1, 50), (2, 10)],
        [batch(1, 30), Reset(7, Watermark(2, 0)), batch(1, 10, epoch=2)],
    )
    assert caught_up(tmp_path, source).place == (2, 10)


def test_retention_at_the_source_leaves_a_gap(tmp_path: Path) -> None:
    source = Source([(1, 50)], [batch(1, 30), Reset(7, Watermark(1, 40)), batch(41, 50)])
    copy = StreamBackup(tmp_path, INFO, None)
    with copy:
        run(_catch_up(source, copy, lambda *_: None, 1.0))  # type: ignore[arg-type]
        entry = copy.finish("test")
    assert (entry.start, entry.end, entry.live_events) == (1, 50, 40)


def test_a_stream_whose_beginning_is_gone(tmp_path: Path) -> None:
    source = Source([(1, 50)], [Reset(7, Watermark(1, 40)), batch(41, 50)])
    copy = StreamBackup(tmp_path, INFO, None)
    with copy:
        run(_catch_up(source, copy, lambda *_: None, 1.0))  # type: ignore[arg-type]
        entry = copy.finish("test")
    assert (entry.start, entry.end) == (41, 50)


def test_an_empty_stream(tmp_path: Path) -> None:
    assert caught_up(tmp_path, Source([(4, 0)], [])).place == (4, 0)


def test_a_source_that_says_nothing_more(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="nothing came for 1 s at 30 of 50"):
        caught_up(tmp_path, Source([(1, 50)], [batch(1, 30)]))
