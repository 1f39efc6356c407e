"""Hostile event batches: they can be decoded, but make wrong statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from epicast.core import BatchError, EventBatch, Run
from epicast.core.ranges import MAX_SEQ
from epicast.log import gc_payload, parse

LAST = MAX_SEQ
"""The last number a batch may cover."""
FIRSTS = (1, 2, 1000, 2**31, 2**32, 2**53, LAST // 2, LAST - 300, LAST - 2, LAST - 1, LAST)
EPOCHS = (0, 1, 2**31, 2**32 - 1)
TIMES = (0, 1, -1, 2**62, 2**63 - 1, -(2**63))
PREDICATES = (
    "seq < 5", "seq < 9223372036854775807", 'key == "k1"', 'key prefix "k"', 'key prefix ""',
    'key in ("k1", "k2") and seq < 9', "size < 2 and not published_before 1", "size < 1000000",
    "not seq < 3", 'key == ""',
)  # fmt: skip
GOOD_GC = tuple(gc_payload(parse(text)) for text in PREDICATES)
BAD_GC = (
    b"", b"\x00", b"\xff\xff\xff\xff", b"\x02\x00\x00\x00\xc0\xc0", b"garbage that is no predicate",
    GOOD_GC[0][:-1], GOOD_GC[2] + b"x", (2**31).to_bytes(4, "little"), b"\x00\x00\x00\x00value",
    GOOD_GC[5].replace(b"k", b"\xff"), b"\x93" * 500, (400).to_bytes(4, "little") + b"\x93" * 400,
)  # fmt: skip


class Knows(Protocol):
    @property
    def batches(self) -> list[EventBatch]: ...

    @property
    def newest(self) -> dict[int, EventBatch]: ...


def make_batch(rng: Random, known: Knows, number: Callable[[str], int]) -> EventBatch:
    """`number` gives a plausible one for a field by its name."""
    if known.batches and rng.random() < 0.25:
        return _changed(rng, rng.choice(known.batches), number)
    for _ in range(5):
        try:
            if known.newest and rng.random() < 0.4:
                return _following(rng, rng.choice(list(known.newest.values())), number)
            return _built(rng, number)
        except BatchError:
            continue
    return EventBatch.build(1, 1, [b"x"])


def _changed(rng: Random, batch: EventBatch, number: Callable[[str], int]) -> EventBatch:
    """Return a real batch with another first number, stream, epoch or publisher."""
    rows = batch.last - batch.first
    first = _first(rng, number) if rng.random() < 0.5 else batch.first
    stream = number("stream") if rng.random() < 0.3 else batch.stream
    epoch = rng.choice(EPOCHS) if rng.random() < 0.2 else batch.epoch
    runs = tuple(batch.runs)
    if rng.random() < 0.2:
        runs = ()
    elif runs and rng.random() < 0.3:
        runs = (Run(_unsigned(number("publisher")), _first(rng, number), rows + 1),)
    time = rng.choice(TIMES)
    return batch.renumbered(_unsigned(stream), epoch, max(1, min(first, LAST - rows)), time, runs)


def _following(rng: Random, batch: EventBatch, number: Callable[[str], int]) -> EventBatch:
    """Return what seems to be the next event of a stream."""
    bad = rng.random() < 0.5
    kind, payload = (1, rng.choice(BAD_GC)) if bad else (rng.choice((0, 1, 2)), _gc(rng))
    first = min(LAST, batch.last + rng.choice((1, 1, 1, 2, 0)))
    return EventBatch.build(
        batch.stream, max(1, first), [payload], keys=_keys(rng, 1), kinds=[kind], time=batch.last,
        epoch=batch.epoch, runs=[Run(_unsigned(number("publisher")), _first(rng, number), 1)],
    )  # fmt: skip


def _built(rng: Random, number: Callable[[str], int]) -> EventBatch:
    stream = _unsigned(number("stream"))
    epoch = rng.choice(EPOCHS) if rng.random() < 0.2 else number("epoch") % 2**32
    first = _first(rng, number)
    if rng.random() < 0.15:  # nothing but tombstones
        last = min(LAST, first + rng.choice((0, 1, 5, 1000, 2**32, 2**63, LAST)))
        return EventBatch.build(stream, first, [], seqs=[], last=last, epoch=epoch)
    count = rng.choice((1, 1, 1, 2, 2, 3, 7, 300))
    payloads, keys = _payloads(rng, count), _keys(rng, count)
    kinds = None
    if rng.random() < 0.4:
        kinds = [rng.choice((0, 1, 1, 1, 2, 255)) for _ in range(count)]
        payloads = [
            _gc(rng) if kind == 1 else payload
            for kind, payload in zip(kinds, payloads, strict=True)
        ]
    if rng.random() < 0.2:
        seqs = sorted({min(LAST, first + rng.choice((0, 1, 2, 9, 2**40))) for _ in range(count)})
        return EventBatch.build(
            stream, min(first, seqs[0]), payloads[: len(seqs)], seqs=seqs, epoch=epoch,
            keys=keys and keys[: len(seqs)], kinds=kinds and kinds[: len(seqs)],
            last=min(LAST, seqs[-1] + rng.choice((0, 0, 3, 2**63))),
        )  # fmt: skip
    first = min(first, LAST - count + 1)
    runs = [Run(_unsigned(number("publisher")), _first(rng, number), count)]
    return EventBatch.build(
        stream, first, payloads, keys=keys, kinds=kinds, epoch=epoch,
        time=rng.choice(TIMES) if rng.random() < 0.7 else [rng.choice(TIMES)] * count,
        runs=runs if rng.random() < 0.5 else (),
    )  # fmt: skip


def _first(rng: Random, number: Callable[[str], int]) -> int:
    if rng.random() < 0.3:
        return rng.choice(FIRSTS)
    return max(1, _unsigned(number(rng.choice(("first", "last", "seq", "end")))))


def _payloads(rng: Random, count: int) -> list[bytes]:
    size = rng.choice((0, 1, 8, 40, 40, 300, 70_000)) if count < 10 else 5
    return [b"h" * size] * count


def _keys(rng: Random, count: int) -> Sequence[bytes] | None:
    if rng.random() < 0.4:
        return None
    kind = rng.choice((b"k1", b"k2", b"", b"\xff\xfe", b"K" * 1025, b"K" * 5000))
    return [kind] * count


def _gc(rng: Random) -> bytes:
    return rng.choice(GOOD_GC if rng.random() < 0.5 else BAD_GC)


def _unsigned(number: int) -> int:
    return number % 2**64
