"""A simulated disk with the log on it: after a crash there is what recovery makes of the rest."""

from random import Random

import pytest

from epicast.core import EventBatch
from epicast.core.effects import BeginEpoch, Write
from epicast.log import GcPolicy, LogConfig
from epicast.log.segment import HEADER_BYTES, SUFFIX
from epicast.sim.disk import Commit
from epicast.sim.log_disk import KeptStream, LogDisk

STREAM = 3


class Clock:
    now = 1_700_000_000_000_000_000

    def __call__(self) -> int:
        return self.now


def disk_with(sync: str, *, owned: bool = True, on_files: bool = True, seed: int = 1):
    clock = Clock()
    config = LogConfig(sync=sync, segment_bytes=4096, window_bytes=4096)  # type: ignore[arg-type]
    kept = KeptStream(policy=GcPolicy(), config=config, on_files=on_files)
    disk = LogDisk(0, {STREAM: kept}, Random(seed), clock, lambda _: {STREAM} if owned else set())
    return disk, clock, disk.recovered(1).epochs[STREAM]


def write(disk: LogDisk, first: int, count: int, epoch: int, size: int = 10) -> dict[int, int]:
    batch = EventBatch.build(STREAM, first, [b"x" * size] * count, epoch=epoch)
    return commit_to(disk, batch)


def begin(disk: LogDisk, epoch: int, *, keeps: bool = False) -> None:
    assert commit_to(disk, BeginEpoch(STREAM, epoch, keeps)) == {}
    assert disk.take_failures() == []


def commit_to(disk: LogDisk, *writes: Write) -> dict[int, int]:
    commit = Commit(list(writes))
    assert not disk.accept(commit)
    return disk.sync(commit)


def come_back(disk: LogDisk, clock: Clock, **how: bool):
    disk.crash(lose_everything=how.get("lose_everything", False))
    clock.now += 1_000_000_000
    return disk.recovered(2)


def test_what_was_synced_is_there_after_a_crash():
    disk, clock, epoch = disk_with("disk")
    assert write(disk, 1, 5, epoch) == {STREAM: 5}
    found = come_back(disk, clock)
    assert (found.log_ends, found.epochs) == ({STREAM: 5}, {STREAM: epoch})


@pytest.mark.parametrize("seed", range(5))
def test_what_was_not_synced_may_be_gone_and_the_epoch_tells(seed: int):
    disk, clock, epoch = disk_with("memory", seed=seed)
    for first in range(1, 50):
        write(disk, first, 1, epoch)
    found = come_back(disk, clock)
    assert 0 <= found.log_ends[STREAM] <= 49
    assert found.epochs[STREAM] > epoch


def test_closed_in_good_order_nothing_is_lost():
    disk, clock, epoch = disk_with("memory")
    write(disk, 1, 5, epoch)
    disk.close()
    found = come_back(disk, clock)
    assert (found.log_ends, found.epochs) == ({STREAM: 5}, {STREAM: epoch})


def test_another_disk_is_empty_and_in_a_new_epoch():
    disk, clock, epoch = disk_with("disk")
    write(disk, 1, 5, epoch)
    found = come_back(disk, clock, lose_everything=True)
    assert found.log_ends == {STREAM: 0}
    assert found.epochs[STREAM] > epoch


def test_what_is_in_doubt_is_said_until_something_is_saved():
    disk, clock, _ = disk_with("disk", owned=False)
    begin(disk, 7)
    write(disk, 1, 5, 7)
    write(disk, 6, 5, 7)
    disk.crash(lose_everything=False)
    [name] = [name for name in disk.files[STREAM].names() if name.endswith(SUFFIX)]
    disk.files[STREAM].flip_bit(name, 8 * (HEADER_BYTES + 20))
    assert disk.recovered(2).doubtful == {STREAM}
    assert come_back(disk, clock).doubtful == {STREAM}
    commit = Commit(saves={"noted": b""})
    assert not disk.accept(commit)
    disk.sync(commit)
    assert come_back(disk, clock).doubtful == set()


def test_in_memory_nothing_survives():
    disk, clock, epoch = disk_with("memory", on_files=False)
    write(disk, 1, 5, epoch)
    found = come_back(disk, clock)
    assert found.log_ends == {STREAM: 0}
    assert found.epochs[STREAM] > epoch


def test_a_full_disk_fails_the_write_and_keeps_the_rest():
    disk, clock, epoch = disk_with("disk")
    write(disk, 1, 5, epoch)
    disk.fill()
    assert write(disk, 6, 5, epoch, size=200) == {}
    [(failed, reason)] = disk.take_failures()
    assert isinstance(failed, EventBatch) and failed.first == 6
    assert "No space left" in reason
    assert disk.take_failures() == []
    disk.free()
    assert write(disk, 6, 2, epoch) == {STREAM: 7}
    assert [(b.first, b.last) for b in disk.read(STREAM, 1, 1 << 20)] == [(1, 7)]
    assert come_back(disk, clock).log_ends == {STREAM: 7}


def test_who_is_started_again_is_not_told_of_what_failed_before():
    disk, _, epoch = disk_with("disk")
    disk.fill()
    assert write(disk, 1, 5, epoch, size=200) == {}
    disk.close()
    disk.free()
    disk.recovered(2)
    assert disk.take_failures() == []


def test_a_snapshot_is_gone_back_to():
    disk, _, epoch = disk_with("disk", owned=False)
    write(disk, 1, 5, epoch)
    snapshot = disk.snapshot([STREAM])
    write(disk, 6, 5, epoch)
    disk.crash(lose_everything=False)
    disk.restore(snapshot)
    assert disk.recovered(2).log_ends == {STREAM: 5}


def test_a_stream_in_a_newer_epoch_starts_over_when_it_is_told_to():
    disk, _, epoch = disk_with("disk", owned=False)
    begin(disk, epoch + 1)
    write(disk, 1, 5, epoch + 1)
    begin(disk, epoch + 2)
    write(disk, 1, 2, epoch + 2)
    assert [(b.epoch, b.first, b.last) for b in disk.read(STREAM, 1, 1 << 20)] == [
        (epoch + 2, 1, 2)
    ]
