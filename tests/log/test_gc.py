"""Garbage collection rule by rule (Sprinkler 2.1 and 3.4, and what the errata add)."""

from __future__ import annotations

import pytest

from epicast.core import EventBatch, EventKind
from epicast.log import GcPolicy, History, PredicateError, gc_payload, parse
from epicast.log.predicate import SeqBelow

LATEST = GcPolicy(latest_per_key=True)


class Stream:
    """Appends one event per batch, or all of them in one."""

    def __init__(self, policy: GcPolicy | None = None) -> None:
        self.history = History.in_memory(7, policy=policy)

    def data(self, key: bytes = b"", payload: bytes = b"", time: int = 0) -> Stream:
        return self._append(key, payload, time, EventKind.DATA)

    def gc(self, text: str, key: bytes = b"", time: int = 0) -> Stream:
        return self._append(key, gc_payload(parse(text)), time, EventKind.GC)

    def _append(self, key: bytes, payload: bytes, time: int, kind: EventKind) -> Stream:
        first = self.history.end + 1
        self.history.append(
            EventBatch.build(7, first, [payload], keys=[key], time=time, kinds=[kind])
        )
        return self

    @property
    def live(self) -> list[int]:
        return [seq for batch in self.history.read(1, 1 << 20) for seq in batch.seqs.tolist()]


def test_latest_per_key_keeps_the_latest() -> None:
    stream = Stream(LATEST).data(b"a").data(b"b").data(b"a").data(b"a")
    assert stream.live == [2, 4]


def test_events_without_a_key_are_not_the_same_key() -> None:
    assert Stream(LATEST).data().data().data().live == [1, 2, 3]


def test_keys_that_share_beginnings_are_different() -> None:
    names = [b"k" * length for length in range(1, 60)]
    stream = Stream(LATEST)
    for name in names + names:
        stream.data(name)
    assert stream.live == list(range(60, 119))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_last_n_keeps_n(count: int) -> None:
    """The erratum to 3.4: "index less than i - N" would keep N + 1."""
    stream = Stream(GcPolicy(last_n=count))
    for _ in range(9):
        stream.data()
    assert stream.live == list(range(10 - count, 10))


def test_the_policy_of_the_papers_benchmark() -> None:
    """5.1: an event at index i collects everything below i - N, here with N = 4."""
    stream = Stream(GcPolicy(last_n=4 + 1))
    for _ in range(10):
        stream.data()
    assert stream.live == [index for index in range(1, 11) if not index < 10 - 4]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('key == "a"', [2, 3, 4, 5]),
        ('key in ("a", "ab")', [3, 4, 5]),
        ('key prefix "a"', [3, 4, 5]),
        ('key == ""', [1, 2, 3, 5]),
        ("seq < 3", [3, 4, 5]),
        ("seq < 100", [5]),
        ("published_before 30", [3, 4, 5]),
        ("size >= 2", [1, 4, 5]),
        ("size == 2", [1, 3, 4, 5]),
        ('not key prefix "a"', [1, 2, 5]),
        ('key prefix "a" and size > 1 or published_before 11', [3, 4, 5]),
    ],
)
def test_predicates(text: str, left: list[int]) -> None:
    stream = Stream().data(b"a", b"1", 10).data(b"ab", b"22", 20).data(b"b", b"333", 30)
    assert stream.data(b"", b"", 40).gc(text, time=50).live == left


def test_a_gc_event_matches_nothing_that_comes_after_it() -> None:
    stream = Stream().data(b"a").gc("seq < 100").data(b"a").gc('key == "b"').data(b"b")
    assert stream.live == [2, 3, 4, 5]


def test_nor_anything_that_comes_after_it_in_the_same_batch() -> None:
    for text in ("seq < 100", 'key == "a"', 'key prefix ""', 'key == "a" and seq < 100'):
        for policy in (None, LATEST):
            history = History.in_memory(7, policy=policy)
            payloads = [b"", gc_payload(parse(text)), b""]
            batch = EventBatch.build(7, 1, payloads, keys=[b"a", b"", b"a"], kinds=[0, 1, 0])
            history.append(batch)
            assert [e.seq for b in history.read(1, 1 << 20) for e in b.events()] == [2, 3]


def test_a_gc_event_is_collected_by_an_equal_one() -> None:
    stream = (
        Stream().gc('key prefix "t"', key=b"t/gc").data(b"t/1").gc('key prefix "t"', key=b"t/gc")
    )
    assert stream.live == [3]


def test_a_gc_event_is_not_collected_by_an_equal_one_that_does_not_match_it() -> None:
    assert Stream().gc('key prefix "t"').gc('key prefix "t"').live == [1, 2]


def test_a_gc_event_is_collected_by_a_later_sequence_bound() -> None:
    assert Stream().gc('key == "a"').data().gc("seq < 3").live == [3]
    assert Stream().data().gc('key == "a"').gc("seq < 2").live == [2, 3]


def test_garbage_collection_is_final() -> None:
    """2.1: if g collects g', it must match all that g' collected; this one does not."""
    stream = Stream().data(b"a", b"small").gc('key == "a"', key=b"zz")
    stream.gc('key == "zz"')
    assert stream.live == [2, 3], "whoever gets the tombstone of 1 still gets 2 after it"


def test_under_latest_per_key_every_event_is_a_gc_event() -> None:
    """A large event collected a small one; collecting it by its size would leave no trace of why
    the small one is gone."""
    stream = Stream(LATEST).data(b"a", b"").data(b"a", b"large").data(b"", b"large")
    stream.gc("size > 1")
    assert stream.live == [2, 4]
    with pytest.raises(PredicateError, match="latest event per key"):
        LATEST.check(parse("size > 1"))


@pytest.mark.parametrize(
    "text",
    ['key == "a"', 'key prefix "a"', 'not key == "b"', "seq < 9", 'key prefix "a" and seq < 9'],
)
def test_but_what_matches_all_older_events_of_the_key_may_collect_it(text: str) -> None:
    LATEST.check(parse(text))
    assert Stream(LATEST).data(b"a").data(b"a").gc(text).live == [3]


def test_a_deletion_is_replaced_by_the_next_event_of_the_key() -> None:
    stream = Stream(LATEST).data(b"a").gc('key == "a"', key=b"a")
    assert stream.live == [2]
    assert stream.data(b"a").live == [3]
    assert stream.gc('key == "a"', key=b"a").gc('key == "a"', key=b"a").live == [5]


def test_exact_keys_find_every_event_of_the_key() -> None:
    stream = Stream()
    for _ in range(5):
        stream.data(b"a").data(b"b")
    assert stream.gc('key == "a"').live == [2, 4, 6, 8, 10, 11]
    stream.data(b"a").data(b"a", b"large")
    assert stream.gc('key == "a" and size > 2').live == [2, 4, 6, 8, 10, 11, 12, 14]
    assert stream.gc('key in ("a", "b", "c")').live == [11, 14, 15]
    assert stream.data(b"b").gc('key == "b"').live == [11, 14, 15, 17]


def test_a_bound_in_the_middle_of_a_page() -> None:
    history = History.in_memory(7)
    history.append(EventBatch.build(7, 1, [b""] * 200_000))
    for bound in (1, 63, 64, 65, 65535, 65536, 65537, 150_000):
        history.append(
            EventBatch.build(7, history.end + 1, [gc_payload(SeqBelow(bound))], kinds=[1])
        )
        assert history.read(1, 1000)[0].seqs.tolist()[0] == bound
        assert history.statistics().live_events == history.end - bound + 1
