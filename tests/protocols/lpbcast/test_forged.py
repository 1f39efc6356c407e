"""What one stranger without rights can say of others, and how little comes of it."""

import pytest

from epicast.core import Publication
from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.lpbcast.event_ids import EventIds
from epicast.protocols.lpbcast.messages import (
    Announcement,
    EventRange,
    Gossip,
    Retrieve,
    SourceDigest,
)
from tests.protocols.lpbcast.nodes import (
    ME,
    ROUND,
    ages,
    batch,
    delivered,
    gossip,
    next_round,
    node,
    publish,
    system,
)

STRANGER = 66
FAR = 2**39


def digest(*items):
    return Gossip(digest=tuple(SourceDigest(*item) for item in items))


def wanted(single):
    return [item for _, message in single.sent(Retrieve) for item in message.wanted]


@pytest.mark.parametrize("settling", [0, 3])
@pytest.mark.parametrize("number", [5000, FAR, 2**62])
def test_what_a_digest_says_keeps_no_event_from_being_delivered(settling, number):
    single = node(1, 2, settling_rounds=settling)
    single.receive(STRANGER, digest((7, number)))
    for _ in range(5):
        single.fire("round")
    single.receive(1, gossip((1, batch(7, 1, 5))))
    assert delivered(single) == [(7, seq) for seq in range(1, 6)]
    [item] = next_round(single)[0].digest
    assert item == SourceDigest(7, 5)  # what it has delivered, not what it has heard of


def test_a_forged_digest_mutes_nobody_and_does_not_spread():
    network = system(12)
    network.run(10 * ROUND)
    forged = [digest((9, FAR)), digest((9, 2**62))]
    for victim in (3, 9):
        network.do(victim, lambda p, fx: p.on_messages(network.now, 2, forged, fx))
    network.run(20 * ROUND)
    events = [Publication(9, 1, batch(9, 1, 5))]
    network.do(9, lambda p, fx: p.on_publish(network.now, events, fx))
    network.run(30 * ROUND)
    got = {me: sum(each.rows for each in network.delivered[me]) for me in network.nodes}
    assert got == dict.fromkeys(network.nodes, 5)
    assert network.drops.count("implausible id") == 1  # 9 knows better itself


@pytest.mark.parametrize("settling", [0, 3])
def test_what_was_said_to_be_before_its_time_is_asked_for_once_somebody_shows_otherwise(settling):
    single = node(1, 2, settling_rounds=settling, retrieve_after_rounds=0)
    single.receive(STRANGER, digest((7, FAR)))
    for _ in range(5):
        single.fire("round")
    single.receive(1, digest((7, 2)))
    single.fire("round")
    assert EventRange(7, 1, 2) in wanted(single)  # an honest digest is enough
    single.receive(1, gossip((1, batch(7, 1))))
    single.receive(1, digest((7, 4)))
    single.fire("round")
    assert {2, 3, 4} == {
        seq for item in wanted(single) if item.source == 7 and item.first < FAR // 2
        for seq in range(item.first, item.last + 1)
    }  # fmt: skip


def test_events_that_come_say_better_than_anybody_what_to_ask_for():
    single = node(1, 2, retrieve_after_rounds=0)
    single.receive(STRANGER, digest((7, FAR)))
    single.receive(1, gossip((1, batch(7, 3))))
    single.receive(1, digest((7, 6)))
    single.fire("round")
    assert EventRange(7, 4, 6) in wanted(single)
    single = node(1, 2, retrieve_after_rounds=0, late_events=4)
    single.receive(1, gossip((1, batch(7, 50)), (1, batch(7, 40))))
    single.receive(1, digest((7, 50)))
    single.fire("round")
    assert wanted(single) == [EventRange(7, 41, 49)]


def test_who_was_away_while_a_source_went_on_goes_on_too():
    single = node(1, 2)
    single.receive(1, gossip((1, batch(7, 1))))
    single.receive(1, gossip((1, batch(7, 2**30))))
    assert delivered(single) == [(7, 2**30)]


def test_ids_that_nobody_can_have_got_to_are_dropped_and_counted():
    single = node(1, 2)
    single.receive(1, gossip((1, batch(7, 1, 5))))
    single.receive(
        STRANGER,
        gossip((1, batch(7, 2**62)), (1, batch(8, 2**62))),
        digest((7, 2**62), (7, 5, ((8, 2**62),))),
        Gossip(announced=(Announcement(1, EventRange(7, 2**62, 2**62 + 1)),)),
    )
    assert single.drops() == ["implausible id"] * 5
    assert not delivered(single)


def test_far_off_events_do_not_bury_those_that_come_next():
    single = node(1, 2, max_gaps=32, max_events=500)
    single.receive(1, gossip((1, batch(7, 1, 5))))
    for number in range(100):
        single.receive(STRANGER, gossip((1, batch(7, 10**9 + 10 * number))))
    assert single.drops() == ["seen gap"]
    for first in range(6, 600, 5):
        single.receive(1, gossip((1, batch(7, first, 5))))
        assert delivered(single) == [(7, seq) for seq in range(first, first + 5)]


@pytest.mark.parametrize("size", [1, 4])
def test_events_in_the_nodes_own_name_are_dropped_and_its_own_count(size):
    single = node(1, 2)
    single.receive(STRANGER, gossip((1, batch(ME, 1, size))), digest((ME, 2**30)))
    assert (delivered(single), single.drops()) == ([], ["event in our name"])
    single.receive(STRANGER, Gossip(announced=(Announcement(1, EventRange(ME, 2, 3)),)))
    single.fire("round")
    assert not wanted(single)
    publish(single, batch(ME, 1, 2, size=30))
    assert delivered(single) == [(ME, 1), (ME, 2)]
    assert set(ages(next_round(single))) == {(ME, 1), (ME, 2)}
    single.receive(1, gossip((5, batch(ME, 1, 2, size=30))))  # its own, back from others
    assert single.drops() == []
    assert single.protocol.statistics()["duplicates"] == 2


def looked_for(single):
    held = {}
    for item in single.protocol._retrieval._missing:
        held[item.source] = held.get(item.source, 0) + item.events
    return held


def test_a_forged_digest_does_not_take_the_places_of_others():
    single = node(1, 2, retrieve_after_rounds=2, max_retrievals=100)
    single.receive(1, gossip((1, batch(7, 1)), (1, batch(8, 1))))
    single.receive(STRANGER, digest((999, FAR)))
    assert looked_for(single) == {999: 50}  # nobody has shown an event of it
    single.receive(STRANGER, digest((8, FAR)))
    assert looked_for(single) == {999: 50, 8: 50}
    single.receive(1, digest((7, 4), (9, 2)))
    assert looked_for(single) == {999: 47, 8: 48, 7: 3, 9: 2}
    single.receive(1, digest((7, 401)))
    held = looked_for(single)
    assert sum(held.values()) == 100 and held[9] == 2
    assert min(held[7], held[8], held[999]) >= 25
    single.receive(STRANGER, digest(*[(source, 5) for source in range(2000, 2100)]))
    assert sum(number for source, number in looked_for(single).items() if source >= 9) <= 50


def test_what_made_way_is_looked_for_again_when_there_is_room():
    single = node(1, 2, retrieve_after_rounds=0, max_retrievals=4)
    single.receive(1, gossip((1, batch(7, 1)), (1, batch(8, 1))))
    single.receive(1, digest((7, 5), (8, 3)))
    assert looked_for(single) == {7: 2, 8: 2}
    single.receive(1, gossip((1, batch(8, 1, 3))))
    single.fire("round")
    single.receive(1, digest((7, 5)))
    assert looked_for(single) == {7: 4}


def test_what_was_given_up_of_sources_nobody_knows_is_forgotten_first():
    single = node(1, 2, retrieve_after_rounds=0, max_retrievals=8)
    single.receive(1, gossip((1, batch(7, 1))))
    single.receive(1, digest((7, 2)))
    for number in range(3):
        single.receive(STRANGER, digest(*[(1000 + 8 * number + i, 1) for i in range(8)]))
        for _ in range(3):
            single.fire("round")
    assert single.protocol.statistics()["retrieval_abandoned"] > 8
    sources = [item.source for item in single.protocol._retrieval._given_up]
    assert 7 in sources and len(sources) == 8


def test_sources_beyond_the_bound_are_forgotten_and_counted():
    single = node(1, 2, max_sources=4)
    for source in range(10, 16):
        single.receive(1, gossip((1, batch(source, 1))))
    assert single.protocol.statistics()["sources_forgotten"] == 2
    single.receive(1, gossip((1, batch(10, 1))))
    assert delivered(single) == [(10, 1)]  # for the second time
    assert single.drops() == ["seen source"]
    assert single.protocol.statistics()["sources_forgotten"] == 3
    named = {item.source for item in next_round(single)[0].digest}
    assert named == {13, 14, 15, 10}


def test_hearsay_is_bounded():
    ids = EventIds(LpbcastConfig(max_sources=8, settling_rounds=0))
    ids.settle()
    for source in range(100):
        ids.missing(SourceDigest(source, 9000), 10)
    assert len(ids._hearsay) == 8
    assert ids.sources == 0
