"""The plug is pulled anywhere: what was synced is there, what is there was written, GC is right."""

from __future__ import annotations

import errno
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from epicast.core import Event, EventBatch
from epicast.log import CorruptBatch, DiskFull, GcPolicy, History, LogError, LogFailed
from epicast.log.segment import HEADER_BYTES
from epicast.log.simulated import PowerCut, SimulatedDisk
from tests.log import reference
from tests.log.stores import SMALL
from tests.log.streams import (
    Row,
    everything,
    in_batches,
    numbered,
    policies,
    predicate_sets,
    rows,
)

Step = tuple[str, list[Row]]


@st.composite
def scripts(draw: st.DrawFn) -> list[Step]:
    """What a proxy does with a history."""
    few = draw(predicate_sets)
    kinds = st.sampled_from(["append", "append", "append", "garbage", "sync", "compact", "reopen"])
    chosen = draw(st.lists(kinds, min_size=1, max_size=25))
    return [(kind, draw(rows(few, 30)) if kind == "append" else []) for kind in chosen]


class Proxy:
    """Runs scripts, and remembers what it was told is durable."""

    def __init__(self, disk: SimulatedDisk, policy: GcPolicy) -> None:
        self.disk = disk
        self.policy = policy
        self.written: list[Event] = []
        self.durable = 0

    def open(self) -> None:
        self.history = History(self.disk, 7, policy=self.policy, config=SMALL)
        self.durable = self.history.durable_end

    def run(self, step: Step) -> None:
        kind, content = step
        if kind == "append":
            self.append(numbered(content, self.history.end + 1))
        elif kind == "garbage":
            self.append(numbered([(b"k", b"x" * 50, 0, None)] * 100, self.history.end + 1))
        elif kind == "sync":
            self.durable = self.history.sync()
        elif kind == "compact":
            while self.history.compact(2000):
                pass
        else:
            self.history.close()
            self.open()

    def append(self, new: list[Event]) -> None:
        del self.written[self.history.end :]
        self.written += new  # it may get there even if we never hear that it did
        self.history.append_many(in_batches(new, [9]))

    def check(self) -> None:
        """After recovery."""
        end = self.history.end
        assert end >= self.durable, "something durable is lost"
        assert end <= len(self.written), "something nobody wrote"
        expected = reference.live(self.written[:end], self.policy)
        assert everything(self.history) == expected
        report = self.history.recovery
        assert (report.start, report.end) == (1, end)


@settings(max_examples=150, deadline=None)
@given(
    scripts(),
    policies,
    st.lists(st.integers(0, 80), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
def test_nothing_durable_is_lost(
    script: list[Step], policy: GcPolicy, cuts: list[int], seed: int
) -> None:
    disk = SimulatedDisk(Random(seed))
    proxy = Proxy(disk, policy)
    proxy.open()
    for cut in cuts:
        disk.cut_at = disk.operations + cut
        try:
            for step in script:
                proxy.run(step)
        except PowerCut:
            pass
        while True:  # the power may go again while recovery is at work
            disk.crash()
            disk.cut_at = disk.operations + cut % 5 if seed % 2 else -1
            seed //= 2
            try:
                proxy.history = History(disk, 7, policy=policy, config=SMALL)
                break
            except PowerCut:
                continue
        disk.cut_at = -1
        proxy.check()
        proxy.durable = proxy.history.durable_end


@settings(max_examples=150, deadline=None)
@given(scripts(), policies, st.integers(0, 2**32))
def test_a_flipped_bit_is_found(script: list[Step], policy: GcPolicy, seed: int) -> None:
    rng = Random(seed)
    disk = SimulatedDisk(rng)
    proxy = Proxy(disk, policy)
    proxy.open()
    for step in script:
        proxy.run(step)
    proxy.history.close()
    full = reference.live(proxy.written, policy)
    name = rng.choice([name for name in disk.names() if name.endswith(".seg")])
    disk.flip_bit(name, rng.randrange(8 * disk.size(name)))
    history = History(disk, 7, policy=policy, config=SMALL)
    truncation = history.recovery.truncation
    assert truncation is not None
    assert truncation.segment == name
    assert truncation.lost_bytes > 0
    start = history.start
    found = everything(history, start)
    stored = {event.seq: event for event in proxy.written}
    assert all(stored[event.seq] == event for event in found)
    # What is missing was collected, by an event that may be among those lost.
    missing = {e.seq for e in full if start <= e.seq <= history.end} - {e.seq for e in found}
    assert not missing
    again = History(disk, 7, policy=policy, config=SMALL)
    assert again.recovery.truncation is None
    assert everything(again, start) == found


def filled(disk: SimulatedDisk, count: int = 100) -> History:
    history = History(disk, 7, config=SMALL)
    for seq in range(1, count + 1):
        history.append(EventBatch.build(7, seq, [b"x" * 20]))
    history.sync()
    return history


def test_damage_after_opening_is_found_by_reading() -> None:
    disk = SimulatedDisk(Random(1))
    history = filled(disk, 10)
    disk.flip_bit(disk.names()[0], 8 * (HEADER_BYTES + 300))
    with pytest.raises(CorruptBatch, match="reopen") as caught:
        everything(history)
    assert caught.value.segment == disk.names()[0]


def test_a_full_disk_refuses_and_loses_nothing() -> None:
    disk = SimulatedDisk(Random(1))
    history = filled(disk)
    used = sum(map(disk.size, disk.names()))
    for room in range(0, 130, 7):  # the write stops anywhere in the batch, or before it
        disk.capacity_bytes = used + room
        batch = EventBatch.build(7, 101, [b"y" * 60])
        with pytest.raises(DiskFull, match="nothing was appended"):
            history.append(batch)
        assert history.end == 100
        assert sum(map(disk.size, disk.names())) == used
    assert len(everything(history)) == 100
    disk.capacity_bytes = 1 << 30
    history.append(batch)
    history.close()
    history = History(disk, 7, config=SMALL)
    assert history.recovery.truncation is None
    assert len(everything(history)) == 101


def test_a_disk_too_full_for_the_next_segment_refuses() -> None:
    disk = SimulatedDisk(Random(1))
    history = History(disk, 7, config=SMALL)
    seq = 0
    while history.statistics().segments < 3:
        seq += 1
        disk.capacity_bytes = sum(map(disk.size, disk.names())) + 110  # a batch, or a header
        try:
            history.append(EventBatch.build(7, seq, [b"x" * 20]))
        except DiskFull:
            assert history.end == seq - 1
            disk.capacity_bytes += 200
            history.append(EventBatch.build(7, seq, [b"x" * 20]))
    assert len(everything(history)) == seq


@pytest.mark.parametrize("seed", range(8))
def test_retention_leaves_something_that_survives_a_crash(seed: int) -> None:
    """A segment that is started on a full disk and gets no batch is not synced."""
    disk = SimulatedDisk(Random(seed))
    config = structs.replace(SMALL, retain_bytes=100)
    history = History(disk, 7, config=config)
    history.append(EventBatch.build(7, 1, [b"x" * SMALL.segment_bytes]))
    history.sync()
    disk.capacity_bytes = sum(map(disk.size, disk.names())) + HEADER_BYTES
    with pytest.raises(DiskFull):
        history.append(EventBatch.build(7, 2, [b"x" * 60]))
    assert history.retain(0) == 1
    disk.crash()
    assert History(disk, 7, config=config).end == 1


def test_compaction_on_a_full_disk_gives_up_and_tries_again() -> None:
    disk = SimulatedDisk(Random(1))
    policy = GcPolicy(latest_per_key=True)
    history = History(disk, 7, policy=policy, config=SMALL)
    for seq in range(1, 301):
        history.append(EventBatch.build(7, seq, [b"x" * 20], keys=[b"k%d" % (seq % 20)]))
    expected = everything(history)
    names = disk.names()
    disk.capacity_bytes = sum(map(disk.size, names))
    with pytest.raises(DiskFull):
        while history.compact():
            pass
    assert disk.names() == names
    assert everything(history) == expected
    disk.capacity_bytes = 1 << 30
    while history.compact():
        pass
    assert history.statistics().rewrites > 0
    assert everything(history) == expected


def test_after_a_failed_sync_only_reopening_helps() -> None:
    disk = SimulatedDisk(Random(1))
    history = filled(disk)
    history.append(EventBatch.build(7, 101, [b""]))
    disk.failing = True
    with pytest.raises(LogFailed, match="open it again"):
        history.sync()
    disk.failing = False
    with pytest.raises(LogFailed):
        history.append(EventBatch.build(7, 102, [b""]))
    with pytest.raises(LogFailed):
        history.sync()
    assert history.durable_end == 100
    assert len(everything(history)) == 101, "reading is still possible"
    disk.crash()
    assert History(disk, 7, config=SMALL).end in (100, 101)


def test_a_write_error_that_is_not_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk(Random(1))
    history = filled(disk, 5)

    def broken(_: object) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(SimulatedDisk, "is_cut", broken)
        with pytest.raises(LogError):
            history.append(EventBatch.build(7, 6, [b""]))
    # The write could not be undone either, so the history insists on being reopened.
    with pytest.raises(LogFailed):
        history.append(EventBatch.build(7, 6, [b""]))


def test_later_segments_are_set_aside_when_one_is_damaged() -> None:
    disk = SimulatedDisk(Random(1))
    history = filled(disk, 200)
    history.close()
    names = [name for name in disk.names() if name.endswith(".seg")]
    assert len(names) >= 4
    disk.flip_bit(names[1], 8 * (HEADER_BYTES + 10))
    history = History(disk, 7, config=SMALL)
    truncation = history.recovery.truncation
    assert truncation is not None
    assert (truncation.segment, truncation.position) == (names[1], HEADER_BYTES)
    assert truncation.reason == "a batch's checksum is wrong"
    assert truncation.set_aside == tuple(f"{name}.lost" for name in names[1:])
    assert set(truncation.set_aside) <= set(disk.names())
    assert history.end == history.recovery.end == int(names[1].removesuffix(".seg")) - 1
    history.append(EventBatch.build(7, history.end + 1, [b"new"]))
    assert len(everything(history)) == history.end


def test_a_missing_segment_ends_history() -> None:
    disk = SimulatedDisk(Random(1))
    filled(disk, 200).close()
    names = disk.names()
    disk.remove(names[1])
    history = History(disk, 7, config=SMALL)
    truncation = history.recovery.truncation
    assert truncation is not None
    assert truncation.segment == names[2]
    assert "expected" in truncation.reason
    assert history.end == int(names[1].removesuffix(".seg")) - 1
