"""A batch as plain Python lists: what `EventBatch` is compared with, and how both are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from epicast.core import Event, EventBatch, Run
from epicast.core.ranges import MAX_SEQ

u64 = st.integers(0, 2**64 - 1)
short_bytes = st.one_of(st.just(b""), st.binary(max_size=6))


@dataclass
class PlainBatch:
    stream: int
    epoch: int
    first: int
    last: int
    events: list[Event]
    publishers: list[tuple[int, int]] | None
    """For each number covered its publisher and the publisher's own number, if known."""

    def slice(self, first: int, last: int) -> PlainBatch:
        publishers = self.publishers
        if publishers is not None:
            publishers = publishers[first - self.first : last - self.first + 1]
        events = [event for event in self.events if first <= event.seq <= last]
        return PlainBatch(self.stream, self.epoch, first, last, events, publishers)

    def runs(self) -> tuple[Run, ...]:
        """Neighbours by the same publisher with consecutive numbers, as few as possible."""
        runs: list[Run] = []
        for publisher, number in self.publishers or ():
            if runs and (publisher, number) == (
                runs[-1].publisher,
                runs[-1].first + runs[-1].count,
            ):
                runs[-1] = Run(publisher, runs[-1].first, runs[-1].count + 1)
            else:
                runs.append(Run(publisher, number, 1))
        return tuple(runs)

    def build(self, *, explicit: bool) -> EventBatch:
        """With `explicit`, columns that could be left out are given all the same."""
        events = self.events
        dense = len(events) == self.last - self.first + 1
        times = [event.time for event in events]
        return EventBatch.build(
            self.stream,
            self.first,
            [event.payload for event in events],
            keys=[e.key for e in events] if explicit or any(e.key for e in events) else None,
            time=times[0] if times and len(set(times)) == 1 and not explicit else times,
            kinds=[e.kind for e in events] if explicit or any(e.kind for e in events) else None,
            seqs=[event.seq for event in events] if explicit or not dense else None,
            last=self.last,
            epoch=self.epoch,
            runs=self.runs(),
        )


@st.composite
def plain_batches(draw: st.DrawFn, max_covered: int = 12) -> PlainBatch:
    covered = draw(st.integers(1, max_covered))
    first = draw(st.one_of(st.integers(1, 50), st.integers(1, MAX_SEQ + 1 - covered)))
    last = first + covered - 1
    stream = draw(u64)
    seqs = range(first, last + 1)
    if draw(st.booleans()):
        seqs = sorted(draw(st.sets(st.integers(first, last))))
    one_time = draw(st.none() | st.integers(0, 100))
    times = st.integers(-(2**63), 2**63 - 1) if one_time is None else st.just(one_time)
    keys = draw(st.sampled_from([short_bytes, st.just(b"")]))
    kinds = draw(st.sampled_from([st.integers(0, 1), st.just(0)]))
    events = [
        Event(stream, seq, draw(keys), draw(short_bytes), draw(times), draw(kinds)) for seq in seqs
    ]
    publishers = None
    if draw(st.booleans()):
        publishers = [
            (draw(st.integers(0, 1)) * (2**64 - 1), 7 + index + draw(st.integers(0, 1)))
            for index in range(covered)
        ]
    return PlainBatch(stream, draw(st.integers(0, 2**32 - 1)), first, last, events, publishers)


@st.composite
def batches(draw: st.DrawFn) -> EventBatch:
    return draw(plain_batches()).build(explicit=draw(st.booleans()))


def assert_same(batch: EventBatch, model: PlainBatch) -> None:
    """Everything a batch can be asked for."""
    events = model.events
    assert (batch.stream, batch.epoch) == (model.stream, model.epoch)
    assert (batch.first, batch.last, batch.rows) == (model.first, model.last, len(events))
    assert batch.tombstones == model.last - model.first + 1 - len(events)
    assert batch.events() == events
    assert batch.keys() == [event.key for event in events]
    assert batch.payloads() == [event.payload for event in events]
    assert batch.seqs.tolist() == [event.seq for event in events]
    assert batch.times.tolist() == [event.time for event in events]
    assert batch.kinds.tolist() == [event.kind for event in events]
    assert batch.runs == model.runs()
    assert bytes(batch.data) == b"".join(event.key + event.payload for event in events)
    assert batch.payload_bytes == len(batch.data)
    assert batch.offsets.tolist()[0] == 0
    assert batch.offsets.tolist()[-1] == len(batch.data)
    assert sum(map(len, batch.encode())) == batch.wire_size()
