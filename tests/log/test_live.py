"""The set of live numbers against a plain set of integers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from epicast.log.live import LiveSet

PAGE = 1 << 16
# Around the ends of words and pages, where mistakes live.
near_edges = st.builds(
    lambda base, offset: max(1, base + offset),
    st.sampled_from([0, 64, 4096, PAGE, 2 * PAGE, 3 * PAGE, 7 * PAGE]),
    st.integers(-130, 130),
)


class LiveMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.live = LiveSet()
        self.model: set[int] = set()
        self.end = 0

    @rule(count=st.integers(1, 700), skip=st.sampled_from([0, 0, 1, 63, 64, PAGE - 1, PAGE, 99999]))
    def insert_range(self, count: int, skip: int) -> None:
        first = self.end + 1 + skip
        self.live.insert(np.arange(first, first + count, dtype=np.uint64))
        self.model.update(range(first, first + count))
        self.end = first + count - 1

    @rule(gaps=st.lists(st.sampled_from([1, 2, 3, 64, 200, 30000, PAGE]), min_size=1, max_size=40))
    def insert_some(self, gaps: list[int]) -> None:
        seqs = self.end + np.cumsum(np.array(gaps, dtype=np.uint64))
        self.live.insert(seqs.astype(np.uint64))
        self.model.update(seqs.tolist())
        self.end = int(seqs[-1])

    @rule(seqs=st.lists(near_edges, max_size=20), step=st.integers(2, 5))
    def remove(self, seqs: list[int], step: int) -> None:
        chosen = {*seqs, *sorted(self.model)[::step], 0}
        removed = self.live.remove(np.array(sorted(chosen), dtype=np.uint64))
        assert removed == len(chosen & self.model)
        self.model -= chosen

    @rule(bound=near_edges)
    def remove_below(self, bound: int) -> None:
        below = {seq for seq in self.model if seq < bound}
        assert self.live.remove_below(bound) == len(below)
        self.model -= below

    @rule()
    def tidy(self) -> None:
        self.live.tidy()

    @rule(first=near_edges, length=st.integers(0, 3 * PAGE))
    def look(self, first: int, length: int) -> None:
        last = first + length
        between = sorted(seq for seq in self.model if first <= seq <= last)
        assert self.live.members(first, last).tolist() == between
        assert self.live.members(first, last, 3).tolist() == between[:3]
        assert self.live.count(first, last) == len(between)
        assert self.live.next(first, last) == (between[0] if between else None)

    @rule(bounds=st.lists(near_edges, min_size=2, max_size=12))
    def count_between(self, bounds: list[int]) -> None:
        bounds.sort()
        expected = [sum(low <= seq < high for seq in self.model) for low, high in pairwise(bounds)]
        assert self.live.count_between(np.array(bounds, dtype=np.uint64)).tolist() == expected

    @rule(seqs=st.lists(near_edges, max_size=50))
    def contains(self, seqs: list[int]) -> None:
        answers = self.live.contains(np.array(seqs, dtype=np.uint64)).tolist()
        assert answers == [seq in self.model for seq in seqs]

    @invariant()
    def size(self) -> None:
        assert len(self.live) == len(self.model)


LiveMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLive = LiveMachine.TestCase


def test_collected_history_costs_next_to_nothing() -> None:
    live = LiveSet()
    for first in range(1, 20_000_000, 100_000):
        live.insert(np.arange(first, first + 100_000, dtype=np.uint64))
        live.remove(np.arange(first + 1, first + 100_000, dtype=np.uint64))
        live.tidy()
    assert len(live) == 200
    assert live.memory_bytes < 400_000, "one bit per number would be 2.5 million bytes"
