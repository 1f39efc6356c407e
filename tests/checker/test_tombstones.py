"""Events that are gone do not hide behind tombstones that stand for others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epicast_checker import PublisherLog, Report, SubscriberLog, check, hash_bytes

STREAM, PUBLISHER, EPOCH = 1, 7, 1
COUNT = 1000
GONE = slice(300, 800)
"""Acknowledged, and never numbered."""


def _checked(
    folder: Path, collects: str, *, tombstones: int, gone: slice, first: int = 1
) -> Report:
    """All events have one key. Every subscriber gets `tombstones`, then the rest."""
    streams = {STREAM: ("s", collects)}
    contents = hash_bytes([b"%d" % number for number in range(COUNT)])
    keys = np.full(COUNT, 5, dtype=np.uint64)
    publisher = PublisherLog(folder, "p", streams)
    publisher.sent(STREAM, PUBLISHER, 1, 1_000_000, contents, keys)
    publisher.acked(STREAM, PUBLISHER, 1, 2_000_000, contents, keys, epoch=EPOCH, seq=COUNT)
    publisher.close()
    numbered = np.delete(contents, np.arange(COUNT)[gone])
    shown = numbered[tombstones:]
    for name in ("s1", "s2"):
        subscriber = SubscriberLog(folder, name, streams)
        subscriber.opened(STREAM, EPOCH, first, 1_000_000)
        end = first - 1 + tombstones
        if tombstones:
            subscriber.tombstones(STREAM, EPOCH, first, end, 1_500_000)
        subscriber.events(
            STREAM, EPOCH, end + 1, 1_600_000, shown, np.full(len(shown), 5, dtype=np.uint64)
        )
        subscriber.closed(STREAM, EPOCH, end + len(shown), 3_000_000)
        subscriber.close()
    return check(folder, events_per_file=100)


@pytest.mark.parametrize("collects", ["anything", "latest_per_key"])
@pytest.mark.parametrize("tombstones", [0, 1, 200])
def test_what_no_tombstone_is_left_for_is_lost(
    tmp_path: Path, collects: str, tombstones: int
) -> None:
    report = _checked(tmp_path, collects, tombstones=tombstones, gone=GONE)
    assert [each.never_delivered for each in report.subscribers] == [500, 500]
    assert [each.collected + each.undecided for each in report.subscribers] == [tombstones] * 2
    assert report.streams[0].lost == 500


@pytest.mark.parametrize("collects", ["anything", "latest_per_key"])
def test_what_has_its_tombstone_is_not_missed(tmp_path: Path, collects: str) -> None:
    report = _checked(tmp_path, collects, tombstones=500, gone=slice(0, 0))
    assert report.faults == 0
    assert [each.collected + each.undecided for each in report.subscribers] == [500, 500]


def test_who_began_later_may_have_been_spared_some(tmp_path: Path) -> None:
    report = _checked(tmp_path, "anything", tombstones=1, gone=GONE, first=2)
    assert report.faults == 0
    assert all(each.undecided >= 499 for each in report.subscribers)
