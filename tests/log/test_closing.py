"""What a history knows about its end when it is opened."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from epicast.log import History
from epicast.log.closing import NAME
from epicast.log.restarts import may_have_lost
from epicast.log.segment import HEADER_BYTES, SUFFIX
from epicast.log.simulated import PowerCut, SimulatedDisk
from tests.log.stores import SMALL, every_store, store
from tests.log.streams import batch_of, numbered


def fill(history: History, count: int) -> None:
    content = numbered([(b"", b"x" * 20, 0, None)] * count, history.end + 1)
    history.append(
        batch_of(content, first=history.end + 1, last=history.end + count, epoch=history.epoch)
    )


@every_store
def test_closed_in_good_order(kind: str) -> None:
    with store(kind) as where:
        history = where.open(epoch=5)
        assert not history.recovery.is_complete
        assert history.recovery.segments == 0
        fill(history, 30)
        history.close()
        if where.keeps:
            history = where.open()
            assert history.recovery.closed_at == (5, 30)
            assert history.recovery.is_complete
            history.close()


def test_a_history_that_was_not_closed_is_not_complete() -> None:
    disk = SimulatedDisk(Random(1))
    history = History(disk, 7, config=SMALL)
    fill(history, 3)
    history.close()
    history = History(disk, 7, config=SMALL)
    assert history.recovery.is_complete
    assert NAME not in disk.names()
    fill(history, 3)
    history.sync()
    disk.crash()
    history = History(disk, 7, config=SMALL)
    assert history.end == 6
    assert not history.recovery.is_complete


@pytest.mark.parametrize("sync", ["disk", "interval"])
def test_a_history_whose_first_segment_is_damaged_may_have_lost_events(sync: str) -> None:
    """Nothing of it is left, but it is not new."""
    disk = SimulatedDisk(Random(1))
    config = replace(SMALL, sync=sync)
    history = History(disk, 7, config=config)
    fill(history, 30)
    history.sync()
    disk.crash()
    disk.flip_bit(next(name for name in sorted(disk.names()) if name.endswith(SUFFIX)), 5)
    history = History(disk, 7, config=config)
    assert history.end == 0
    assert may_have_lost(history.recovery, config)


def test_a_damaged_note_says_nothing() -> None:
    disk = SimulatedDisk(Random(1))
    history = History(disk, 7, config=SMALL)
    fill(history, 3)
    history.close()
    disk.flip_bit(NAME, 3)
    assert History(disk, 7, config=SMALL).recovery.closed_at is None


def test_no_room_for_a_note_is_no_error() -> None:
    disk = SimulatedDisk(Random(1))
    history = History(disk, 7, config=SMALL)
    fill(history, 3)
    disk.capacity_bytes = 0
    history.close()
    assert History(disk, 7, config=SMALL).recovery.closed_at is None


@given(st.integers(0, 2**32), st.integers(0, 200))
def test_complete_is_never_said_of_a_history_that_lost_something(seed: int, cut_at: int) -> None:
    """Whatever the power cut hits: opening, appending without sync, closing."""
    rng = Random(seed)
    disk = SimulatedDisk(rng)
    appended = 0
    disk.cut_at = cut_at
    try:
        for _ in range(5):
            history = History(disk, 7, config=SMALL)
            assert history.end == appended
            for _ in range(rng.randrange(4)):
                count = rng.randrange(1, 60)
                appended += count  # even if it is cut: others may have been told in the meantime
                fill(history, count)
            history.close()
    except PowerCut:
        pass
    disk.crash()
    history = History(disk, 7, config=SMALL)
    if history.recovery.is_complete:
        assert history.end == appended


def damaged_disk(seed: int, *, closed: bool) -> SimulatedDisk:
    """Of a history whose appends are synced, and that has lost some of what it told others."""
    rng = Random(seed)
    disk = SimulatedDisk(rng)
    history = History(disk, 7, config=SMALL)
    for _ in range(rng.randrange(2, 8)):
        fill(history, rng.randrange(1, 60))
    if closed:
        history.close()
        last = max(name for name in disk.names() if name.endswith(SUFFIX) and disk.size(name) > 60)
        disk.cut_off(last, disk.size(last) - 1)
    else:
        history.sync()
        disk.crash()
        first = min(name for name in disk.names() if name.endswith(SUFFIX))
        disk.flip_bit(first, 8 * (HEADER_BYTES + 20))  # of the first batch, with more behind it
    return disk


@given(st.integers(0, 2**32), st.booleans(), st.lists(st.integers(0, 12), max_size=4))
def test_a_loss_is_told_until_it_is_noted(seed: int, closed: bool, cuts: list[int]) -> None:
    """Recovery cuts what is damaged and takes the note away. Whenever the power goes, however
    often, and also if somebody else opens and closes the history: the loss is not hidden."""
    disk = damaged_disk(seed, closed=closed)
    for cut in cuts:
        disk.cut_at = disk.operations + cut
        try:
            History(disk, 7, config=SMALL).close()
        except PowerCut:
            disk.crash()
    disk.cut_at = -1
    history = History(disk, 7, config=SMALL)
    assert may_have_lost(history.recovery, history.config)
    history.loss_is_noted()
    disk.crash()
    history = History(disk, 7, config=SMALL)
    assert not may_have_lost(history.recovery, history.config)


def test_a_loss_that_cannot_be_marked_changes_nothing() -> None:
    disk = damaged_disk(3, closed=False)
    before = disk.snapshot()
    disk.failing = True
    with pytest.raises(OSError, match="Input/output"):
        History(disk, 7, config=SMALL)
    disk.crash()
    assert disk.snapshot().items() >= before.items()
