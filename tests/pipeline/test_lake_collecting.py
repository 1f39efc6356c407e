"""What the lake takes for collected is what the stream's own history does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.log import GcPolicy
from epicast.pipeline.lake.collecting import (
    Collecting,
    gc_events_of,
    newest_per_key,
    rules_of,
)
from tests.pipeline.lake_events import (
    START_US,
    Row,
    event,
    gc,
    history,
    live_events,
    random_rows,
    table,
)

POLICIES = (
    GcPolicy(),
    GcPolicy(latest_per_key=True),
    GcPolicy(last_n=9),
    GcPolicy(latest_per_key=True, last_n=12),
)


def at_work(rows: list[Row], policy: GcPolicy) -> Collecting:
    return Collecting(rules_of(0, policy, gc_events_of(table(rows)), rows[-1]["last"]))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 60), st.sampled_from(POLICIES))
def test_live_events_are_those_of_the_history(seed: int, count: int, policy: GcPolicy) -> None:
    rows = random_rows(seed, count, policy)
    collected = at_work(rows, policy).collected(table(rows))
    live = [row["seq"] for row, gone in zip(rows, collected, strict=True) if not gone]
    assert live == [found.seq for found in live_events(history(rows, policy))]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 60), st.sampled_from(POLICIES))
def test_current_values_are_the_newest_live_ones(seed: int, count: int, policy: GcPolicy) -> None:
    rows = random_rows(seed, count, policy)
    events = table([row for row in rows if row["kind"] == "event"])
    found = newest_per_key(at_work(rows, policy).keep_matched_by_none(events))
    live = [e for e in live_events(history(rows, policy)) if e.key and not e.kind]
    assert {row["key"]: row["seq"] for row in found.to_pylist()} == {e.key: e.seq for e in live}


@pytest.mark.parametrize(("bound", "gone"), [(0, False), (1, False), (999, False), (1000, True)])
def test_a_time_inside_a_microsecond_collects_only_what_it_surely_matches(
    bound: int, gone: bool
) -> None:
    rows = [
        event(1, b"", b"x", at_us=START_US),
        gc(2, f"published_before {START_US * 1000 + bound}"),
    ]
    assert at_work(rows, GcPolicy()).collected(table(rows)).tolist() == [gone, False]


def test_only_a_predicate_that_may_spare_older_events_needs_all_of_them() -> None:
    closed, other = gc(1, 'key prefix "k" and seq < 9'), gc(1, "size < 9")
    assert not at_work([closed], GcPolicy()).rules.needs_all_events
    assert at_work([other], GcPolicy()).rules.needs_all_events
    assert not at_work([other], GcPolicy(latest_per_key=True)).rules.needs_all_events
