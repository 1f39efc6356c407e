"""A disk with the log itself on it: what a crash leaves is what recovery then makes of it.

Every stream has a `log.simulated` disk of its own, or lives in memory. Appending, syncing, reading
and opening again follow the rules of `runtime.history_storage`, so a simulated proxy finds after a
crash what a real one would.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from random import Random

from msgspec import Struct

from epicast.core import EventBatch, Recovered
from epicast.core.effects import BeginEpoch, Write
from epicast.core.epochs import new_epoch
from epicast.log import GcPolicy, History, LogConfig, LogError, in_memory
from epicast.log.restarts import Failure, may_have_lost, write
from epicast.log.simulated import SimulatedDisk
from epicast.sim.disk import SimDisk

_ROOMY = 1 << 62

Owned = Callable[[Mapping[str, bytes]], Collection[int]]


class KeptStream(Struct, frozen=True, kw_only=True):
    """How one stream is kept."""

    policy: GcPolicy
    config: LogConfig
    on_files: bool


class Snapshot(Struct, frozen=True):
    """What was durable at some moment."""

    files: dict[int, dict[str, bytes]]
    """By stream and name."""
    saved: dict[str, bytes]
    doubtful: frozenset[int]


class LogDisk(SimDisk):
    def __init__(
        self,
        sync_ns: int,
        streams: Mapping[int, KeptStream],
        rng: Random,
        wall_ns: Callable[[], int],
        owned: Owned,
    ) -> None:
        """`owned`: the streams of which the node itself decides on the epoch when it starts, by
        what it has saved."""
        super().__init__(sync_ns)
        self.streams = dict(streams)
        self.files: dict[int, SimulatedDisk] = {}
        """Of the streams that are kept on files."""
        self._rng = rng
        self._wall_ns = wall_ns
        self._owned = owned
        self._histories: dict[int, History] = {}
        self._doubtful: set[int] = set()
        """Found when they were opened, and noted until something is saved: files that are opened
        again may not say it again."""
        self.on_stored: Callable[[EventBatch], None] | None = None
        """Told of every batch that has become stable as its stream promises."""
        self.on_opened: Callable[[int, History], None] | None = None
        """Told of every history when the node starts."""
        self.on_began: Callable[[int, int, bool], None] | None = None
        """Told when a history goes on in another epoch, or anew: which, and whether it keeps what
        it has."""
        self._replace_files()

    def _replace_files(self) -> None:
        self.files = {
            stream: SimulatedDisk(Random(self._rng.random()))
            for stream, kept in self.streams.items()
            if kept.on_files
        }

    # -- opening and closing ---------------------------------------------------------------------

    def open(self) -> None:
        """Open what is not open; `LogError` if that is impossible now, as on a full disk."""
        epoch, owned = new_epoch(self._wall_ns()), self._owned(self._saved)
        for stream, kept in self.streams.items():
            if stream not in self._histories:
                self._histories[stream] = self._open(stream, kept, epoch if stream in owned else 0)

    def _open(self, stream: int, kept: KeptStream, epoch: int) -> History:
        """`epoch`: one to begin with, or after a loss; 0 if others decide on that."""
        if not kept.on_files:
            config = in_memory(
                segment_bytes=kept.config.segment_bytes,
                waits_for_release=kept.config.waits_for_release,
            )
            return History.in_memory(stream, policy=kept.policy, config=config, epoch=epoch)
        history = History(
            self.files[stream], stream, policy=kept.policy, config=kept.config, epoch=epoch
        )
        lost = stream in self._doubtful or may_have_lost(history.recovery, kept.config)
        if lost and not epoch:
            self._doubtful.add(stream)
        elif lost:
            history.raise_epoch(max(history.epoch + 1, epoch))
            self._doubtful.discard(stream)
        history.loss_is_noted()
        return history

    def close(self) -> None:
        """In good order; what the node has not told the disk to write is gone all the same."""
        histories, self._histories = self._histories, {}
        self._failures.clear()  # nobody is left who could be told
        self._stops.clear()
        for history in histories.values():
            try:
                history.close()
            except (LogError, OSError):
                continue  # a full disk takes no note: it then counts as not closed

    def crash(self, *, lose_everything: bool) -> None:
        super().crash(lose_everything=lose_everything)
        self._histories.clear()
        if lose_everything:
            self._replace_files()
            self._doubtful.clear()
        if not self.files:
            self._saved.clear()  # who keeps no files keeps nothing
        for files in self.files.values():
            files.crash()

    def recovered(self, incarnation: int) -> Recovered:
        self.open()
        histories = self._histories
        if self.on_opened is not None:
            for stream, history in histories.items():
                self.on_opened(stream, history)
        return Recovered(
            incarnation,
            {stream: history.stable_end for stream, history in histories.items()},
            dict(self._saved),
            {stream: history.epoch for stream, history in histories.items()},
            {stream: history.publishers() for stream, history in histories.items()},
            frozenset(self._doubtful),
        )

    # -- use -------------------------------------------------------------------------------------

    def history(self, stream: int) -> History:
        return self._histories[stream]

    def histories(self) -> Iterator[tuple[int, History]]:
        yield from self._histories.items()

    def fill(self) -> None:
        """Files take a few more bytes, then none: writes fail halfway through, too."""
        for files in self.files.values():
            taken = sum(map(files.size, files.names()))
            files.capacity_bytes = taken + self._rng.randrange(600)

    def refuse_files(self) -> None:
        """No file can be made: no segment, and so no epoch, can be begun."""
        for files in self.files.values():
            files.creates = False

    def free(self) -> None:
        for files in self.files.values():
            files.capacity_bytes = _ROOMY
            files.creates = True

    def _write(self, stream: int, writes: Sequence[Write]) -> Failure | None:
        history, kept = self._histories[stream], self.streams[stream]
        failure = write(history, writes)
        if kept.config.sync == "disk" and kept.on_files:
            try:
                history.sync()
            except LogError as error:
                return Failure(str(error))
        return failure

    def _tell(self, stored: Sequence[Write]) -> None:
        for each in stored:
            if isinstance(each, BeginEpoch):
                if self.on_began is not None:
                    self.on_began(each.stream, each.epoch, each.keeps)
            elif self.on_stored is not None:
                self.on_stored(each)

    def _save(self, values: Mapping[str, bytes]) -> None:
        super()._save(values)
        if values:
            self._doubtful.clear()

    def read(self, stream: int, first: int, max_bytes: int) -> list[EventBatch]:
        history = self._histories[stream]
        try:
            found = history.read(max(first, history.start), max_bytes)
        except (LogError, OSError):
            return []
        end = history.stable_end
        return [
            batch if batch.last <= end else batch.slice(batch.first, end)
            for batch in found
            if batch.first <= end
        ]

    def release(self, stream: int, seq: int) -> None:
        self._histories[stream].release(seq)

    def maintain(self, now_ns: int, max_bytes: int) -> None:
        """What a proxy does to its histories now and then."""
        for history in self._histories.values():
            try:
                history.maintain(now_ns, max_bytes)
            except (LogError, OSError):
                continue  # tried again the next time, as proxies do

    # -- damage ----------------------------------------------------------------------------------

    def snapshot(self, streams: Sequence[int]) -> Snapshot:
        files = {stream: self.files[stream].snapshot() for stream in streams}
        return Snapshot(files, dict(self._saved), frozenset(self._doubtful))

    def restore(self, snapshot: Snapshot) -> None:
        """Everything since is gone; the node is down."""
        for stream, files in snapshot.files.items():
            self.files[stream].restore(files)
        self._saved = dict(snapshot.saved)
        self._doubtful = set(snapshot.doubtful)
