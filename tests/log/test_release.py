"""Histories whose events collect nothing before they are released."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from epicast.core import Event, EventBatch, EventKind
from epicast.log import GcPolicy, Predicate, gc_payload, parse
from tests.log import reference
from tests.log.stores import SMALL, every_store, store
from tests.log.streams import (
    batch_sizes,
    everything,
    in_batches,
    numbered,
    policies,
    predicate_sets,
    rows,
)

WAITING = replace(SMALL, waits_for_release=True)
LATEST = GcPolicy(latest_per_key=True)


def of_key(key: bytes, first: int, count: int = 1) -> EventBatch:
    return EventBatch.build(7, first, [b"%d" % (first + at) for at in range(count)],
                            keys=[key] * count)  # fmt: skip


def seqs(events: list[Event]) -> list[int]:
    return [event.seq for event in events]


@every_store
def test_what_is_not_released_collects_nothing(kind: str) -> None:
    with store(kind) as place:
        history = place.open(LATEST, WAITING)
        for first in (1, 2, 3):
            history.append(of_key(b"a", first))
        assert seqs(everything(history)) == [1, 2, 3]
        history.release(2)
        assert seqs(everything(history)) == [2, 3]
        history.release(1)  # that changes nothing
        history.release(10)  # nor does it release what comes later
        history.append(of_key(b"a", 4))
        assert seqs(everything(history)) == [3, 4]
        history.close()


def test_a_batch_waits_until_all_of_it_is_released() -> None:
    with store("memory") as place:
        history = place.open(LATEST, WAITING)
        history.append(of_key(b"a", 1))
        history.append(of_key(b"a", 2, 3))
        history.release(3)
        assert seqs(everything(history)) == [1, 2, 3, 4]
        history.release(4)
        assert seqs(everything(history)) == [4]


def test_a_gc_event_waits_although_nothing_else_collects() -> None:
    with store("memory") as place:
        history = place.open(GcPolicy(), WAITING)
        history.append(of_key(b"a", 1))
        gc = [gc_payload(parse("key == 'a'"))]
        history.append(EventBatch.build(7, 2, gc, kinds=[int(EventKind.GC)]))
        history.append(of_key(b"b", 3))
        assert seqs(everything(history)) == [1, 2, 3]
        history.release(3)
        assert seqs(everything(history)) == [2, 3]


def test_compaction_keeps_what_is_only_about_to_be_collected() -> None:
    with store("simulated") as place:
        history = place.open(LATEST, WAITING)
        for first in range(1, 400):
            history.append(of_key(b"a", first))
        while history.compact():
            pass
        assert history.statistics().live_events == 399
        assert len(everything(history)) == 399
        history.release(399)
        while history.compact():
            pass
        assert seqs(everything(history)) == [399]
        assert history.statistics().rewrites


def test_nothing_expires_before_it_is_released() -> None:
    with store("memory") as place:
        history = place.open(GcPolicy(max_age_ns=10, latest_per_key=True), WAITING)
        history.append(EventBatch.build(7, 1, [b"old"], time=0))
        history.append(EventBatch.build(7, 2, [b"young"], time=100))
        assert history.expiry(105) is None
        history.release(1)
        assert history.expiry(105) == parse("seq < 2")
        history.release(2)
        assert history.expiry(105) == parse("seq < 2")


@pytest.mark.parametrize("keeps", [False, True])
def test_another_epoch(keeps: bool) -> None:
    with store("memory") as place:
        history = place.open(LATEST, WAITING)
        history.append_many([of_key(b"a", 1), of_key(b"a", 2)])
        if keeps:
            history.raise_epoch(5)
            assert seqs(everything(history)) == [1, 2]
            history.release(2)
            assert seqs(everything(history)) == [2]
        else:
            history.release(2)
            history.reset(5)
            history.append(EventBatch.build(7, 1, [b"1", b"2"], keys=[b"a", b"a"], epoch=5))
            assert seqs(everything(history)) == [1, 2]


@settings(max_examples=60, deadline=None)
@given(
    policy=policies,
    few=predicate_sets,
    sizes=batch_sizes,
    data=st.data(),
    compact=st.booleans(),
    max_bytes=st.integers(100, 5000),
)
def test_as_if_everything_behind_what_is_released_did_not_exist(
    policy: GcPolicy,
    few: list[Predicate],
    sizes: list[int],
    data: st.DataObject,
    compact: bool,
    max_bytes: int,
) -> None:
    events = numbered(data.draw(rows(few, 120)), 1)
    with store("simulated") as place:
        history = place.open(policy, WAITING)
        released = 0
        for batch in in_batches(events, sizes):
            history.append(batch)
            if data.draw(st.booleans()):
                released = batch.last
                history.release(released)
            if compact:
                history.compact()
        live = reference.live(events[:released], policy)
        found = everything(history, max_bytes=max_bytes)
        waiting = events[released:]
        if policy.latest_per_key or policy.last_n is not None:
            assert found == live + waiting
        else:  # what surely collects nothing need not wait
            assert [event for event in found if event.seq <= released] == live
            assert [event for event in found if event.seq > released] == waiting
        history.close()
        reopened = place.open(policy, WAITING)
        assert everything(reopened) == reference.live(events, policy)
