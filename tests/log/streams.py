"""Streams to try histories on: events, the batches they come in, and what a history says back."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from epicast.core import Event, EventBatch, EventKind, Run
from epicast.log import GcPolicy, History, Predicate, gc_payload
from epicast.log.predicate import ast

STREAM = 7

# Few keys, so that they meet; of all lengths around the words that kernels compare.
KEYS = [b"", b"a", b"b", b"ab", b"abc", b"abcd", b"abcdefg", b"abcdefgh", b"abcdefgi",
        b"abcdefghi", b"abcdefghijklmnop", b"abcdefghijklmnoq", b"x" * 40]  # fmt: skip
keys = st.sampled_from(KEYS)

atoms = st.one_of(
    st.builds(ast.key_in, st.lists(keys, min_size=1, max_size=3)),
    st.builds(ast.KeyPrefix, st.sampled_from([b"", b"a", b"ab", b"abcdefgh", b"x", b"zz"])),
    st.builds(ast.SeqBelow, st.integers(0, 60)),
    st.builds(ast.PublishedBefore, st.integers(0, 30)),
    st.builds(ast.SizeBelow, st.integers(0, 12)),
)
predicates: st.SearchStrategy[Predicate] = atoms | st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(ast.negate, inner),
        st.builds(ast.both, st.lists(inner, min_size=1, max_size=3)),
        st.builds(ast.either, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=5,
)

policies = st.builds(
    GcPolicy,
    latest_per_key=st.booleans(),
    last_n=st.none() | st.integers(1, 30),
)


predicate_sets = st.lists(predicates, min_size=1, max_size=3)
"""Few per test, so that equal ones meet."""

Row = tuple[bytes, bytes, int, Predicate | None]


def rows(few: Sequence[Predicate], max_size: int) -> st.SearchStrategy[list[Row]]:
    """Key, payload, time and, in a GC event, the predicate. Times may go backwards."""
    row = st.tuples(
        keys, st.binary(max_size=12), st.integers(0, 30), st.none() | st.sampled_from(few)
    )
    plain = st.tuples(keys, st.binary(max_size=12), st.integers(0, 30), st.none())
    return st.lists(row, max_size=max_size) | st.lists(plain, min_size=1, max_size=max_size)


def numbered(content: Sequence[Row], first: int) -> list[Event]:
    return [
        Event(STREAM, seq, key, payload, time)
        if predicate is None
        else Event(STREAM, seq, key, gc_payload(predicate, payload), time, EventKind.GC)
        for seq, (key, payload, time, predicate) in enumerate(content, start=first)
    ]


@st.composite
def events(draw: st.DrawFn, max_size: int = 60) -> list[Event]:
    """A stream from its beginning."""
    few = draw(predicate_sets)
    return numbered(draw(rows(few, max_size)), 1)


def batch_of(
    stream: Sequence[Event], *, first: int, last: int, epoch: int = 0, runs: Sequence[Run] = ()
) -> EventBatch:
    """The events between first and last as a batch; numbers that are missing are tombstones."""
    rows = [event for event in stream if first <= event.seq <= last]
    dense = len(rows) == last - first + 1
    return EventBatch.build(
        STREAM,
        first,
        [event.payload for event in rows],
        keys=[event.key for event in rows],
        time=[event.time for event in rows],
        kinds=[event.kind for event in rows] if any(event.kind for event in rows) else None,
        seqs=None if dense else [event.seq for event in rows],
        last=last,
        epoch=epoch,
        runs=runs,
    )


def in_batches(stream: Sequence[Event], sizes: Sequence[int], epoch: int = 0) -> list[EventBatch]:
    """The stream in batches of these sizes, the last one repeated."""
    batches: list[EventBatch] = []
    if not stream:
        return batches
    first, end = stream[0].seq, stream[-1].seq
    for size in [*sizes, *[sizes[-1]] * end]:
        if first > end:
            break
        last = min(first + size - 1, end)
        batches.append(batch_of(stream, first=first, last=last, epoch=epoch))
        first = last + 1
    return batches


batch_sizes = st.lists(st.integers(1, 40), min_size=1, max_size=20)


def everything(history: History, first: int = 1, max_bytes: int = 1 << 20) -> list[Event]:
    """All live events from `first` on; checks that reads are without gaps and within bounds."""
    found: list[Event] = []
    while first <= history.end:
        batches = history.read(first, max_bytes)
        assert batches, f"nothing at {first} though history ends at {history.end}"
        for batch in batches:
            assert batch.first == first, f"expected {first}, got {batch!r}"
            assert (batch.stream, batch.epoch) == (history.stream, history.epoch)
            found += batch.events()
            first = batch.last + 1
        total = sum(batch.wire_size() for batch in batches)
        assert total <= max_bytes or (len(batches) == 1 and batches[0].rows <= 1)
    return found
