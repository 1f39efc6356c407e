"""Sizes at which histories do things in parts: many batches at once, large ones, lag."""

from __future__ import annotations

from random import Random

import pytest

from epicast.core import EventBatch
from epicast.log import GcPolicy, History, KeyTooLong, in_memory
from epicast.log.keys import MOST_ROWS
from tests.log.stores import SMALL, every_store, store
from tests.log.streams import everything

LATEST = GcPolicy(latest_per_key=True)


def keyed(rng: Random, sizes: list[int], keys: int) -> list[EventBatch]:
    """Batches of these sizes; keys of all lengths, some empty."""
    names = [b"", *(b"%d" % n * (1 + n % 6) for n in range(keys))]
    batches, first = [], 1
    for size in sizes:
        chosen = rng.choices(names, k=size)
        batches.append(EventBatch.build(7, first, [b"x"] * size, keys=chosen))
        first += size
    return batches


def latest(batches: list[EventBatch]) -> list[int]:
    newest: dict[bytes, int] = {}
    without_key = []
    for batch in batches:
        for key, seq in zip(batch.keys(), batch.seqs.tolist(), strict=True):
            if key:
                newest[key] = seq
            else:
                without_key.append(seq)
    return sorted([*newest.values(), *without_key])


@pytest.mark.parametrize(
    "sizes",
    [
        [1000] * 20,
        [1] * 500,
        [MOST_ROWS, 1, MOST_ROWS, MOST_ROWS - 1, 2],
        [MOST_ROWS + 1],
        [5, 3 * MOST_ROWS, 7],
        [100_000],
    ],
    ids=["many", "tiny", "full", "too full", "mixed", "huge"],
)
@every_store
def test_everything_at_once_is_one_after_the_other(kind: str, sizes: list[int]) -> None:
    batches = keyed(Random(1), sizes, 3000)
    with store(kind) as where:
        history = where.open(LATEST, config=in_memory())
        history.append_many(batches)
        assert [event.seq for event in everything(history)] == latest(batches)
        one_by_one = History.in_memory(7, policy=LATEST)
        for batch in batches:
            one_by_one.append(batch)
        assert everything(one_by_one) == everything(history)
        history.close()
        if where.keeps:
            assert everything(where.open(LATEST)) == everything(one_by_one)


def test_young_segments_are_left_alone() -> None:
    rng = Random(2)
    config = in_memory(
        segment_bytes=4096, window_bytes=4096, compact_per_append=0.0, compact_lag_segments=3
    )
    history = History.in_memory(7, policy=LATEST, config=config)
    batches = keyed(rng, [10] * 400, 20)
    for batch in batches:
        history.append(batch)
        while history.compact():
            pass
        segments = history._segments.all
        assert not any(segment.rewritten for segment in segments[-4:]), "three, and the active one"
    assert any(segment.rewritten for segment in history._segments.all[:-4])
    assert history.statistics().stored_bytes < 8 * 4096
    assert [event.seq for event in everything(history)] == latest(batches)


@every_store
def test_what_is_refused_leaves_no_trace_in_a_segment(kind: str) -> None:
    with store(kind) as where:
        history = where.open(config=SMALL)
        history.append(EventBatch.build(7, 1, [b"first"]))
        before = history.statistics()
        too_long = EventBatch.build(7, 2, [b""], keys=[b"k" * 2000])
        with pytest.raises(KeyTooLong, match="max_key_bytes"):
            history.append(too_long)
        assert history.statistics() == before
        history.append(EventBatch.build(7, 2, [b"second"]))
        assert [event.payload for event in everything(history)] == [b"first", b"second"]
        history.close()
        if where.keeps:
            assert where.open(config=SMALL).end == 2
