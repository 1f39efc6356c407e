"""What every store promises."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from epicast.core import EventBatch, Run
from epicast.log import (
    GcPolicy,
    History,
    HistoryGone,
    KeyTooLong,
    LogConfig,
    LogError,
    OutOfOrder,
    PredicateError,
    WrongEpoch,
    WrongStream,
    gc_payload,
    parse,
)
from epicast.log.simulated import SimulatedDisk
from tests.log.stores import SMALL, every_store, store
from tests.log.streams import everything

LATEST = GcPolicy(latest_per_key=True)


def keyed(first: int, *names: bytes, time: int = 0, epoch: int = 0) -> EventBatch:
    return EventBatch.build(7, first, list(names), keys=list(names), time=time, epoch=epoch)


@every_store
def test_what_is_appended_is_read(kind: str) -> None:
    with store(kind) as place:
        history = place.open()
        assert (history.start, history.end) == (1, 0)
        assert history.read(1, 1000) == []
        history.append(keyed(1, b"a", b"b"))
        history.append_many([keyed(3, b"c"), keyed(4, b"d", b"e")])
        assert (history.start, history.end) == (1, 5)
        assert [event.key for event in everything(history)] == [b"a", b"b", b"c", b"d", b"e"]
        assert history.read(6, 1000) == []
        history.close()


@every_store
def test_large_batches_are_read_as_they_were_stored(kind: str) -> None:
    with store(kind) as place:
        history = place.open()
        runs = [Run(3, 10, 200), Run(4, 1, 100)]
        batch = EventBatch.build(7, 1, [b"p"] * 300, time=list(range(300)), runs=runs)
        history.append(batch)
        assert history.read(1, 1 << 20) == [batch]
        assert history.read(101, 1 << 20) == [batch.slice(101, 300)]
        history.close()


@every_store
def test_tombstones_are_merged_into_what_follows_them(kind: str) -> None:
    with store(kind) as place:
        history = place.open(LATEST)
        for seq in range(1, 11):
            history.append(keyed(seq, b"same"))
        history.append(keyed(11, b"other"))
        (batch,) = history.read(1, 1 << 20)
        assert (batch.first, batch.last, batch.seqs.tolist()) == (1, 11, [10, 11])
        (batch,) = history.read(3, 1 << 20)
        assert (batch.first, batch.last, batch.seqs.tolist()) == (3, 11, [10, 11])
        history.close()


@every_store
def test_what_was_stored_is_there_as_it_was(kind: str) -> None:
    """Collected or not, with whoever published it, in the epoch of now."""
    with store(kind) as place:
        history = place.open(LATEST)
        first = EventBatch.build(7, 1, [b"1", b"2"], keys=[b"a", b"b"], runs=[Run(3, 10, 2)])
        second = EventBatch.build(7, 3, [b"3", b"4"], keys=[b"a", b"b"], runs=[Run(4, 1, 2)])
        history.append_many([first, second])
        assert list(history.read_stored(1, 9)) == [first, second]
        assert list(history.read_stored(2, 3)) == [first.slice(2, 2), second.slice(3, 3)]
        assert list(history.read_stored(5, 9)) == []
        history.raise_epoch(8)
        assert [batch.epoch for batch in history.read_stored(1, 4)] == [8, 8]
        history.close()


@every_store
def test_a_read_of_nothing_but_tombstones(kind: str) -> None:
    with store(kind) as place:
        history = place.open()
        history.append(EventBatch.build(7, 1, [], seqs=[], last=1000))
        assert history.end == 1000
        (batch,) = history.read(5, 10)
        assert (batch.first, batch.last, batch.rows) == (5, 1000, 0)
        history.close()


@every_store
@pytest.mark.parametrize("first", [1, 2, 5, 100])
def test_gaps_and_repetitions_are_refused(kind: str, first: int) -> None:
    with store(kind) as place:
        history = place.open()
        history.append(keyed(1, b"a", b"b"))
        with pytest.raises(OutOfOrder, match="continues at 3") as caught:
            history.append(keyed(first, b"x"))
        assert (caught.value.expected, caught.value.first) == (3, first)
        with pytest.raises(OutOfOrder):
            history.append_many([keyed(3, b"c"), keyed(5, b"d")])
        assert history.end == 2
        history.append(keyed(3, b"c"))
        assert [event.key for event in everything(history)] == [b"a", b"b", b"c"]
        history.close()


@every_store
def test_what_does_not_belong_is_refused_and_changes_nothing(kind: str) -> None:
    with store(kind) as place:
        history = place.open(epoch=2)
        history.append(keyed(1, b"a", epoch=2))
        with pytest.raises(WrongEpoch, match="out of date"):
            history.append(keyed(2, b"b", epoch=1))
        with pytest.raises(WrongEpoch, match="raise the epoch"):
            history.append(keyed(2, b"b", epoch=3))
        with pytest.raises(WrongStream):
            history.append(EventBatch.build(8, 2, [b"b"], epoch=2))
        with pytest.raises(KeyTooLong, match="1025"):
            history.append(EventBatch.build(7, 2, [b""], keys=[b"k" * 1025], epoch=2))
        with pytest.raises(PredicateError):
            history.append(EventBatch.build(7, 2, [b"\xff"], kinds=[1], epoch=2))
        with pytest.raises(PredicateError, match="DATA or GC"):
            history.append(EventBatch.build(7, 2, [b""], kinds=[9], epoch=2))
        assert history.end == 1
        assert [event.key for event in everything(history)] == [b"a"]
        history.close()


@every_store
def test_everything_is_there_after_reopening(kind: str) -> None:
    with store(kind) as place:
        if not place.keeps:
            pytest.skip("memory forgets")
        history = place.open(LATEST, epoch=3)
        for seq in range(1, 200):
            history.append(keyed(seq, b"k%d" % (seq % 50), time=seq, epoch=3))
        before = everything(history)
        history.close()
        history = place.open(LATEST)
        report = history.recovery
        assert report.truncation is None
        assert (history.epoch, history.end, history.durable_end) == (3, 199, 199)
        assert (report.epoch, report.start, report.end, report.batches) == (3, 1, 199, 199)
        assert everything(history) == before
        history.append(keyed(200, b"k0", time=200, epoch=3))
        assert everything(history) == [e for e in before if e.key != b"k0"] + everything(
            history, 200
        )
        history.close()


@every_store
def test_ends_under_each_sync_policy(kind: str) -> None:
    with store(kind) as place:
        for sync, stable in [("memory", 1), ("interval", 1), ("disk", 0)]:
            history = place.open(config=LogConfig(sync=sync))  # type: ignore[arg-type]
            history.reset(history.epoch)
            history.append(keyed(1, b"a", epoch=history.epoch))
            assert history.durable_end == (1 if kind == "memory" else 0)
            assert history.stable_end == (1 if kind == "memory" else stable)
            assert history.sync() == history.durable_end == history.stable_end == 1
            history.close()


@every_store
def test_one_sync_for_many_appends(kind: str) -> None:
    with store(kind) as place:
        history = place.open(config=LogConfig())
        before = history.statistics()
        for seq in range(1, 101):
            history.append(keyed(seq, b"a"))
        history.sync()
        after = history.statistics()
        assert after.syncs - before.syncs == 1
        assert after.fsyncs - before.fsyncs == 1
        assert history.durable_end == 100
        history.close()


@every_store
def test_appending_while_a_sync_runs_elsewhere(kind: str) -> None:
    with store(kind) as place:
        history = place.open()
        history.append(keyed(1, b"a"))
        ticket = history.begin_sync()
        for seq in range(2, 300):  # rolls segments
            history.append(keyed(seq, b"b"))
        with pytest.raises(LogError, match="under way"):
            history.begin_sync()
        assert history.compact() == 0
        ticket.run()
        assert history.finish_sync(ticket) == 1
        if kind != "memory":
            assert history.durable_end == 1
        assert history.sync() == 299
        history.close()


@every_store
def test_interval_syncs_when_it_is_due(kind: str) -> None:
    with store(kind) as place:
        history = place.open(config=LogConfig(sync="interval", sync_interval_ns=100))
        syncs = history.statistics().syncs
        history.append(keyed(1, b"a"))
        for now, expected in [(1000, 0), (1050, 0), (1100, 1), (1150, 1)]:
            history.maintain(now)
            if kind != "memory":  # where everything is durable at once
                assert history.statistics().syncs - syncs == expected, now
        history.close()


@every_store
def test_retention_by_size_moves_the_start(kind: str) -> None:
    with store(kind) as place:
        config = LogConfig(
            segment_bytes=4096, window_bytes=4096, retain_bytes=10_000, compact_below=0.01
        )
        history = place.open(config=config)
        for seq in range(1, 400):
            history.append(keyed(seq, b"k%d" % seq))
        assert history.start == 1
        start = history.retain(0)
        assert 1 < start == history.start <= 399
        assert history.statistics().stored_bytes <= 10_000
        with pytest.raises(HistoryGone) as caught:
            history.read(start - 1, 100)
        assert caught.value.start == start
        assert [event.seq for event in everything(history, start)] == list(range(start, 400))
        history.close()
        if place.keeps:
            assert place.open(config=config).start == start


@every_store
def test_retention_by_age(kind: str) -> None:
    with store(kind) as place:
        history = place.open(config=LogConfig(segment_bytes=4096, window_bytes=4096, retain_ns=100))
        for seq in range(1, 400):
            history.append(keyed(seq, b"k", time=seq))
        history.maintain(100)
        assert history.start == 1
        history.maintain(300)
        assert 100 < history.start <= 200  # the segment with event 200 stays
        history.close()


@every_store
def test_raising_the_epoch_keeps_what_is_there(kind: str) -> None:
    with store(kind) as place:
        history = place.open()
        history.append(EventBatch.build(7, 1, [b"x"] * 300))
        history.append(keyed(301, b"a"))
        history.raise_epoch(4)
        history.raise_epoch(5)
        with pytest.raises(WrongEpoch):
            history.raise_epoch(5)
        history.append(keyed(302, b"b", epoch=5))
        assert [event.seq for event in everything(history)] == list(range(1, 303))
        history.close()
        if place.keeps:
            history = place.open()
            assert history.epoch == 5
            assert [event.seq for event in everything(history)] == list(range(1, 303))
            history.close()


@every_store
def test_a_reset_history_starts_where_it_is_told(kind: str) -> None:
    with store(kind) as place:
        history = place.open(LATEST)
        for seq in range(1, 300):
            history.append(keyed(seq, b"k%d" % seq))
        history.reset(1, first=5000)
        assert (history.start, history.end, history.epoch) == (5000, 4999, 1)
        history.append(keyed(5000, b"k1", b"k2", epoch=1))
        assert [event.key for event in everything(history, 5000)] == [b"k1", b"k2"]
        with pytest.raises(HistoryGone):
            history.read(4999, 100)
        history.close()
        if place.keeps:
            history = place.open(LATEST)
            assert (history.start, history.end, history.epoch) == (5000, 5001, 1)
            history.close()


@every_store
def test_max_age_becomes_a_gc_event(kind: str) -> None:
    with store(kind) as place:
        history = place.open(GcPolicy(max_age_ns=100))
        for seq in range(1, 11):
            history.append(keyed(seq, b"k%d" % seq, time=10 * seq))
        assert history.expiry(100) is None
        predicate = history.expiry(145)
        assert predicate == parse("seq < 5")
        history.append(EventBatch.build(7, 11, [gc_payload(predicate)], kinds=[1], time=145))
        assert [event.seq for event in everything(history)] == list(range(5, 12))
        assert history.expiry(145) is None
        predicate = history.expiry(200 + 50)
        assert predicate == parse("seq < 12")
        history.append(EventBatch.build(7, 12, [gc_payload(predicate)], kinds=[1], time=250))
        assert [event.seq for event in everything(history)] == [12]
        assert history.expiry(10_000) is None, "GC events alone are not worth another one"
        history.close()


def test_what_compaction_writes_names_all_who_are_heard_in_it() -> None:
    """Everything behind it may be lost one day, and then it is all there is to know them by."""
    disk = SimulatedDisk(Random(1))
    config = LogConfig(segment_bytes=4096, window_bytes=4096)
    history = History(disk, 7, policy=LATEST, config=config)
    for turn in range(100):
        run = Run(11 + turn % 3, 10 * turn + 1, 10)
        keys = [b"%d" % (at % 7) for at in range(10)]
        batch = EventBatch.build(7, 10 * turn + 1, [b"x" * 50] * 10, keys=keys, runs=[run])
        history.append(batch)
    while history.compact():
        pass
    history.close()
    later = [name for name in disk.names() if name.endswith(".seg")][1:]
    for name in later:
        disk.remove(name)
    history = History(disk, 7, policy=LATEST, config=config)
    assert history.end >= 500, "most of it was rewritten"
    turns = history.end // 10
    assert history.publishers() == {11 + turn % 3: 10 * turn + 10 for turn in range(turns)}


@every_store
def test_publishers_are_remembered_through_compaction(kind: str) -> None:
    with store(kind) as place:
        history = place.open(LATEST)
        for turn in range(100):
            runs = [Run(11, 2 * turn + 1, 2), Run(100 + turn, 5, 1)]
            history.append(EventBatch.build(7, 3 * turn + 1, [b""] * 3, keys=[b"k"] * 3, runs=runs))
        expected = {11: 200} | {100 + turn: 5 for turn in range(100)}
        assert history.publishers() == expected
        while history.compact():
            pass
        assert history.statistics().rewrites > 0
        if place.keeps:
            history.close()
            history = place.open(LATEST)
        assert history.publishers() == expected
        fed = history.read(1, 1 << 20)
        assert sum(run.count for batch in fed for run in batch.runs) == 300
        highest = {}
        for batch in fed:
            for run in batch.runs:
                if run.publisher:
                    highest[run.publisher] = run.first + run.count - 1
        assert highest == expected
        history.close()


def _run(turn: int) -> Run:
    return Run(11 + turn % 2, 3 * (turn // 2) + 1, 3)


@every_store
def test_wherever_reading_ends_publishers_are_known_up_to_there(kind: str) -> None:
    """A replica that catches up stores what it reads in these pieces; the next one reads those, cut
    elsewhere. Each may become the head with what it has."""
    config = replace(SMALL, names_publishers=True)
    batches = [
        EventBatch.build(7, 3 * turn + 1, [b"x" * 20] * 3, runs=[_run(turn)]) for turn in range(12)
    ]
    numbers = [
        (run.publisher, run.first + at) for b in batches for run in b.runs for at in range(3)
    ]
    with store(kind) as first, store(kind) as second:
        source, copy = first.open(config=config), second.open(config=config)
        for batch in batches:
            source.append(batch)
        while copy.end < source.end:
            copy.append(source.read(copy.end + 1, 300)[0])
        for end in range(1, source.end + 1):
            [piece, *_] = copy.read(1, 1 << 20)
            known = {}
            for run in piece.slice(1, end).runs:
                known[run.publisher] = run.first + run.count - 1
            assert known == dict(numbers[:end])
        source.close()
        copy.close()


@every_store
def test_statistics_add_up(kind: str) -> None:
    with store(kind) as place:
        history = place.open(LATEST)
        for seq in range(1, 1001):
            history.append(keyed(seq, b"k%d" % (seq % 10)))
        statistics = history.statistics()
        assert (statistics.start, statistics.end) == (1, 1000)
        assert (statistics.live_events, statistics.collected_events) == (10, 990)
        assert statistics.appended_events == statistics.appended_batches == 1000
        assert statistics.stored_events == 1000
        while history.compact():
            pass
        compacted = history.statistics()
        assert compacted.live_events == 10
        assert compacted.stored_events < 200
        assert compacted.stored_bytes < statistics.stored_bytes / 4
        assert compacted.segments < statistics.segments
        history.close()


@every_store
def test_numbers_that_make_no_sense_are_refused(kind: str) -> None:
    with store(kind) as place:
        history = place.open()
        history.append(keyed(1, b"a"))
        with pytest.raises(LogError, match="too far from the oldest"):
            history.append(EventBatch.build(7, 2, [b""], seqs=[2**50], last=2**50))
        history.append(EventBatch.build(7, 2, [], seqs=[], last=2**50))
        with pytest.raises(LogError, match="too far from the oldest"):
            history.append(keyed(2**50 + 1, b"b"))
        assert [event.seq for event in everything(history)] == [1]
        history.close()
