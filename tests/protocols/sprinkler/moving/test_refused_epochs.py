"""When a disk refuses to begin a stream's new epoch, owner and followers order it again."""

from __future__ import annotations

from typing import Any

import pytest

from epicast.core import EventBatch
from epicast.core.effects import BeginEpoch
from epicast.sim.disk import Commit
from epicast.sim.history_disk import HistoryDisk
from tests.protocols.sprinkler.moving.world import MS, REGIONS, SECOND, MovingWorld


class FullAtTheWrongMoment:
    """The first commits of a region that begin an epoch are refused; there is room again then."""

    def __init__(self, world: MovingWorld, region: str, times: int, patch: pytest.MonkeyPatch):
        self.left = times
        disk, accept = world.geo.proxies[region].disk, HistoryDisk.accept

        def refuse(asked: HistoryDisk, commit: Commit) -> str:
            begins = any(isinstance(write, BeginEpoch) for write in commit.batches)
            if asked is not disk or not begins or not self.left:
                return accept(asked, commit)
            self.left -= 1
            asked.fill()
            refused = accept(asked, commit)
            asked.free()
            return refused

        patch.setattr(HistoryDisk, "accept", refuse)


def stored(world: MovingWorld, region: str) -> list[bytes]:
    disk = world.geo.proxies[region].disk
    assert disk is not None
    return [p for batch in disk.read(world.stream, 1, 1 << 22) for p in batch.payloads()]


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("refusing", ["b", "c"])
def test_a_full_disk_during_a_forced_move_costs_nothing_but_time(
    monkeypatch: pytest.MonkeyPatch, refusing: str, times: int
) -> None:
    world = MovingWorld()
    for _ in range(100):
        world.publish("a")
        world.run(5 * MS)
    world.run(SECOND)
    full = FullAtTheWrongMoment(world, refusing, times, monkeypatch)
    taker: Any = world.geo.proxies["b"].protocol
    force = taker._force

    def with_late_events(now: int, asker: int, state: Any, target: int, fx: Any) -> None:
        """Have events from the source stored in the same commit."""
        late = [b"late%d" % number for number in range(5)]
        events = EventBatch.build(world.stream, state.taken + 1, late, epoch=state.epoch)
        taker._take_events(now, taker._source_of(world.stream), [events], fx)
        force(now, asker, state, target, fx)

    monkeypatch.setattr(taker, "_force", with_late_events)
    world.move("b", force=True)
    world.run(300 * MS)
    for _ in range(5):
        world.publish("b")
        world.run(20 * MS)
    world.run(5 * SECOND)
    assert len(world.acknowledged) == 105
    for region in REGIONS:
        assert set(world.acknowledged) <= set(stored(world, region)), region
        assert set(world.acknowledged) <= set(world.read[region]), region
    assert not full.left
