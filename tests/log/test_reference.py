"""A history is what `reference.live` says, however the events came and whatever happened since."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import Event
from epicast.log import GcPolicy, History
from tests.log import reference
from tests.log.streams import batch_sizes, events, everything, in_batches, policies


@settings(max_examples=300, deadline=None)
@given(events(), batch_sizes, policies)
def test_live_events_are_those_the_filter_leaves(
    stream: list[Event], sizes: list[int], policy: GcPolicy
) -> None:
    history = History.in_memory(7, policy=policy)
    for batch in in_batches(stream, sizes):
        history.append(batch)
    assert everything(history) == reference.live(stream, policy)


@settings(max_examples=100, deadline=None)
@given(events(), st.integers(1, 60), st.integers(1, 2000), policies)
def test_reading_from_anywhere_in_pieces_of_any_size(
    stream: list[Event], first: int, max_bytes: int, policy: GcPolicy
) -> None:
    history = History.in_memory(7, policy=policy)
    history.append_many(in_batches(stream, [7]))
    expected = [event for event in reference.live(stream, policy) if event.seq >= first]
    assert everything(history, first, max_bytes) == expected
