"""Datagrams in the simulated network: rates of mishaps, groups, and what is checked."""

from collections import Counter

import pytest

from epicast.core import DATAGRAM, ConfigError, Group, Peer, Trace
from epicast.sim.latency import ConstantLatency, UniformLatency
from epicast.sim.network import Conditions
from tests.sim.probe import MS, SECOND, Lab, Note

MANY = 20_000


def shower(conditions: Conditions, seed: int = 1, many: int = MANY) -> list[tuple[int, str]]:
    """Times and texts of what arrives of `many` numbered datagrams, sent 1 ms apart."""
    lab = Lab(2, seed, latency=ConstantLatency(5 * MS), conditions=conditions)

    def send(number: int, _: object) -> None:
        lab.send(1, 2, str(number), DATAGRAM)

    for number in range(many):
        lab.sim.scheduler.at(number * MS, send, number)
    lab.run(many * MS + SECOND)
    return [(entry[0], entry[1]) for entry in lab[2].log if entry[1] != "start"]


def test_a_calm_network_loses_nothing_and_keeps_the_order():
    arrived = shower(Conditions(), many=1000)
    assert arrived == [(number * MS + 5 * MS, str(number)) for number in range(1000)]


@pytest.mark.parametrize("rate", [0.01, 0.2])
def test_loss(rate):
    texts = [text for _, text in shower(Conditions(loss=rate))]
    assert len(texts) == len(set(texts))
    assert 1 - len(texts) / MANY == pytest.approx(rate, rel=0.1)


@pytest.mark.parametrize("rate", [0.01, 0.2])
def test_duplication(rate):
    counts = Counter(text for _, text in shower(Conditions(duplication=rate)))
    assert len(counts) == MANY
    assert set(counts.values()) == {1, 2}
    twice = sum(count == 2 for count in counts.values())
    assert twice / MANY == pytest.approx(rate, rel=0.1)


def test_reordering_delays_a_share_by_up_to_the_window():
    conditions = Conditions(reordering=0.1, reorder_window_ns=40 * MS)
    arrived = shower(conditions)
    late = [time - int(text) * MS - 5 * MS for time, text in arrived]
    delayed = [delay for delay in late if delay]
    assert len(arrived) == MANY and min(late) == 0
    assert len(delayed) / MANY == pytest.approx(0.1, rel=0.1)
    assert max(delayed) < 40 * MS
    assert sum(delayed) / len(delayed) == pytest.approx(20 * MS, rel=0.1)
    assert [text for _, text in arrived] != sorted((text for _, text in arrived), key=int)


def test_mishaps_depend_on_the_seed_alone():
    stormy = Conditions(loss=0.1, duplication=0.1, reordering=0.3)
    assert shower(stormy, 4, 2000) == shower(stormy, 4, 2000)
    assert shower(stormy, 4, 2000) != shower(stormy, 5, 2000)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2.0])
def test_conditions_are_shares_below_one(rate):
    with pytest.raises(ConfigError, match=r"loss: .* is not in"):
        Conditions(loss=rate)
    with pytest.raises(ConfigError, match="break_after_ns: -1 is negative"):
        Conditions(break_after_ns=-1)


def test_a_datagram_to_a_dead_node_is_lost_and_counted():
    lab = Lab(2)
    lab.send(1, 2, "in flight", DATAGRAM)
    lab.sim.crash(lab.node(2))
    lab.run(SECOND)
    assert lab.sim.drops == {"node down": 1}


def test_a_datagram_of_an_earlier_life_does_not_outlive_a_restart():
    """It might come after the up of the new one, which connections alone could not tell."""
    lab = Lab(2, latency=ConstantLatency(50 * MS))
    lab.send(1, 2, "old", DATAGRAM)
    lab.run(10 * MS)
    lab.sim.crash(lab.node(1))
    lab.run(10 * MS)
    lab.sim.start(lab.node(1))
    lab.send(1, 2, "new", DATAGRAM)
    lab.run(SECOND)
    assert lab[2].texts() == ["new"]
    assert lab.sim.drops == {"earlier incarnation": 1}


def test_a_datagram_of_a_node_that_is_gone_for_good_still_arrives():
    lab = Lab(2)
    lab.send(1, 2, "last words", DATAGRAM)
    lab.sim.crash(lab.node(1))
    lab.run(SECOND)
    assert lab[2].texts() == ["last words"]


# -- groups ---------------------------------------------------------------------------------------

GROUP = Group(7)


def in_group(lab: Lab, *members: int) -> None:
    for member in members:
        lab.act(member, lambda fx: fx.join(GROUP))


def heard(lab: Lab) -> dict[int, list[str]]:
    return {number: lab[number].texts() for number in lab.sim.nodes}


def test_a_group_reaches_its_other_members():
    lab = Lab(4)
    in_group(lab, 1, 2, 3)
    lab.send(1, GROUP, "all")
    lab.run(SECOND)
    assert heard(lab) == {1: [], 2: ["all"], 3: ["all"], 4: []}
    lab.act(3, lambda fx: fx.leave(GROUP))
    lab.send(1, GROUP, "fewer")
    lab.send(1, Group(8), "another group")
    lab.run(SECOND)
    assert heard(lab) == {1: [], 2: ["all", "fewer"], 3: ["all"], 4: []}


def test_only_members_send_to_a_group():
    lab = Lab(3)
    in_group(lab, 2, 3)
    lab.send(1, GROUP, "from outside")
    lab.run(SECOND)
    assert heard(lab) == {1: [], 2: [], 3: []}
    assert lab.sim.drops == {"group not joined": 1}


def test_members_need_not_know_each_other():
    lab = Lab(2, check_addresses=True)
    in_group(lab, 1, 2)
    lab.send(1, GROUP, "hello")
    lab.run(SECOND)
    assert heard(lab) == {1: [], 2: ["hello"]}
    lab.send(2, 1, "who sent it is known", DATAGRAM)
    lab.run(SECOND)
    assert lab[1].texts() == ["who sent it is known"]


def test_membership_ends_with_the_process():
    lab = Lab(2)
    in_group(lab, 1, 2)
    lab.sim.crash(lab.node(2))
    lab.sim.start(lab.node(2))
    lab.send(1, GROUP, "not for the new one")
    lab.run(SECOND)
    assert heard(lab) == {1: [], 2: []}


def test_loss_strikes_members_one_by_one():
    lab = Lab(11, conditions=Conditions(loss=0.5))
    in_group(lab, *range(1, 12))
    for number in range(200):
        lab.send(1, GROUP, str(number))
    lab.run(SECOND)
    counts = [len(texts) for node, texts in heard(lab).items() if node != 1]
    assert sum(counts) == pytest.approx(1000, rel=0.1)
    assert len({tuple(texts) for texts in heard(lab).values()}) == 11


# -- what is checked ------------------------------------------------------------------------------


def test_a_peer_must_be_known_before_it_is_sent_to():
    lab = Lab(3, check_addresses=True)
    lab.send(1, 2, "stranger", DATAGRAM)
    lab.send(1, 2, "stranger on a connection")
    lab.run(SECOND)
    assert lab.sim.drops == {"address unknown": 2}
    lab.act(1, lambda fx: (fx.send(2, Note("known in this step"), DATAGRAM), fx.know(Peer(2))))
    lab.run(SECOND)
    lab.send(2, 1, "answers find their way", DATAGRAM)
    lab.connect(1, 3)
    lab.send(1, 3, "connected")
    lab.run(SECOND)
    assert heard(lab) == {
        1: ["answers find their way", "up"],
        2: ["known in this step"],
        3: ["connected"],
    }
    assert lab.sim.drops == {"address unknown": 2}


def test_contacts_are_known_and_a_restart_forgets_the_others():
    lab = Lab(2, check_addresses=True)
    lab.act(1, lambda fx: fx.know(Peer(2)))
    lab.sim.crash(lab.node(1))
    lab.sim.start(lab.node(1))
    lab.send(1, 2, "forgotten", DATAGRAM)
    lab.sim.crash(lab.node(1))
    lab.sim.start(lab.node(1), [Peer(2)])
    lab.send(1, 2, "contact", DATAGRAM)
    lab.run(SECOND)
    assert lab[2].texts() == ["contact"]


def test_a_datagram_that_would_not_fit_a_packet_is_refused():
    lab = Lab(2, check_addresses=True)
    lab.act(1, lambda fx: fx.know(Peer(2)))
    lab.send(1, 2, "small", DATAGRAM, padding=bytes(1300))
    lab.send(1, 2, "large", DATAGRAM, padding=bytes(1400))
    lab.send(1, 2, "large, but on a connection", padding=bytes(1400))
    lab.run(SECOND)
    assert lab[2].texts() == ["small", "large, but on a connection"]
    assert lab.sim.drops == {"datagram too large": 1}


def test_watching_does_not_change_what_happens():
    """The fast path and the one that traces and checks draw the same and order the same."""

    def run(**options: object) -> list[list[tuple[object, ...]]]:
        lab = Lab(5, latency=UniformLatency(MS, 30 * MS, seed=2), **options)
        for source in range(1, 6):
            lab.act(source, lambda fx: [fx.know(Peer(peer)) for peer in (1, 2, 3, 4, 5, 99)])
        for number in range(300):
            source = number % 5 + 1
            others = [peer for peer in (1, 2, 3, 99, 4, 5) if peer != source]
            channel = DATAGRAM if number % 3 else 0
            lab.at(number * MS, lab.send, source, others, str(number), channel)
        lab.run(2 * SECOND)
        return [lab[node].log for node in range(1, 6)]

    assert run() == run(trace=Trace(keep=False), check_addresses=True)
