"""The history of one stream: append at the end, read anywhere, forget what was collected.

Batches are stored as they come, in segments. What is live is known in memory (see `collector`);
reading leaves out the rest, compaction makes it disappear from the segments. One engine serves all
stores: segments lie in a `Directory`, which is a disk, memory, or a simulation of a disk.

One thread at a time may call a history. A sync can be waited for elsewhere: `begin_sync` says what
to do, `SyncTicket.run` does it in any thread, `finish_sync` takes note.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from epicast.core import EventBatch, EventKind
from epicast.log.closing import leave_note, take_mark
from epicast.log.collector import Collector
from epicast.log.compaction import live_bytes
from epicast.log.compactor import Compactor
from epicast.log.config import LogConfig, in_memory
from epicast.log.directory import Directory, MemoryDirectory
from epicast.log.errors import (
    HistoryGone,
    KeyTooLong,
    LogError,
    OutOfOrder,
    WrongEpoch,
    WrongStream,
)
from epicast.log.gc_events import gc_events_in
from epicast.log.policy import GcPolicy
from epicast.log.predicate import Predicate, SeqBelow
from epicast.log.publishers import Publishers
from epicast.log.reading import Reader
from epicast.log.recovery import Recovery, RecoveryReport
from epicast.log.rows import Rows, Scanner
from epicast.log.segments import Segments, SyncTicket
from epicast.log.statistics import Counters, Statistics

_KEEP_SCRATCH = 1 << 24
_MOST_SEQ = 2**62
_MOST_WAITING = 1 << 20
"""Bytes of released events that may wait until somebody wants to know what they collect."""


class History:
    """Make one with `History(directory, stream, ...)`, which recovers what is there, or with
    `History.in_memory(stream, ...)`."""

    def __init__(
        self,
        directory: Directory,
        stream: int,
        *,
        policy: GcPolicy | None = None,
        config: LogConfig | None = None,
        epoch: int = 0,
    ) -> None:
        """`epoch` is that of a history that starts here; one that is there knows its own."""
        self.stream = stream
        self.policy = policy or GcPolicy()
        self.config = config or LogConfig()
        self.epoch = epoch
        self.end = 0
        """The newest number there is; 0 if there is none yet."""
        self.durable_end = 0
        """Everything up to here survives whatever the directory survives."""
        self._counters = Counters()
        self._segments = Segments(directory, stream, self.config)
        self._scanner = Scanner()
        self._synced_at: int | None = None
        self._synced_bytes = 0
        self._taken = self._released = 0
        """Up to `_taken` the collector knows the events, up to `_released` it may."""
        self._waiting_bytes = 0
        self._forget_everything()
        self.recovery = self._recover()

    @classmethod
    def in_memory(
        cls,
        stream: int,
        *,
        policy: GcPolicy | None = None,
        config: LogConfig | None = None,
        epoch: int = 0,
    ) -> History:
        """A history that lasts as long as the process."""
        return cls(
            MemoryDirectory(), stream, policy=policy, config=config or in_memory(), epoch=epoch
        )

    # -- what there is ---------------------------------------------------------------------------

    @property
    def start(self) -> int:
        """The oldest number there is; below it, retention dropped everything."""
        return self._segments.start

    @property
    def stable_end(self) -> int:
        """Everything up to here may be acknowledged, as the config's `sync` defines it."""
        return self.durable_end if self.config.sync == "disk" else self.end

    @property
    def is_waiting(self) -> bool:
        """Whether there are events of which it is not known that they will stay."""
        return self.config.waits_for_release and self._released < self.end

    @property
    def stored_bytes(self) -> int:
        return self._segments.size

    @property
    def unsynced_bytes(self) -> int:
        """Bytes appended since the last sync was begun."""
        return self._counters.appended_bytes - self._synced_bytes

    def publishers(self) -> dict[int, int]:
        """The highest publisher sequence number of each publisher still remembered."""
        return self._publishers.highest()

    def statistics(self) -> Statistics:
        segments = self._segments.all
        self._take_released()
        live = self._collector.live
        bounds = np.array([*(s.first for s in segments), self.end + 1], dtype=np.uint64)
        counts = live.count_between(bounds).tolist()
        live_events = sum(counts) + self.end - self._taken
        return Statistics(
            start=self.start,
            end=self.end,
            durable_end=self.durable_end,
            live_events=live_events,
            collected_events=self.end - self.start + 1 - live_events,
            stored_events=sum(segment.rows for segment in segments),
            live_bytes=sum(map(live_bytes, segments, counts)),
            stored_bytes=self._segments.size,
            segments=len(segments),
            index_keys=self._collector.keys,
            index_bytes=self._collector.memory_bytes,
            appended_batches=self._counters.appended_batches,
            appended_events=self._counters.appended_events,
            appended_bytes=self._counters.appended_bytes,
            syncs=self._counters.syncs,
            fsyncs=self._segments.fsyncs,
            rewrites=self._compactor.rewrites,
            rewritten_bytes=self._compactor.rewritten_bytes,
        )

    # -- appending -------------------------------------------------------------------------------

    def append(self, batch: EventBatch) -> None:
        """Store a batch that starts right after `end`; raises, and changes nothing, if it may not.

        `DiskFull` is a refusal: try again when there is room.
        """
        self.append_many((batch,))

    def append_many(self, batches: Sequence[EventBatch]) -> None:
        """Store consecutive batches, all or none, in one write. `sync` makes them durable."""
        if not batches:
            return
        self._check_order(batches)
        segments = self._segments
        staged = segments.stage(batches, self.epoch)
        rows = self._scanner.measure(staged.buffer, staged.at, staged.stop)
        if rows.longest_key > self.config.max_key_bytes:
            raise KeyTooLong(
                f"a key of {rows.longest_key} bytes in stream {self.stream}; the limit is "
                f"{self.config.max_key_bytes} (max_key_bytes)"
            )
        if rows.count:
            self._collector.live.check_reach(rows.last)
        gc_events = gc_events_in(rows)
        segments.write(staged, rows, self.epoch)
        self.end = batches[-1].last
        if segments.directory.volatile:
            self.durable_end = self.end
        self._publishers.take(rows)
        counters, size = self._counters, staged.stop - staged.at
        if self._must_wait(rows):
            self._waiting_bytes += size
        else:
            self._collector.take(rows, self.end, gc_events)
            self._taken = self.end
        counters.appended_batches += len(batches)
        counters.appended_events += rows.count
        counters.appended_bytes += size
        if size > _KEEP_SCRATCH:
            self._scanner = Scanner()
        if self.config.compact_per_append:
            self._compactor.appended(size)

    def release(self, seq: int) -> None:
        """Everything up to `seq` will stay: with `waits_for_release`, it collects from now on."""
        self._released = max(self._released, min(seq, self.end))
        if self._waiting_bytes > _MOST_WAITING:
            with suppress(LogError, OSError):  # whoever reads next will be told
                self._take_released()

    def sync(self) -> int:
        """Make everything durable; the new `durable_end`."""
        ticket = self.begin_sync()
        try:
            ticket.run()
        except OSError as error:
            return self.finish_sync(ticket, error)
        return self.finish_sync(ticket)

    def begin_sync(self) -> SyncTicket:
        """What to run so that everything appended until now is durable."""
        ticket = self._segments.begin_sync(self.end)
        self._synced_bytes = self._counters.appended_bytes
        return ticket

    def finish_sync(self, ticket: SyncTicket, error: OSError | None = None) -> int:
        """The ticket was run; with which error, if any. What came since needs another sync."""
        self._segments.finish_sync(ticket, error)
        self._counters.syncs += 1
        self.durable_end = ticket.end
        return self.durable_end

    # -- reading ---------------------------------------------------------------------------------

    def read(self, first: int, max_bytes: int, last: int | None = None) -> list[EventBatch]:
        """Batches from `first` on (up to `last`), without gaps: at least one if there is any, then
        as many as fit. Collected events are left out; coverage without a row stands for them.

        `HistoryGone` if retention dropped `first`. What a batch holds is never changed afterwards.
        """
        if first < self.start:
            raise HistoryGone(self.stream, first, self.start)
        self._take_released()
        end = self.end if last is None else min(last, self.end)
        return self._reader.read(self.epoch, first, end, max_bytes, self._taken)

    def read_stored(self, first: int, last: int) -> Iterator[EventBatch]:
        """What is there between two numbers as it was appended: with collected events, as far as
        they were not compacted away, and with whoever published each."""
        return self._reader.stored(self.epoch, max(first, self.start), min(last, self.end))

    def expiry(self, now: int) -> Predicate | None:
        """What the owner appends as a GC event now to enforce `max_age_ns`; nothing if None.

        Times of events are the owner's, and may jump. So it is said in sequence numbers: everything
        before the first event that is young enough.
        """
        if self.policy.max_age_ns is None:
            return None
        self._take_released()
        oldest_kept = now - self.policy.max_age_ns
        anything = False
        for rows in self._reader.scan(self.start, self.end):
            self._collector.live.keep(rows)
            young = np.flatnonzero(rows.times >= oldest_kept)
            old = slice(None, young.item(0) if len(young) else None)
            anything |= bool((rows.kinds[old] == EventKind.DATA).any())
            if len(young):
                return SeqBelow(rows.seqs.item(young.item(0))) if anything else None
        return SeqBelow(self._taken + 1) if anything else None

    # -- upkeep ----------------------------------------------------------------------------------

    def maintain(self, now: int, max_bytes: int = 8 << 20) -> None:
        """Do what is due: sync if the interval has passed, retention, a bit of compaction."""
        if self._segments.files.pinned:
            return
        if self.sync_is_due(now):
            self.sync()
        self.retain(now)
        self.compact(max_bytes)

    def sync_is_due(self, now: int) -> bool:
        """Whether the interval has passed; if so, another one begins."""
        if self.config.sync != "interval" or self.durable_end == self.end:
            return False
        if self._synced_at is None:
            self._synced_at = now
        due = now - self._synced_at >= self.config.sync_interval_ns
        if due:
            self._synced_at = now
        return due

    def compact(self, max_bytes: int = 8 << 20) -> int:
        """Rewrite segments, as far as reading about `max_bytes` goes; 0 if none is worth it.

        Call it again and again, with anything in between.
        """
        self._segments.check()
        self._take_released()
        if self._collector.is_behind:
            self._collector.catch_up(self._taken)
        return 0 if self._segments.files.pinned else self._compactor.step(max_bytes)

    def retain(self, now: int) -> int:
        """Drop the segments that the bounds of the config leave no room for; the new `start`."""
        if self.config.retain_bytes is None and self.config.retain_ns is None:
            return self.start
        surplus = self._segments.surplus(now)
        if surplus:
            self._compactor.abandon()
            self._segments.drop_oldest(surplus)
            self._collector.forget_below(self.start)
        return self.start

    def raise_epoch(self, epoch: int) -> None:
        """After an unrecoverable loss: what is here stays, under a new epoch. Durable at once."""
        if epoch <= self.epoch:
            raise WrongEpoch(self.stream, self.epoch, epoch)
        self._segments.open_segment(self.end + 1, epoch)
        self.epoch = epoch
        self.sync()

    def reset(self, epoch: int, first: int = 1, *, aside: int = 0) -> list[str]:
        """Forget everything and start anew at `first`. Durable at once. `aside`: keep files with
        events from that number on, under the names returned; 0: keep none."""
        if epoch < self.epoch:
            raise WrongEpoch(self.stream, self.epoch, epoch)
        self._compactor.abandon()
        kept = self._segments.start_over(first, epoch, aside)
        self.epoch, self.end = epoch, first - 1
        self._forget_everything()
        self.sync()
        return kept

    def loss_is_noted(self) -> None:
        """What `recovery` says may be missing is known elsewhere, durably, or a new epoch has begun
        because of it. Until then every opening says so again."""
        take_mark(self._segments.directory)

    def close(self) -> None:
        """Sync, note that it was closed in good order, and let go of the directory."""
        try:
            self._compactor.abandon()
            self.sync()
            if not self._segments.directory.volatile:
                leave_note(self._segments.directory, self.epoch, self.end)
        finally:
            self._segments.close()

    # -- inside ----------------------------------------------------------------------------------

    def _forget_everything(self) -> None:
        self._publishers = Publishers(self.config.max_publishers)
        self._collector = Collector(self.policy, self._scan)
        self._taken = self._released = self.end
        self._waiting_bytes = 0
        live, segments, config = self._collector.live, self._segments, self.config
        self._reader = Reader(
            self.stream, live, self._publishers, segments.find, config.window_bytes,
            names_publishers=config.names_publishers,
        )  # fmt: skip
        self._compactor = Compactor(segments, live, self.sync, self._taken_end, config)

    def _taken_end(self) -> int:
        return self._taken

    def _must_wait(self, rows: Rows) -> bool:
        """Whether rows just stored may collect something, or come behind some that may, and may
        turn out never to have been."""
        if not self.config.waits_for_release:
            return False
        return rows.gc_rows > 0 or self.policy.collects or self._taken + 1 < rows.first

    def _take_released(self) -> None:
        """Have events collect what they do, if they have been released since the last time."""
        if self._taken >= self._released:
            return
        first = max(self._taken + 1, self.start)
        for rows in self._reader.measured(self._scanner, first, self._released):
            gc_events = gc_events_in(rows)
            self._collector.take(rows, rows.last, gc_events)
            self._taken = rows.last
        self._waiting_bytes = 0

    def _scan(self, first: int, last: int) -> Iterator[Rows]:
        return self._reader.scan(max(first, self.start), last)

    def _recover(self) -> RecoveryReport:
        config = self.config
        recovery = Recovery(
            self._segments.files, self.stream, config.index_interval_bytes, config.window_bytes
        )
        self._collector.defer()
        recovery.run(self._take_recovered)
        self._segments.adopt(recovery)
        segments = self._segments.all
        if segments:
            self.epoch, self.end = segments[-1].epoch, segments[-1].last
        if not segments or segments[-1].rewritten:
            self._segments.open_segment(self.end + 1, self.epoch)
        self._collector.catch_up(self.end)
        self._taken = self._released = self.end
        self.sync()
        return recovery.report(self.epoch, self.start, self.end)

    def _take_recovered(self, rows: Rows) -> None:
        self._publishers.take(rows)
        self._collector.take(rows, rows.last, gc_events_in(rows))

    def _check_order(self, batches: Sequence[EventBatch]) -> None:
        expected = self.end + 1
        for batch in batches:
            if batch.stream != self.stream:
                raise WrongStream(f"a batch of stream {batch.stream} for stream {self.stream}")
            if batch.epoch != self.epoch:
                raise WrongEpoch(self.stream, self.epoch, batch.epoch)
            if batch.first != expected:
                raise OutOfOrder(self.stream, expected, batch.first)
            if batch.last > _MOST_SEQ:
                raise LogError(f"sequence number {batch.last} is beyond the limit, {_MOST_SEQ}")
            expected = batch.last + 1
