"""Neighbours that are gone are noticed, if that is asked for; the paper lets them grow old."""

from collections.abc import Callable

from epicast.core import Peer
from epicast.protocols.catalog import stack_factory
from epicast.protocols.cyclon import CyclonConfig
from epicast.protocols.cyclon.messages import Ping, Pong, ShuffleRequest
from epicast.sim.checkers import overlay
from epicast.sim.latency import ConstantLatency
from epicast.sim.simulation import Simulation
from tests.protocols.cyclon.nodes import ME, entries, node, twenty
from tests.protocols.single import Single

SECOND = 1_000_000_000
VIEW = ((1, 0), (2, 0), (3, 0))
LATER = 3600 * SECOND
"""Shuffles are not what this is about."""


def pinging(*view: tuple[int, int]) -> Single:
    return node(*view, ping_period_ns=SECOND, shuffle_period_ns=LATER)


def asked(single: Single) -> list[int]:
    single.fire("ping")
    return sorted(to for targets, _ in single.sent(Ping) for to in targets)


def test_nobody_is_asked_unless_that_is_wanted() -> None:
    assert node(*VIEW).protocol.timers.earliest == node(*VIEW).protocol.timers.deadline("shuffle")


def test_who_never_answers_is_passed_over_then_thrown_out() -> None:
    single = pinging(*VIEW)
    for unanswered in range(1, 4):
        assert asked(single) == [1, 2, 3]
        single.receive(1, Pong())
        single.receive(3, Pong())
        assert single.drops() == []
        assert sorted(single.protocol.sample(9)) == ([1, 2, 3] if unanswered == 1 else [1, 3])
    assert asked(single) == [1, 3]
    assert sorted(single.told) == [1, 3]
    assert single.protocol.statistics()["silent"] == 1


def test_a_doubtful_neighbour_is_given_to_nobody_and_comes_back_with_a_word() -> None:
    single = pinging(*VIEW)
    for _ in range(2):
        asked(single)
        for peer in (1, 3):
            single.receive(peer, Pong())
    single.receive(9, ShuffleRequest(Peer(9), 1, ()))
    ((_, answer),) = single.sends
    assert sorted(entry.peer.id for entry in answer.entries) == [1, 3]
    single.receive(2, Pong())
    assert sorted(single.protocol.sample(9)) == [1, 2, 3]


def test_who_speaks_unasked_is_not_asked() -> None:
    single = pinging(*VIEW)
    single.receive(1, Ping(Peer(1)))
    assert single.sends == [(1, Pong())]
    single.receive(2, ShuffleRequest(Peer(2), 1, entries((2, 0))))
    assert asked(single) == [3]
    assert asked(single) == [1, 2, 3], "once is not for ever"


def test_who_asks_gets_a_free_place_and_no_other() -> None:
    single = pinging(*VIEW)
    single.receive(7, Ping(Peer(7)))
    assert sorted(single.told) == [1, 2, 3, 7] and single.sends == [(7, Pong())]
    single.receive(8, Ping(Peer(8)))
    assert 8 not in single.told and single.sends == [(8, Pong())]


def test_answers_of_strangers_and_pings_in_others_names_are_dropped() -> None:
    single = pinging(*VIEW)
    single.receive(9, Pong())
    assert single.drops() == ["answer of no neighbour"]
    single.receive(9, Ping(Peer(8)))
    assert single.drops() == ["message in another's name"] and single.sends == []
    single.receive(9, Ping(Peer(ME)))
    assert single.drops() == ["message in another's name"]


def test_when_nobody_answers_nobody_is_thrown_out_or_passed_over() -> None:
    single = pinging(*VIEW)
    for _ in range(10):
        assert asked(single) == [1, 2, 3]
        assert sorted(single.protocol.sample(9)) == [1, 2, 3]
    single.receive(2, Pong())
    assert single.protocol.sample(9) == [2]
    assert asked(single) == [2]


def test_who_was_thrown_out_is_tried_again_like_a_contact() -> None:
    single = node(*VIEW, ping_period_ns=SECOND, shuffle_period_ns=LATER, contact_every=1)
    for _ in range(4):
        asked(single)
        for peer in (1, 3):
            single.receive(peer, Pong())
    single.fire("shuffle")
    ((to, _),) = single.sent(ShuffleRequest)
    assert to == 2 and single.known() == [2]


def split(cut: Callable[[int, int], bool], outage: int, shuffle_period: int) -> Simulation:
    """20 nodes, after an outage whose ends are long forgotten; contacts are on the same side."""
    simulation = twenty(2, shuffle_period_ns=shuffle_period, ping_period_ns=SECOND)
    simulation.network.cut(cut)
    simulation.run_for(outage)
    simulation.network.mend(cut)
    return simulation


def test_a_network_that_is_gone_for_a_while_costs_no_neighbours() -> None:
    def everybody(source: int, target: int) -> bool:
        return True

    simulation = split(everybody, 8 * SECOND, shuffle_period=5 * SECOND)
    left = [len(live.protocol.neighbors()) for live in simulation.live_nodes()]
    assert min(left) >= 3, "shuffles have cost one or two of six"
    simulation.run_for(10 * SECOND)
    assert overlay(simulation).measure().connected


def test_the_sides_of_a_mended_split_find_those_they_threw_out() -> None:
    def between_odd_and_even(source: int, target: int) -> bool:
        return source % 2 != target % 2

    simulation = split(between_odd_and_even, 20 * SECOND, shuffle_period=SECOND)
    assert not overlay(simulation).measure().connected, "each side has forgotten the other"
    simulation.run_for(60 * SECOND)
    assert overlay(simulation).measure().connected


def dead_share(ping_period_ns: int) -> float:
    """Of the neighbours of 20 nodes, ten seconds after 20 others vanished."""
    config = CyclonConfig(
        view_size=12, shuffle_length=6, shuffle_period_ns=SECOND, ping_period_ns=ping_period_ns
    )
    simulation = Simulation(3, latency=ConstantLatency(10_000_000))
    factory = stack_factory(["cyclon"], {"cyclon": config})
    for identity in range(1, 41):
        contacts = [simulation.nodes[1].peer] if identity > 1 else []
        simulation.add_node(factory, contacts, identity)
    simulation.run_for(20 * SECOND)
    for identity in range(21, 41):
        simulation.crash(simulation.nodes[identity], silently=True)
    simulation.run_for(10 * SECOND)
    neighbours = [peer for live in simulation.live_nodes() for peer in live.protocol.neighbors()]
    return sum(peer > 20 for peer in neighbours) / len(neighbours)


def test_views_are_nearly_free_of_the_dead_within_a_few_periods() -> None:
    assert dead_share(SECOND) < 0.04
    assert dead_share(0) > 0.2, "what it is for"
