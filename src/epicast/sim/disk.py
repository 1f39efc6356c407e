"""A disk that forgets what was not synced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from epicast.core import EventBatch, Recovered
from epicast.core.effects import Write
from epicast.core.epochs import in_epoch
from epicast.log.restarts import NOT_TRIED, Failure, Stops, to_be_told


class Commit(Struct):
    """The writes of one step: durable together or not at all."""

    batches: list[Write] = field(default_factory=list)
    saves: dict[str, bytes] = field(default_factory=dict)
    afterwards: list[Callable[[], None]] = field(default_factory=list)
    """What waits for it: sends and deliveries that must not come before the write."""

    def by_stream(self) -> dict[int, list[Write]]:
        by_stream: dict[int, list[Write]] = {}
        for each in self.batches:
            by_stream.setdefault(each.stream, []).append(each)
        return by_stream

    def size(self) -> int:
        return sum(batch.wire_size() for batch in self.batches)


class SimDisk:
    """Commits become durable in order, `sync_ns` after they were made. What of them is refused, and
    how that is told, is as in `runtime`."""

    __slots__ = ("_capacity", "_epochs", "_failures", "_full", "_saved", "_stops", "_streams",
                 "_used", "pending", "sync_ns")  # fmt: skip

    def __init__(self, sync_ns: int, capacity_bytes: int = 1 << 62) -> None:
        self.sync_ns = sync_ns
        self.pending: list[Commit] = []
        self._capacity = capacity_bytes
        self._used = 0
        """Bytes stored and about to be."""
        self._full = False
        self._stops = Stops()
        self._failures: list[tuple[Write, str]] = []
        self._streams: dict[int, list[EventBatch]] = {}
        self._epochs: dict[int, int] = {}
        self._saved: dict[str, bytes] = {}

    def fill(self) -> None:
        """Disk full: nothing more can be appended."""
        self._full = True

    def free(self) -> None:
        """Undo `fill`."""
        self._full = False

    def accept(self, commit: Commit) -> str:
        """Take a commit in, to be synced later; if that cannot be, why not."""
        size = commit.size()
        if not commit.batches or not (self._full or self._used + size > self._capacity):
            self._used += size
            self.pending.append(commit)
            return ""
        for write in commit.batches:
            self._stops.note(write)
        return "disk full"

    def sync(self, commit: Commit) -> dict[int, int]:
        """Make the oldest pending commit durable, as far as that can be; the new end of each stream
        it appends to. Values are not saved if none of its streams could be written."""
        assert self.pending and self.pending[0] is commit
        del self.pending[0]
        ends: dict[int, int] = {}
        refused = 0
        by_stream = commit.by_stream()
        for stream, writes in by_stream.items():
            tried: list[Write] = []
            untried: list[Write] = []
            for write in writes:
                (tried if self._stops.passes(write) else untried).append(write)
            self._fail(untried, NOT_TRIED)
            failure = self._write(stream, tried) if tried else None
            stored = tried if failure is None else tried[: failure.stored]
            for write in stored:
                if isinstance(write, EventBatch):
                    ends[stream] = write.last
            if failure is not None:
                for write in tried[failure.stored :]:
                    self._stops.note(write)
                self._fail(tried[failure.stored :], failure.reason)
            refused += len(stored) < len(writes)
            self._tell(stored)
        if not refused or refused < len(by_stream):
            self._save(commit.saves)
        return ends

    def _fail(self, writes: Sequence[Write], reason: str) -> None:
        self._failures += [(write, reason) for write in to_be_told(writes)]

    def _write(self, stream: int, writes: Sequence[Write]) -> Failure | None:
        """Like `log.restarts.write`, on a list of batches."""
        found, epoch = list(self._streams.get(stream, ())), self._epochs.get(stream, 0)
        done = 0
        for at, each in enumerate(writes, 1):
            end = found[-1].last if found else 0
            if not isinstance(each, EventBatch) and each.epoch >= epoch:
                epoch = each.epoch
                found = [in_epoch(batch, epoch) for batch in found if each.keeps]
            elif isinstance(each, EventBatch) and (each.epoch, each.first) == (epoch, end + 1):
                found.append(each)
                if at < len(writes) and isinstance(writes[at], EventBatch):
                    continue  # consecutive batches are stored together or not at all
            else:
                return Failure(f"stream {stream} is at {epoch}/{end}: cannot write {each}", done)
            done = at
            self._streams[stream], self._epochs[stream] = list(found), epoch
        return None

    def _tell(self, stored: Sequence[Write]) -> None:
        """These have become durable."""

    def _save(self, values: Mapping[str, bytes]) -> None:
        self._saved.update(values)

    def take_failures(self) -> list[tuple[Write, str]]:
        """Return the writes of the last commit that failed, with the reasons, and forget them."""
        failures, self._failures = self._failures, []
        return failures

    def read(self, stream: int, first: int, max_bytes: int) -> list[EventBatch]:
        """Durable batches from `first` on, at least one if there is any, up to `max_bytes`."""
        found: list[EventBatch] = []
        size = 0
        for batch in self._streams.get(stream, []):
            if batch.last < first:
                continue
            part = batch.slice(first, batch.last) if batch.first < first else batch
            size += part.wire_size()
            if found and size > max_bytes:
                break
            found.append(part)
        return found

    def release(self, stream: int, seq: int) -> None:
        """What is stored up to a number will stay. Nothing is ever collected here."""

    def crash(self, *, lose_everything: bool) -> None:
        self._used -= sum(commit.size() for commit in self.pending)
        self.pending.clear()
        self._failures.clear()
        self._stops.clear()
        if lose_everything:
            self._used = 0
            self._streams.clear()
            self._epochs.clear()
            self._saved.clear()

    def saved(self, name: str) -> bytes | None:
        """What was saved under a name, and is on disk."""
        return self._saved.get(name)

    def recovered(self, incarnation: int) -> Recovered:
        ends, publishers = {}, {}
        for stream, batches in self._streams.items():
            if batches:
                ends[stream] = batches[-1].last
                publishers[stream] = {
                    run.publisher: run.first + run.count - 1
                    for batch in batches
                    for run in batch.runs
                }
        return Recovered(incarnation, ends, dict(self._saved), dict(self._epochs), publishers)
