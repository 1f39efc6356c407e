"""Each fault does what its scenario key says, when it says so, to whom it says."""

from random import Random

import pytest

from epicast.core import DATAGRAM, ConfigError, Peer
from epicast.sim.faults import (
    AnyFault,
    Crash,
    CutLink,
    DiskFull,
    Drift,
    Injector,
    Leave,
    Partition,
    Pause,
    Weather,
)
from epicast.sim.network import Conditions
from tests.sim.probe import MS, SECOND, Lab, batch


def lab_with(*faults: AnyFault, nodes: int = 10, seed: int = 1, **options) -> Lab:
    lab = Lab(nodes, **options)
    Injector(lab.sim, Random(seed)).schedule(faults)
    return lab


def down(lab: Lab) -> list[int]:
    return [number for number, node in lab.sim.nodes.items() if not node.alive]


def paused(lab: Lab) -> list[int]:
    return [number for number, node in lab.sim.nodes.items() if node.paused]


# -- whom -----------------------------------------------------------------------------------------


def test_nodes_count_or_share():
    faults = {
        "nodes": Crash(at_ns=SECOND, nodes=[3, 5]),
        "count": Crash(at_ns=SECOND, count=4),
        "share": Crash(at_ns=SECOND, share=0.7),
        "all": Crash(at_ns=SECOND, count=40),
        "none": Crash(at_ns=SECOND, share=0.0),
    }
    hit = {}
    for name, fault in faults.items():
        lab = lab_with(fault)
        lab.run(SECOND - 1)
        assert down(lab) == []
        lab.run(1)
        hit[name] = down(lab)
    assert hit["nodes"] == [3, 5]
    assert {name: len(nodes) for name, nodes in hit.items()} == {
        "nodes": 2, "count": 4, "share": 7, "all": 10, "none": 0,
    }  # fmt: skip


def test_who_is_hit_is_drawn_from_the_seed_among_those_alive():
    def hit(seed: int) -> list[int]:
        lab = lab_with(Crash(at_ns=SECOND, count=5), Crash(at_ns=2 * SECOND, count=3), seed=seed)
        lab.run(3 * SECOND)
        return down(lab)

    assert hit(1) == hit(1)
    assert all(len(hit(seed)) == 8 for seed in range(10))
    assert len({tuple(hit(seed)) for seed in range(10)}) > 5


@pytest.mark.parametrize("choice", [{}, {"nodes": [1], "count": 1}, {"count": 1, "share": 0.5}])
def test_exactly_one_way_to_choose(choice):
    with pytest.raises(ConfigError, match="exactly one of nodes, count and share"):
        Crash(at_ns=0, **choice)


# -- crash and leave ------------------------------------------------------------------------------


def test_a_crash_without_restart_is_for_good_and_without_goodbye():
    lab = lab_with(Crash(at_ns=SECOND, nodes=[2]))
    victim = lab[2]
    lab.run(100 * SECOND)
    assert down(lab) == [2]
    assert victim.events() == []


def test_a_crashed_node_comes_back_with_live_contacts():
    lab = lab_with(
        Crash(at_ns=SECOND, nodes=[1, 2, 3, 4, 5, 6]),
        Crash(at_ns=SECOND, nodes=[7], restart_after_ns=5 * SECOND),
    )
    lab.run(6 * SECOND - 1)
    assert down(lab) == [1, 2, 3, 4, 5, 6, 7]
    lab.run(1)
    assert down(lab) == [1, 2, 3, 4, 5, 6]
    assert lab[7].recovered.incarnation == 2
    assert sorted(lab[7].contacts, key=lambda peer: peer.id) == [Peer(8), Peer(9), Peer(10)]


@pytest.mark.parametrize("dead", [0, 190, 199, 200])
def test_contacts_in_a_large_system_are_distinct_live_others(dead):
    lab = Lab(200)
    for number in range(1, dead + 1):
        lab.sim.crash(lab.node(number))
    injector = Injector(lab.sim, Random(3), max_contacts=3)
    met = set()
    for _ in range(300):
        contacts = [peer.id for peer in injector.contacts(200)]
        assert len(contacts) == len(set(contacts)) <= 3
        assert all(dead < peer < 200 for peer in contacts)
        assert contacts or dead >= 199
        met.update(contacts)
    assert len(met) >= 0.9 * (199 - dead)


def test_a_node_that_has_left_is_not_brought_back_by_a_later_crash():
    lab = lab_with(
        Leave(at_ns=SECOND, nodes=[2]),
        Crash(at_ns=2 * SECOND, nodes=[2], restart_after_ns=SECOND),
    )
    lab.run(10 * SECOND)
    assert down(lab) == [2]


@pytest.mark.parametrize("lose_disk", [False, True])
def test_a_crash_may_take_the_disk_along(lose_disk):
    lab = lab_with(
        Crash(at_ns=SECOND, nodes=[1], restart_after_ns=SECOND, lose_disk=lose_disk),
        disk_sync_ns=MS,
    )
    lab.act(1, lambda fx: fx.append(batch(1, 1)))
    lab.run(5 * SECOND)
    assert lab[1].recovered.log_ends == ({} if lose_disk else {1: 1})


@pytest.mark.parametrize(("silently", "noticed"), [(False, SECOND + MS), (True, 6 * SECOND)])
def test_a_silent_crash_is_noticed_late(silently, noticed):
    lab = lab_with(Crash(at_ns=SECOND, nodes=[2], silently=silently))
    lab.connect(1, 2)
    lab.connect(2, 1)
    lab.run(20 * SECOND)
    assert lab[1].times("down") == [noticed]


def test_leaving_says_goodbye():
    lab = lab_with(Leave(at_ns=SECOND, nodes=[2]))
    leaver = lab[2]
    lab.run(2 * SECOND)
    assert leaver.log[-1] == (SECOND, "stop")
    assert down(lab) == [2]


# -- pause ----------------------------------------------------------------------------------------


def test_a_pause_holds_everything_up_and_loses_nothing():
    lab = lab_with(Pause(at_ns=SECOND, nodes=[1], for_ns=2 * SECOND))
    for number in range(40):
        lab.at(number * 100 * MS, lab.send, 2, 1, str(number), DATAGRAM)
    lab.run(5 * SECOND)
    assert lab[1].texts() == [str(number) for number in range(40)]
    # What had left before, or came after, was not held up; all else came at once.
    arrivals = {int(entry[1]): entry[0] for entry in lab[1].log if entry[1] != "start"}
    for number, time in arrivals.items():
        sent = number * 100 * MS + MS
        assert time == (3 * SECOND if SECOND <= sent < 3 * SECOND else sent)


def test_overlapping_pauses_end_with_the_last_of_them():
    lab = lab_with(
        Pause(at_ns=SECOND, nodes=[1, 2], for_ns=4 * SECOND),
        Pause(at_ns=2 * SECOND, nodes=[2, 3], for_ns=6 * SECOND),
        Pause(at_ns=3 * SECOND, nodes=[2], for_ns=SECOND),
    )
    states = []
    for _ in range(9):
        lab.run(SECOND)
        states.append(paused(lab))
    assert states == [[1, 2], *[[1, 2, 3]] * 3, *[[2, 3]] * 3, [], []]


def test_a_restart_ends_a_pause_and_the_end_of_the_pause_does_not_end_the_next():
    lab = lab_with(
        Pause(at_ns=SECOND, nodes=[1], for_ns=5 * SECOND),
        Crash(at_ns=2 * SECOND, nodes=[1], restart_after_ns=SECOND),
        Pause(at_ns=4 * SECOND, nodes=[1], for_ns=4 * SECOND),
    )
    states = []
    for _ in range(9):
        lab.run(SECOND)
        states.append(paused(lab) == [1])
    #                 1s    2s     3s     4s    5s    6s    7s    8s     9s
    assert states == [True, False, False, True, True, True, True, False, False]


# -- clocks and disks -----------------------------------------------------------------------------


def offsets(lab: Lab) -> dict[int, int]:
    now = lab.sim.now
    return {
        number: node.clock.local(now) - now
        for number, node in lab.sim.nodes.items()
        if node.clock is not None
    }


def test_clocks_drift_by_up_to_the_rate_and_stay_off_afterwards():
    lab = lab_with(Drift(at_ns=SECOND, share=0.5, rate=0.01, for_ns=10 * SECOND))
    lab.run(6 * SECOND)
    halfway = offsets(lab)
    assert len(halfway) == 5
    assert all(0 < abs(offset) <= 50 * MS for offset in halfway.values())
    assert len(set(halfway.values())) == 5
    lab.run(5 * SECOND)
    end = offsets(lab)
    for number, offset in end.items():
        assert offset == pytest.approx(2 * halfway[number], abs=2)
    lab.run(100 * SECOND)
    assert offsets(lab) == end


def test_a_clock_steadies_even_while_its_node_is_down():
    lab = lab_with(
        Drift(at_ns=SECOND, nodes=[1], rate=0.01, for_ns=3 * SECOND),
        Crash(at_ns=2 * SECOND, nodes=[1], restart_after_ns=10 * SECOND),
    )
    lab.run(5 * SECOND)
    off = offsets(lab)
    lab.run(20 * SECOND)
    assert offsets(lab) == off
    assert lab[1].times("start") == [12 * SECOND + off[1]]


def test_overlapping_drifts_end_with_the_last_of_them():
    lab = lab_with(
        Drift(at_ns=SECOND, nodes=[1], rate=0.01, for_ns=3 * SECOND),
        Drift(at_ns=2 * SECOND, nodes=[1], rate=0.01, for_ns=8 * SECOND),
    )
    lab.run(6 * SECOND)
    before = offsets(lab)[1]
    lab.run(3 * SECOND)
    assert offsets(lab)[1] != before
    lab.run(SECOND)
    after = offsets(lab)
    lab.run(SECOND)
    assert offsets(lab) == after


def test_a_full_disk_refuses_for_a_while():
    lab = lab_with(
        DiskFull(at_ns=SECOND, nodes=[1], for_ns=3 * SECOND),
        DiskFull(at_ns=2 * SECOND, nodes=[1], for_ns=SECOND),
        disk_sync_ns=MS,
    )
    for second in range(6):
        number = second + 1
        lab.at(
            second * SECOND + SECOND // 2,
            lab.act, 1, lambda fx, number=number: fx.append(batch(number, 1)),
        )  # fmt: skip
    lab.run(10 * SECOND)
    outcomes = [(entry[0], entry[1]) for entry in lab[1].events()]
    assert outcomes == [
        ("appended", 1),
        *(("append failed", number) for number in (2, 3, 4)),
        ("appended", 5),
        ("appended", 6),
    ]


def test_nodes_without_a_disk_cannot_fill_it():
    lab = lab_with(DiskFull(at_ns=SECOND, share=1.0, for_ns=SECOND))
    lab.run(10 * SECOND)


# -- paths ----------------------------------------------------------------------------------------


def pings(lab: Lab, *pairs: tuple[int, int], until: int = 10) -> None:
    """A datagram a second, in the middle of it, over each path."""
    for second in range(until):
        for source, target in pairs:
            at = second * SECOND + SECOND // 2
            lab.at(at, lab.send, source, target, str(second), DATAGRAM)


def heard(lab: Lab, number: int, source: int) -> list[int]:
    return [int(text) for text, peer in lab[number].events() if peer == source]


def test_a_cut_stops_packets_between_two_nodes_for_a_while():
    lab = lab_with(CutLink(at_ns=3 * SECOND, for_ns=4 * SECOND, between=(1, 2)))
    pings(lab, (1, 2), (2, 1), (1, 3), (3, 2))
    lab.run(20 * SECOND)
    assert heard(lab, 2, 1) == heard(lab, 1, 2) == [0, 1, 2, 7, 8, 9]
    assert heard(lab, 3, 1) == heard(lab, 2, 3) == list(range(10))
    assert lab.sim.drops == {"cut": 8}


def test_a_cut_may_be_one_way_and_overlap_with_another():
    lab = lab_with(
        CutLink(at_ns=3 * SECOND, for_ns=4 * SECOND, between=(1, 2), one_way=True),
        CutLink(at_ns=2 * SECOND, for_ns=3 * SECOND, between=(1, 2), one_way=True),
    )
    pings(lab, (1, 2), (2, 1))
    lab.run(20 * SECOND)
    assert heard(lab, 2, 1) == [0, 1, 7, 8, 9]
    assert heard(lab, 1, 2) == list(range(10))


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_a_partition_splits_the_nodes_in_two(share):
    lab = lab_with(Partition(at_ns=3 * SECOND, for_ns=4 * SECOND, share=share))
    everybody = range(1, 11)
    pings(lab, *((a, b) for a in everybody for b in everybody if a != b))
    lab.run(20 * SECOND)
    sides = {
        frozenset(peer for peer in everybody if peer == node or 4 in heard(lab, node, peer))
        for node in everybody
    }
    island = round(share * 10)
    assert sorted(map(len, sides)) == [island, 10 - island]
    assert frozenset.union(*sides) == frozenset(everybody)
    one, _ = sides
    for node in everybody:
        for peer in everybody:
            together = (node in one) == (peer in one)
            expected = set(range(10)) if together else {0, 1, 2, 7, 8, 9}
            assert peer == node or set(heard(lab, node, peer)) == expected


def test_who_joins_during_a_partition_is_not_on_the_island():
    lab = lab_with(Partition(at_ns=SECOND, for_ns=10 * SECOND, share=0.2))
    lab.run(2 * SECOND)
    lab.sim.add_node(type(lab[1]))
    lab.send(11, list(range(1, 11)), "hello", DATAGRAM)
    lab.run(SECOND)
    assert sum("hello" in lab[node].texts() for node in range(1, 11)) == 8


def test_weather_is_the_worst_of_what_is_in_force():
    normal = Conditions(loss=0.1, duplication=0.05)
    lab = lab_with(
        Weather(at_ns=1 * SECOND, for_ns=4 * SECOND, loss=0.3),
        Weather(at_ns=2 * SECOND, for_ns=1 * SECOND, loss=0.05, reordering=0.2),
        Weather(at_ns=3 * SECOND, for_ns=4 * SECOND, loss=0.2, duplication=0.4),
        conditions=normal,
    )
    seen = []
    for _ in range(8):
        lab.run(SECOND)
        now = lab.sim.network.conditions
        seen.append((now.loss, now.duplication, now.reordering))
    assert seen == [
        (0.3, 0.05, 0.0),
        (0.3, 0.05, 0.2),
        (0.3, 0.4, 0.0),
        (0.3, 0.4, 0.0),
        (0.2, 0.4, 0.0),
        (0.2, 0.4, 0.0),
        (0.1, 0.05, 0.0),
        (0.1, 0.05, 0.0),
    ]
    assert lab.sim.network.conditions == normal


def test_two_equal_spells_of_weather_end_separately():
    spell = {"for_ns": 2 * SECOND, "loss": 0.3}
    lab = lab_with(Weather(at_ns=SECOND, **spell), Weather(at_ns=2 * SECOND, **spell))
    losses = []
    for _ in range(5):
        lab.run(SECOND)
        losses.append(lab.sim.network.conditions.loss)
    assert losses == [0.3, 0.3, 0.3, 0.0, 0.0]
    assert lab.sim.network.plain
