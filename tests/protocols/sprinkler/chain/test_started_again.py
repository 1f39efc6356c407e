"""A replica that is started again while the chain still lists it."""

from __future__ import annotations

import pytest

from epicast.core import COORDINATION_ID
from epicast.protocols.sprinkler import ProxyConfig
from epicast.sim.node import SimNode
from tests.protocols.sprinkler.chain.one_region import MS, SECOND, Chain, place_of

SMALL_STEPS = ProxyConfig(chunk_bytes=1000, window_bytes=1000, recent_bytes=0)
COUNT = 20


class StartedAgain:
    """A replica has stored one event more than those behind it when it is started again, and the
    others cannot remove it: the coordination service is out of their reach."""

    def __init__(self, place: int) -> None:
        self.chain = chain = Chain(4, SMALL_STEPS)
        self.stream = chain.geo.streams["s"].id
        self.replica = chain.replicas[place]
        self.others = [node for node in chain.replicas if node is not self.replica]
        names = [b"%d" % number for number in range(COUNT)]
        chain.publish(*((name, name.ljust(800, b".")) for name in names))
        chain.run(2 * SECOND)
        assert len(chain.acknowledged) == COUNT
        others = {node.id for node in self.others}

        def is_far(source: int, target: int) -> bool:
            ends = {source, target}
            return COORDINATION_ID in ends and bool(ends & others)

        self.is_far = is_far
        chain.simulation.network.cut(is_far)
        is_cut = chain.cut_off(self.replica, chain.replicas[place + 1])
        chain.publish((b"more", b"not acknowledged"))
        chain.run(100 * MS)
        chain.simulation.crash(chain.publisher)
        chain.simulation.crash(self.replica)
        chain.simulation.network.mend(is_cut)
        chain.geo.restart(self.replica)

    def wait_until_it_gives_something_up(self) -> None:
        """Or for a second: it does not go on alone before three."""
        for _ in range(200):
            self.chain.run(5 * MS)
            if self.stored(self.replica) <= COUNT:
                return

    def stored(self, node: SimNode) -> int:
        assert node.disk is not None
        return sum(len(batch.payloads()) for batch in node.disk.read(self.stream, 1, 1 << 30))

    def shown(self) -> list[bytes]:
        reader = self.chain.subscribe("late")
        self.chain.run(10 * SECOND)
        return self.chain.delivered[reader.id]


@pytest.mark.parametrize("return_too", [False, True])
@pytest.mark.parametrize("place", [0, 1])
def test_it_forgets_nothing_while_it_may_have_to_go_on_alone(place: int, return_too: bool) -> None:
    trouble = StartedAgain(place)
    trouble.wait_until_it_gives_something_up()
    for node in trouble.others:
        trouble.chain.simulation.crash(node)
    if return_too:
        for node in trouble.others:
            trouble.chain.geo.restart(node)
    assert trouble.shown()[:COUNT] == trouble.chain.acknowledged


def test_it_joins_once_it_was_removed_and_forgets_what_nobody_else_has() -> None:
    trouble = StartedAgain(0)
    trouble.wait_until_it_gives_something_up()
    assert trouble.stored(trouble.replica) == COUNT + 1
    trouble.chain.simulation.network.mend(trouble.is_far)
    assert trouble.shown() == trouble.chain.acknowledged
    assert [trouble.stored(node) for node in trouble.chain.replicas] == [COUNT] * 4
    assert place_of(trouble.replica) == 3


def test_it_does_not_go_on_without_its_memory_while_members_are_well() -> None:
    """They beat, and cannot reach the coordination service to remove it."""
    chain = Chain(3, on_disk=False)
    chain.publish(*((b"%d" % number, b"%d" % number) for number in range(COUNT)))
    chain.run(SECOND)
    assert len(chain.acknowledged) == COUNT
    restarted, *members = chain.replicas

    def is_far(source: int, target: int) -> bool:
        ends = {source, target}
        return COORDINATION_ID in ends and not ends.isdisjoint(node.id for node in members)

    chain.simulation.network.cut(is_far)
    chain.simulation.crash(restarted, lose_disk=True)
    chain.geo.restart(restarted)
    chain.run(10 * SECOND)
    chain.simulation.network.mend(is_far)
    chain.run(5 * SECOND)
    assert [place_of(node) for node in (*members, restarted)] == [0, 1, 2]
    reader = chain.subscribe("late")
    chain.run(5 * SECOND)
    assert chain.delivered[reader.id] == chain.acknowledged


@pytest.mark.parametrize("is_tail", [True, False])
def test_who_numbers_nothing_holds_nobody_up(is_tail: bool) -> None:
    """An owner that was away asks other regions whether it still is, before it numbers anything.
    The head was not away, so publications that come by a replica that was need not wait: also not
    if that is let in before the other region is within its reach."""
    chain = Chain(3, others=["b"])
    chain.publish((b"0", b"before"))
    chain.run(SECOND)
    fresh = chain.replicas[-1]
    far = chain.geo.proxies["b"].id
    chain.simulation.crash(fresh)
    chain.run(SECOND)
    chain.simulation.network.cut(lambda source, target: {source, target} == {fresh.id, far})
    chain.geo.restart(fresh)
    while place_of(fresh) != 2:
        chain.run(MS)
    chain.publisher = chain.geo.add_client("a", "next", at=fresh if is_tail else chain.replicas[1])
    chain.publish((b"1", b"after"))
    chain.run(200 * MS)
    assert chain.acknowledged == [b"before", b"after"]
