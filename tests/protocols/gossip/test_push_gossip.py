"""One node of push gossip: what it delivers, forwards and ignores."""

from random import Random

import pytest

from epicast.core import DATA, DATAGRAM, ConfigError, EventBatch, Peer, Publication
from epicast.protocols.gossip import PushGossip, PushGossipConfig, Rumor
from epicast.protocols.membership import FullMembership
from tests.protocols.single import Single

ME = 1
EVERYBODY = list(range(1, 31))


def node(**config: int) -> Single:
    rng = Random(7)
    members = FullMembership(ME, EVERYBODY, rng)
    return Single(PushGossip(Peer(ME), PushGossipConfig(**config), rng, members))


def events(first: int, last: int, size: int = 10, stream: int = 5) -> EventBatch:
    numbers = range(first, last + 1)
    return EventBatch.build(stream, first, [str(n).encode().rjust(size) for n in numbers])


def spans(batches: list[EventBatch]) -> list[tuple[int, int]]:
    return [(batch.first, batch.last) for batch in batches]


def forwarded(single: Single) -> list[tuple[int, int]]:
    return spans([message.batch for _, message in single.sends])


def test_a_publication_is_delivered_here_and_sent_to_fanout_others():
    single = node(fanout=4)
    batch = events(1, 3, stream=ME)
    single.call("on_publish", (Publication(ME, 1, batch),))
    assert single.fx.deliveries == [batch]
    ((targets, message, channel),) = single.fx.sends
    assert len(set(targets)) == 4 and ME not in targets
    assert message.batch is batch and channel == DATAGRAM


def test_what_is_new_is_delivered_and_passed_on_as_it_came():
    single = node(fanout=4)
    rumor = Rumor(events(1, 3))
    single.receive(9, rumor)
    assert single.fx.deliveries == [rumor.batch]
    ((targets, message),) = single.sends
    assert message is rumor  # nothing is encoded again
    assert len(set(targets)) == 4
    single.receive(8, rumor)
    assert single.fx.deliveries == [] and single.sends == []
    assert single.protocol.statistics() == {
        "delivered": 3, "duplicates": 3, "forwarded": 12, "sources": 1,
    }  # fmt: skip


def test_targets_are_drawn_anew_each_time():
    single = node(fanout=4)
    chosen = set()
    for number in range(1, 30):
        single.receive(9, Rumor(events(number, number)))
        chosen.add(tuple(single.sends[0][0]))
    assert len(chosen) > 25


@pytest.mark.parametrize(
    ("before", "batch", "new"),
    [
        ([(1, 4)], (3, 8), [(5, 8)]),
        ([(5, 8)], (1, 6), [(1, 4)]),
        ([(3, 4), (7, 7)], (1, 10), [(1, 2), (5, 6), (8, 10)]),
        ([(1, 10)], (3, 8), []),
        ([], (4, 6), [(4, 6)]),
    ],
)
def test_of_a_partly_seen_batch_the_new_parts_count(before, batch, new):
    single = node(fanout=3)
    for first, last in before:
        single.receive(9, Rumor(events(first, last)))
    whole = events(*batch)
    single.receive(8, Rumor(whole))
    assert spans(single.fx.deliveries) == new
    assert forwarded(single) == new
    for part in single.fx.deliveries:
        assert part == whole.slice(part.first, part.last)
    assert [message.batch for _, message in single.sends] == single.fx.deliveries


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_statistics_count_events_however_they_are_batched(size):
    single = node(fanout=3)
    for _ in range(2):
        for first in range(1, 1001, size):
            single.receive(9, Rumor(events(first, min(first + size - 1, 1000))))
    assert single.protocol.statistics() == {
        "delivered": 1000, "duplicates": 1000, "forwarded": 3000, "sources": 1,
    }  # fmt: skip


def test_streams_do_not_interfere():
    single = node()
    single.receive(9, Rumor(events(1, 3, stream=5)))
    single.receive(9, Rumor(events(1, 3, stream=6)))
    assert len(single.fx.deliveries) == 1


@pytest.mark.parametrize(("size", "channel"), [(10, DATAGRAM), (2000, DATA)])
def test_large_batches_travel_on_connections(size, channel):
    single = node()
    single.receive(9, Rumor(events(1, 1, size)))
    assert [sent[2] for sent in single.fx.sends] == [channel]


def test_the_limit_is_the_size_of_the_batch():
    size = events(1, 1).wire_size()
    for limit, channel in ((size, DATAGRAM), (size - 1, DATA)):
        single = node(max_datagram_bytes=limit)
        single.receive(9, Rumor(events(1, 1)))
        assert single.fx.sends[0][2] == channel


def test_alone_a_node_delivers_and_sends_nothing():
    rng = Random(1)
    single = Single(PushGossip(Peer(1), PushGossipConfig(), rng, FullMembership(1, [1], rng)))
    single.call("on_publish", (Publication(1, 1, events(1, 1, stream=1)),))
    assert spans(single.fx.deliveries) == [(1, 1)]
    assert single.sends == []


def test_what_is_given_up_is_reported():
    single = node(max_sources=1, max_gaps=1)
    single.receive(9, Rumor(events(3, 3)))
    assert single.drops() == []
    single.receive(9, Rumor(events(5, 5)))
    assert single.drops() == ["seen gap"]
    single.receive(9, Rumor(events(1, 1, stream=6)))
    assert single.drops() == ["seen source"]
    (drop,) = single.fx.operations
    assert (drop.stream, drop.first, drop.last) == (5, 1, 5)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fanout", 0),
        ("fanout", 1001),
        ("max_datagram_bytes", -1),
        ("max_sources", 0),
        ("max_gaps", 0),
    ],
)
def test_configs_out_of_range_are_refused(field, value):
    with pytest.raises(ConfigError, match=field):
        PushGossipConfig(**{field: value})
