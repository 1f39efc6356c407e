"""`NotificationBuffer`, which works on runs, against one entry per event."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import EventBatch
from epicast.core.sampling import choose, sample
from epicast.protocols.event_runs import RunIndex, limited, merged, together
from epicast.protocols.notifications import NotificationBuffer

MOST_OLDER = 3


class Entry:
    def __init__(self, age: int, at_round: int, size: int) -> None:
        self.age = age
        self.round = at_round
        self.size = size
        self.repetitions = 0


class Model:
    """A dictionary in order of arrival, with the rules in their plainest form."""

    def __init__(self, events: int, size: int, purging: str, long_ago: int, rng: Random) -> None:
        self.max_events, self.max_bytes = events, size
        self.purging, self.long_ago, self.rng = purging, long_ago, rng
        self.entries: dict[tuple[int, int], Entry] = {}

    def over(self) -> bool:
        size = sum(entry.size for entry in self.entries.values())
        return len(self.entries) > self.max_events or size > self.max_bytes

    def purge(self) -> None:
        if not self.over():
            return
        if self.purging == "random":
            surplus = max(0, len(self.entries) - self.max_events)
            for event in sample(self.rng, list(self.entries), surplus):
                del self.entries[event]
            while self.over():
                del self.entries[choose(self.rng, list(self.entries))]
            return
        newest: dict[int, int] = {}
        for (source, _), entry in self.entries.items():
            newest[source] = max(newest.get(source, 0), entry.round)
        outdated = [
            event for event, entry in self.entries.items()
            if newest[event[0]] - entry.round > self.long_ago
        ]  # fmt: skip
        by_age = sorted(self.entries, key=lambda event: -self.entries[event].age)
        for event in [*outdated, *by_age]:
            if not self.over():
                break
            self.entries.pop(event, None)

    def named(self, source: int, first: int, last: int) -> list[Entry]:
        ids = [(source, seq) for seq in range(first, last + 1)]
        return [self.entries[event] for event in ids if event in self.entries]


RANGES = st.tuples(st.integers(1, 3), st.integers(1, 25), st.integers(0, 9))
STEPS = st.one_of(
    st.tuples(st.just("add"), RANGES, st.integers(0, 8)),
    st.tuples(st.just("age"), RANGES, st.integers(0, 20)),
    st.tuples(st.just("repeat"), RANGES, st.just(0)),
    st.tuples(st.just("round"), st.none(), st.sampled_from([0, 6, 12])),
)


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(STEPS, max_size=40),
    purging=st.sampled_from(["age", "random"]),
    max_events=st.integers(1, 25),
    max_bytes=st.sampled_from([400, 10_000]),
    seed=st.integers(0, 5),
)
def test_the_same_events_as_with_one_entry_each(steps, purging, max_events, max_bytes, seed):
    limits = (max_events, max_bytes, purging, 2)
    buffer, model = NotificationBuffer(*limits, Random(seed)), Model(*limits, Random(seed))
    had, number = set(), 0
    for what, ids, value in steps:
        if what == "round":
            number += 1
            buffer.grow_older(value)
            for event, entry in list(model.entries.items()):
                entry.age += 1
                if 0 < value < entry.age:
                    del model.entries[event]
            continue
        source, first, more = ids
        last = first + more
        if what == "add":
            if had & {(source, seq) for seq in range(first, last + 1)}:
                continue
            had |= {(source, seq) for seq in range(first, last + 1)}
            batch = EventBatch.build(source, first, [b"x" * 20] * (more + 1))
            buffer.add(batch, first, last, value, number)
            size = batch.wire_size() // batch.rows
            for seq in range(first, last + 1):
                model.entries[source, seq] = Entry(value, number, size)
            buffer.purge()
            model.purge()
        elif what == "age":
            buffer.raise_age(source, first, last, value, MOST_OLDER)
            for entry in model.named(source, first, last):
                entry.age = max(entry.age, min(value, entry.age + MOST_OLDER))
        else:
            buffer.count_repetition(source, first, last)
            for entry in model.named(source, first, last):
                entry.repetitions += 1
        check(buffer, model)


def check(buffer: NotificationBuffer, model: Model) -> None:
    found = [
        (run.source, seq, run.age, run.round, run.repetitions)
        for run in buffer.runs()
        for seq in range(run.first, run.last + 1)
    ]
    wanted = [(*event, e.age, e.round, e.repetitions) for event, e in model.entries.items()]
    assert found == wanted
    assert len(buffer) == len(wanted)
    assert buffer.bytes == sum(entry.size for entry in model.entries.values())
    ages = sorted((entry.age for entry in model.entries.values()), reverse=True)[: len(wanted) - 3]
    mean = sum(ages) / len(ages) if len(wanted) > 3 else None
    assert buffer.mean_age_beyond(3) == mean


def test_parts_in_the_same_state_become_one_run_again():
    buffer = NotificationBuffer(100, 10_000, "age", 10, Random(1))
    buffer.add(EventBatch.build(7, 1, [b"x"] * 30), 1, 30, 0, 0)
    buffer.count_repetition(7, 5, 9)
    buffer.grow_older(0)
    assert [(run.first, run.last) for run in buffer.runs()] == [(1, 4), (5, 9), (10, 30)]
    assert [(run.first, run.last) for run in together(buffer.runs())] == [(1, 30)]
    buffer.count_repetition(7, 1, 4)
    buffer.count_repetition(7, 10, 30)
    buffer.grow_older(0)
    assert [(run.first, run.last) for run in buffer.runs()] == [(1, 30)]


def test_ranges():
    assert merged([(2, 5, 5), (1, 3, 4), (1, 1, 2)]) == [(1, 1, 4), (2, 5, 5)]
    assert list(limited([(1, 1, 5), (2, 1, 2**60), (3, 1, 1)], 8)) == [(1, 1, 5), (2, 1, 3)]
    assert RunIndex().overlapping(1, 1, 9) == []
