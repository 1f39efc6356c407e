from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import (
    DATA,
    ConfigError,
    Effects,
    EventBatch,
    InvariantViolation,
    Peer,
    Publication,
)
from epicast.core.effects import Drop
from epicast.protocols.flood import Flood, FloodConfig, Flooded
from tests.protocols.single import Single

ME = 100


def node(*neighbors: int, **settings_: int) -> Single:
    single = Single(Flood(Peer(ME), FloodConfig(**settings_), Random(1)))
    for neighbor in neighbors:
        single.up(neighbor)
    return single


def batch(first: int, last: int, stream: int = 1) -> EventBatch:
    payloads = [b"%d" % seq for seq in range(first, last + 1)]
    return EventBatch.build(stream, first, payloads)


def spans(batches: list[EventBatch]) -> list[tuple[int, int]]:
    return [(part.first, part.last) for part in batches]


def test_published_batch_is_delivered_and_sent_to_all_neighbours():
    single = node(1, 2, 3)
    published = batch(1, 5, stream=ME)
    single.call("on_publish", [Publication(ME, 1, published)])
    assert single.fx.deliveries == [published]
    assert single.fx.sends == [([1, 2, 3], Flooded(published), DATA)]


def test_first_reception_is_forwarded_to_all_but_the_sender():
    single = node(1, 2, 3)
    message = Flooded(batch(1, 5))
    single.receive(2, message)
    assert single.fx.deliveries == [message.batch]
    ((to, forwarded),) = single.sends
    assert to == [1, 3]
    assert forwarded is message  # the same bytes, not a copy


def test_second_reception_is_counted_only():
    single = node(1, 2, 3)
    for source in (2, 3):
        single.receive(source, Flooded(batch(1, 5)))
    assert not single.fx.deliveries
    assert not single.sends
    statistics = single.protocol.statistics()
    assert (statistics["received"], statistics["duplicates"]) == (10, 5)
    assert (statistics["delivered"], statistics["forwarded"]) == (5, 10)


def test_partly_seen_batch_goes_on_in_its_new_parts():
    single = node(1, 2)
    single.receive(1, Flooded(batch(3, 5)))
    single.receive(1, Flooded(batch(1, 9)))
    assert spans(single.fx.deliveries) == [(1, 2), (6, 9)]
    assert single.fx.deliveries == [batch(1, 2), batch(6, 9)]
    assert single.sends == [([2], Flooded(batch(1, 2))), ([2], Flooded(batch(6, 9)))]
    assert single.protocol.statistics()["duplicates"] == 3


def test_streams_are_apart():
    single = node(1, 2)
    single.receive(1, Flooded(batch(1, 3, stream=7)))
    single.receive(1, Flooded(batch(1, 3, stream=8)))
    assert spans(single.fx.deliveries) == [(1, 3)]


def test_stranger_is_heard_and_everybody_else_told():
    single = node(1, 2)
    single.receive(55, Flooded(batch(1, 1)))
    ((to, _),) = single.sends
    assert to == [1, 2]


def test_neighbours_that_went_down_are_left_out():
    single = node(1, 2, 3)
    single.call("on_peer_down", 2)
    single.call("on_publish", [Publication(ME, 1, batch(1, 1, stream=ME))])
    ((to, _),) = single.sends
    assert to == [1, 3]
    assert single.protocol.neighbors() == [1, 3]


def test_only_neighbour_being_the_sender_nothing_is_sent():
    single = node(1)
    single.receive(1, Flooded(batch(1, 1)))
    assert single.fx.deliveries
    assert not single.fx.sends


def test_neighbour_announced_twice_gets_one_copy():
    single = node(1, 1)
    single.call("on_publish", [Publication(ME, 1, batch(1, 1, stream=ME))])
    assert single.sends[0][0] == [1]
    single.call("on_peer_down", 1)
    single.call("on_peer_down", 1)
    assert single.protocol.neighbors() == []


def test_tombstones_are_carried_along():
    single = node(1, 2)
    buried = EventBatch.build(1, 1, [b"3"], seqs=[3], last=6)
    single.receive(1, Flooded(buried))
    assert single.fx.deliveries == [buried]
    single.receive(1, Flooded(batch(1, 6)))
    assert not single.fx.deliveries


def test_sources_beyond_the_bound_are_displaced_and_reported():
    single = node(1, 2, max_sources=2)
    for stream in (7, 8, 9):
        single.receive(1, Flooded(batch(1, 4, stream=stream)))
    dropped = [op for op in single.fx.operations if isinstance(op, Drop)]
    assert dropped == [Drop("seen source", 0, 7, 1, 4)]
    assert single.protocol.statistics()["sources"] == 2


def test_gaps_beyond_the_bound_are_given_up_and_reported():
    single = node(1, 2, max_gaps=1)
    for first in (1, 11, 21):
        single.receive(1, Flooded(batch(first, first)))
    dropped = [op for op in single.fx.operations if isinstance(op, Drop)]
    assert dropped == [Drop("seen gap", 0, 1, 2, 10)]


@settings(max_examples=100, deadline=None)
@given(
    pieces=st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 30), st.integers(0, 12))
    )
)
def test_every_event_is_delivered_and_forwarded_once_however_it_is_batched(pieces):
    single = node(1, 2, 3)
    seen, duplicates = set(), 0
    for source, stream, first, more in pieces:
        single.receive(source, Flooded(batch(first, first + more, stream)))
        delivered = [
            (part.stream, event.seq) for part in single.fx.deliveries for event in part.events()
        ]
        events = {(stream, seq) for seq in range(first, first + more + 1)}
        assert sorted(delivered) == sorted(events - seen)
        assert [message.batch for _, message in single.sends] == single.fx.deliveries
        assert all(source not in to for to, _ in single.sends)
        duplicates += len(events & seen)
        seen |= events
    assert single.protocol.statistics()["duplicates"] == duplicates
    assert single.protocol.statistics()["delivered"] == len(seen)


def test_invariants_can_fail():
    single = node(1)
    with pytest.raises(InvariantViolation):
        single.up(ME)


@pytest.mark.parametrize("field", ["max_sources", "max_gaps"])
def test_config_out_of_bounds_names_the_field(field):
    with pytest.raises(ConfigError, match=f"^{field}: 0 "):
        FloodConfig(**{field: 0})


def test_message_is_not_changed_by_forwarding():
    message = Flooded(batch(1, 9))
    single = node(1, 2)
    single.receive(1, Flooded(batch(4, 4)))
    single.protocol.on_messages(0, 1, (message,), Effects())
    assert message == Flooded(batch(1, 9))
