"""What a node finds worth somebody's attention, and what it does not."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from epicast.protocols.sprinkler import AgentConfig, Alarm, AlarmKind, Counter
from epicast.protocols.sprinkler.alarms import Watch
from tests.protocols.harness import SECOND
from tests.protocols.sprinkler.test_scenarios import cut, publish_for, three
from tests.protocols.sprinkler.world import World

PATIENCE = 5 * SECOND
OWNED, FOLLOWED = 1, 2


class Place(NamedTuple):
    epoch: int
    end: int


class Node:
    """One that owns a stream and follows another."""

    def __init__(self) -> None:
        self.places = {OWNED: Place(1, 100), FOLLOWED: Place(1, 50)}
        self.watch = Watch(PATIENCE, self.places)
        self.watch.start(0, [7, 8], [OWNED])

    def hear(self, second: float, peer: int, *counters: tuple[int, int, int]) -> None:
        self.watch.heard(int(second * SECOND), peer, [Counter(*counter) for counter in counters])

    def alarms(self, second: float) -> list[Alarm]:
        return self.watch.alarms(int(second * SECOND))

    def kinds(self, second: float) -> list[str]:
        return [str(alarm.kind) for alarm in self.alarms(second)]


def test_who_is_not_heard_of() -> None:
    node = Node()
    assert node.alarms(4.9) == [], "they have time to start"
    node.hear(3, 7)
    node.hear(4, 99)  # a stranger
    (alarm,) = node.alarms(5)
    assert alarm == Alarm(kind=AlarmKind.UNREACHABLE, since=0, peer=8)
    assert [a.peer for a in node.alarms(8)] == [7, 8]
    node.hear(9, 7)
    node.hear(9, 8)
    assert node.alarms(10) == []


def test_a_stream_that_stands_still_while_others_have_more() -> None:
    node = Node()
    for second in range(1, 20):
        node.hear(second, 7, (FOLLOWED, 1, 50 + second))
        node.hear(second, 8, (FOLLOWED, 1, 49))
        assert bool(node.alarms(second)) == (second >= 6)
    (alarm,) = node.alarms(19)
    assert alarm == Alarm(kind=AlarmKind.STALLED, since=SECOND, stream=FOLLOWED, peer=7, behind=19)
    node.places[FOLLOWED] = Place(1, 60)
    assert node.alarms(19.5) == [], "it moves"
    node.hear(20, 7, (FOLLOWED, 1, 70))
    node.hear(20, 8)
    assert node.alarms(24) == []
    node.hear(24, 7)
    node.hear(24, 8)
    (alarm,) = node.alarms(25)
    assert (alarm.since, alarm.behind) == (20 * SECOND, 10)
    node.places[FOLLOWED] = Place(1, 70)
    node.hear(26, 7, (FOLLOWED, 1, 70))
    node.hear(26, 8)
    assert node.alarms(30) == []


def test_a_stream_that_is_behind_but_moves_is_no_alarm() -> None:
    node = Node()
    for second in range(1, 30):
        node.places[FOLLOWED] = Place(1, 50 + second)
        for peer in (7, 8):
            node.hear(second, peer, (FOLLOWED, 1, 1000 + second))
        assert node.alarms(second) == []


def test_a_new_epoch_that_does_not_come() -> None:
    node = Node()
    node.hear(1, 7, (FOLLOWED, 2, 3))
    (alarm,) = [a for a in node.alarms(7) if a.kind == AlarmKind.STALLED]
    assert alarm.behind == 3, "everything of it"


def test_a_new_epoch_without_events_is_nothing_to_wait_for() -> None:
    node = Node()
    node.hear(1, 7, (FOLLOWED, 2, 0))
    assert node.kinds(20) == ["unreachable", "unreachable"]


def test_somebody_has_more_than_the_owner() -> None:
    node = Node()
    node.hear(1, 7, (OWNED, 1, 100), (3, 1, 7))  # 3: a stream that is not here
    assert "diverged" not in node.kinds(7)
    node.hear(8, 7, (OWNED, 1, 130))
    (alarm,) = [a for a in node.alarms(14) if a.kind == AlarmKind.DIVERGED]
    assert (alarm.stream, alarm.peer, alarm.behind) == (OWNED, 7, 30)
    node.places[OWNED] = Place(2, 100)  # its epoch was raised
    node.hear(15, 7, (OWNED, 1, 130))
    assert "diverged" not in node.kinds(30)


def test_what_cannot_be_stored() -> None:
    node = Node()
    node.watch.not_stored(2 * SECOND, OWNED, "disk full")
    node.watch.not_stored(3 * SECOND, OWNED, "still full")
    (alarm,) = node.alarms(3)
    assert alarm == Alarm(
        kind=AlarmKind.STORAGE, since=2 * SECOND, stream=OWNED, detail="still full"
    )
    node.watch.stored(OWNED)
    assert node.alarms(4) == []


# -- in the simulator ------------------------------------------------------------------------------


def alarms(world: World, region: str) -> dict[str, Alarm]:
    found = world.geo.proxy(region).alarms(world.simulation.now)
    return {str(alarm.kind): alarm for alarm in found}


def region_of(world: World, alarm: Alarm) -> str:
    return next(name for name, node in world.geo.proxies.items() if node.id == alarm.peer)


def test_a_cut_link_is_an_alarm_and_streams_that_go_round_it_are_none() -> None:
    world = three()
    client = world.client("us", "publisher").node
    world.run(10 * SECOND)
    assert not any(alarms(world, region) for region in ("us", "eu", "ap")), "nobody has published"
    is_cut = cut(world, ("us", "ap"))
    publish_for(world, client, "all", 12)
    (alarm,) = alarms(world, "ap").values()
    assert (alarm.kind, region_of(world, alarm)) == ("unreachable", "us")
    assert 9 * SECOND <= alarm.since <= 11 * SECOND
    assert alarms(world, "us").keys() == {"unreachable"} and not alarms(world, "eu")
    world.simulation.network.mend(is_cut)
    world.run(5 * SECOND)
    assert not any(alarms(world, region) for region in ("us", "eu", "ap"))


def test_a_region_whose_disk_is_full() -> None:
    world = three()
    client = world.client("us", "publisher").node
    publish_for(world, client, "all", 1)
    disk = world.geo.proxies["ap"].disk
    disk.fill()
    publish_for(world, client, "all", 12)
    found = alarms(world, "ap")
    assert found.keys() == {"storage", "stalled"}
    head = world.geo.heads("us")["all"]
    assert found["stalled"].behind == pytest.approx(head - world.geo.heads("ap")["all"], abs=100)
    assert "full" in found["storage"].detail
    assert not alarms(world, "us") and not alarms(world, "eu")
    disk.free()
    world.run(5 * SECOND)
    assert not alarms(world, "ap")
    world.run(SECOND)
    assert world.geo.heads("ap") == world.geo.heads("us")


def test_a_sidecar_without_its_proxy() -> None:
    world = three(agent=AgentConfig(follow_all=True))
    sidecar = world.sidecar("us", "sidecar").node
    client = world.client("us", "publisher", at=sidecar).node
    publish_for(world, client, "all", 7)
    protocol = sidecar.protocol
    assert protocol.alarms(world.simulation.now) == []
    assert protocol.clients == 1 and protocol.progress()["all"].seq > 0
    world.crash(world.geo.proxies["us"], silently=True)
    world.run(10 * SECOND)
    (alarm,) = protocol.alarms(world.simulation.now)
    assert (alarm.kind, alarm.peer) == ("unreachable", 0)
    world.restart(world.geo.proxies["us"])
    world.run(10 * SECOND)
    assert protocol.alarms(world.simulation.now) == []
