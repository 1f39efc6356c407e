"""Anything in any order: the history, a history fed by reading it, and the reference agree."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from epicast.core import Event
from epicast.log import GcPolicy, History, Predicate
from tests.log import reference
from tests.log.stores import KINDS, SMALL, store
from tests.log.streams import (
    batch_sizes,
    everything,
    in_batches,
    numbered,
    policies,
    predicate_sets,
    rows,
)


class Machine(RuleBasedStateMachine):
    kind = "memory"

    @initialize(policy=policies, few=predicate_sets)
    def start(self, policy: GcPolicy, few: list[Predicate]) -> None:
        self.resources = ExitStack()
        self.place = self.resources.enter_context(store(self.kind))
        self.policy = policy
        self.few = few
        self.history = self.place.open(policy)
        self.follower = History.in_memory(7, policy=policy, config=SMALL)
        self.events: list[Event] = []
        self.durable = 0

    def expected(self) -> list[Event]:
        return reference.live(self.events, self.policy)

    @precondition(lambda self: len(self.events) < 300)
    @rule(data=st.data(), sizes=batch_sizes, together=st.booleans())
    def append(self, data: st.DataObject, sizes: list[int], together: bool) -> None:
        new = numbered(data.draw(rows(self.few, 40)), len(self.events) + 1)
        batches = in_batches(new, sizes)
        if together:
            self.history.append_many(batches)
        else:
            for batch in batches:
                self.history.append(batch)
        self.events += new

    @precondition(lambda self: len(self.events) < 300)
    @rule(times=st.integers(1, 3), key=st.binary(min_size=1, max_size=2), count=st.integers(1, 150))
    def append_many_of_one_key(self, times: int, key: bytes, count: int) -> None:
        """Whole segments of garbage."""
        for _ in range(times):
            new = numbered([(key, b"payload", 5, None)] * count, len(self.events) + 1)
            self.history.append_many(in_batches(new, [13]))
            self.events += new

    @rule(max_bytes=st.integers(1, 20_000))
    def compact(self, max_bytes: int) -> None:
        self.history.compact(max_bytes)

    @rule()
    def compact_all(self) -> None:
        for _ in range(1000):
            if not self.history.compact():
                break
        else:
            raise AssertionError("compaction never ends")

    @rule()
    def sync(self) -> None:
        self.durable = self.history.sync()
        assert self.durable == len(self.events)

    @precondition(lambda self: self.place.keeps)
    @rule()
    def reopen(self) -> None:
        self.history.close()
        self.history = self.place.open(self.policy)
        assert self.history.recovery.truncation is None
        assert self.history.end == len(self.events)

    @rule(first=st.integers(1, 400), max_bytes=st.integers(1, 5000))
    def read(self, first: int, max_bytes: int) -> None:
        first = min(first, len(self.events) + 1)
        found = everything(self.history, first, max_bytes)
        assert found == [event for event in self.expected() if event.seq >= first]

    @rule(max_bytes=st.integers(1, 5000))
    def feed(self, max_bytes: int) -> None:
        """What was collected here already reaches the follower as tombstones only."""
        for batch in self.history.read(self.follower.end + 1, max_bytes):
            self.follower.append(batch)

    @invariant()
    def counts(self) -> None:
        if hasattr(self, "history"):
            assert self.history.end == len(self.events)
            assert self.history.durable_end >= self.durable

    def teardown(self) -> None:
        if not hasattr(self, "history"):
            return
        with self.resources:
            assert everything(self.history) == self.expected()
            assert self.history.statistics().live_events == len(self.expected())
            while self.follower.end < self.history.end:
                self.feed(3000)
            assert everything(self.follower) == self.expected()
            self.history.close()


@pytest.mark.parametrize("kind", KINDS)
def test_machine(kind: str) -> None:
    machine = type(f"{kind.title()}Machine", (Machine,), {"kind": kind})
    test = machine.TestCase  # type: ignore[attr-defined]
    test.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
    test().runTest()
