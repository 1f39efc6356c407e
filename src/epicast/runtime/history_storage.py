"""Histories of streams as the storage of a driver: in memory, on files, or some of each.

Histories are used in the thread of the event loop, where an append takes microseconds. What waits
for a disk is done elsewhere: opening, and syncing. A stream that promises `disk` is neither
appended to nor read while it is being synced, so that nobody sees what a crash could undo.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from epicast.core import ConfigError, EventBatch, Recovered
from epicast.core.effects import BeginEpoch, Write
from epicast.core.epochs import left_of_epoch_ns, new_epoch
from epicast.log import (
    DiskDirectory,
    GcPolicy,
    History,
    LogConfig,
    LogError,
    Statistics,
    SyncTicket,
    gc_payload,
    in_memory,
    warm_up,
)
from epicast.log.restarts import Failure, may_have_lost, write
from epicast.runtime.complaints import Complaints
from epicast.runtime.saved_state import State, StateError, StateFile
from epicast.runtime.storage import SAVES, Failures, StorageError

log = logging.getLogger("epicast.runtime")

_COMPACTED_AT_A_TIME = 1 << 20
"""Bytes: a few milliseconds of the loop's time."""
_MOST_UNSYNCED_BYTES = 64 << 20
"""A history that need not be synced is, behind everybody's back, once so much is not."""


OnStored = Callable[[Sequence[EventBatch], bool], None]
"""Batches of one stream, and whether they are on disk."""
Owned = Callable[[Mapping[str, bytes]], Collection[int]]
"""By saved values: the streams whose events this node numbers."""


class StreamStore(Struct, frozen=True, kw_only=True):
    """How one stream is kept."""

    policy: GcPolicy = GcPolicy()
    config: LogConfig | None = None
    """None: what suits memory, or files."""
    folder: Path | None = None
    """Where its segments are, in a folder of its own; None: in memory."""
    owned: bool = False
    """Whether this node numbers its events, and so must never use a number twice in an epoch."""


class HistoryStorage:
    immediate = True

    def __init__(
        self,
        streams: Mapping[int, StreamStore],
        folder: Path | None = None,
        *,
        wall_clock_ns: Callable[[], int] = time.time_ns,
        on_stored: OnStored | None = None,
        owned: Owned | None = None,
    ) -> None:
        """`folder` is for saved values and the incarnation; None: they are kept in memory.
        `on_stored` is told what has become stable, before anybody else is. `owned` says whether
        what was saved has changed what this node numbers."""
        folders = [store.folder for store in streams.values() if store.folder is not None]
        for path in folders:
            if folders.count(path) > 1:
                raise ConfigError(f"{path}: give every stream a folder of its own")
        self._stores = dict(sorted(streams.items()))
        self._wall_clock_ns = wall_clock_ns
        self._file = StateFile(folder) if folder is not None else None
        self._state: State | None = None
        self._histories: dict[int, History] = {}
        self._locks = {stream: asyncio.Lock() for stream in self._stores}
        """Held while a history is being synced in another thread."""
        self._complaints: dict[int, tuple[str, int]] = {}
        """What upkeep of a history ran into, and when it first did."""
        self._failed_appends = Complaints(log)
        self._doubtful: set[int] = set()
        """Streams that may have lost events, and whose epoch others decide on."""
        self._on_stored = on_stored
        self._owned = owned

    # -- life ------------------------------------------------------------------------------------

    async def recover(self) -> Recovered:
        """Opens everything, which can take seconds; a second call finds it open."""
        await asyncio.to_thread(self._open)
        assert self._state is not None
        return Recovered(
            self._state.incarnation,
            {stream: history.stable_end for stream, history in self._histories.items()},
            dict(self._state.saved),
            {stream: history.epoch for stream, history in self._histories.items()},
            {stream: history.publishers() for stream, history in self._histories.items()},
            frozenset(self._doubtful),
        )

    async def close(self) -> None:
        """Sync everything and note that nothing is missing."""
        histories, self._histories = self._histories, {}
        for stream, history in histories.items():
            async with self._locks[stream]:
                try:
                    await asyncio.to_thread(history.close)
                except (LogError, OSError) as error:
                    log.warning("stream %d was not closed in good order: %s", stream, error)

    def history(self, stream: int) -> History:
        try:
            return self._histories[stream]
        except KeyError:
            raise StorageError(
                f"stream {stream} has no history here; declare it where this node is configured"
            ) from None

    def _open(self) -> None:
        warm_up()  # or the loop would stand still at the first append, read and compaction
        opened: dict[int, History] = {}
        try:
            state = self._state or (self._file.load() if self._file is not None else State())
            is_new = self._file is not None and not state.incarnation
            incarnation = max(state.incarnation + 1, self._wall_clock_ns())
            state = State(incarnation, state.saved, state.doubtful)
            self._doubtful.update(state.doubtful)
            if self._file is not None:
                self._file.write(state)
            if self._owned is not None:
                owned = self._owned(state.saved)
                self._stores = {
                    stream: replace(store, owned=stream in owned)
                    for stream, store in self._stores.items()
                }
            epoch = self._new_epoch(is_new)
            for stream, store in self._stores.items():
                if stream not in self._histories:
                    opened[stream] = self._open_stream(stream, store, epoch)
                    state = self._note_doubts(state)
                    opened[stream].loss_is_noted()
        except (StateError, LogError, OSError) as error:
            for history in opened.values():
                history.close()
            raise StorageError(str(error)) from error
        self._state = state
        self._histories = {
            stream: opened.get(stream) or self._histories[stream] for stream in self._stores
        }

    def _note_doubts(self, state: State) -> State:
        """At once: another stream may not open, or the node may not start for another reason."""
        doubtful = tuple(sorted(self._doubtful))
        if doubtful != state.doubtful:
            state = replace(state, doubtful=doubtful)
            if self._file is not None:
                self._file.write(state)
        return state

    def _new_epoch(self, is_new: bool) -> int:
        """One that no earlier process has used, as long as clocks do not go back.

        Who keeps nothing on disk, or finds nothing there, waits until it has begun: whoever was
        started before had an earlier one, or was ended before it could use its own.
        """
        now = self._wall_clock_ns()
        owned = [store for store in self._stores.values() if store.owned]
        if not self._histories and any(is_new or store.folder is None for store in owned):
            left = left_of_epoch_ns(now)
            time.sleep(left / 1e9)
            now += left
        return new_epoch(now)

    def _open_stream(self, stream: int, store: StreamStore, epoch: int) -> History:
        # What an earlier process or folder held under these numbers is not known here.
        epoch = epoch if store.owned else 0
        if store.folder is None:
            config = store.config or in_memory()
            return History.in_memory(stream, policy=store.policy, config=config, epoch=epoch)
        directory = DiskDirectory(store.folder)
        try:
            return self._recover(directory, stream, store, epoch)
        except BaseException:
            directory.close()
            raise

    def _recover(
        self, directory: DiskDirectory, stream: int, store: StreamStore, epoch: int
    ) -> History:
        history = History(directory, stream, policy=store.policy, config=store.config, epoch=epoch)
        found = history.recovery
        if found.truncation is not None:
            log.warning("stream %d was cut at %d: %s", stream, found.end, found.truncation)
        lost = stream in self._doubtful or may_have_lost(found, history.config)
        if lost and not store.owned:
            self._doubtful.add(stream)
        elif lost:
            history.raise_epoch(max(history.epoch + 1, epoch))
            self._doubtful.discard(stream)
            log.warning(
                "stream %d was not closed in good order and may have lost events after %d; it "
                "continues in epoch %d",
                stream, history.end, history.epoch,
            )  # fmt: skip
        return history

    # -- writing ---------------------------------------------------------------------------------

    def commit_now(self, appends: Sequence[Write], saves: Mapping[str, bytes]) -> Failures | None:
        """None if something is to be saved or synced on a disk."""
        if saves and self._file is not None:
            return None
        by_stream = _by_stream(appends)
        for stream, batches in by_stream.items():
            if self._must_wait(stream, batches):
                return None
        failures = self._append_all(by_stream)
        self._tell(by_stream, failures)
        if saves and self._state is not None:
            self._state = State(self._state.incarnation, {**self._state.saved, **saves})
        return failures

    async def commit(self, appends: Sequence[Write], saves: Mapping[str, bytes]) -> Failures:
        """Values are saved even if some of the streams fail, but not if all of them do."""
        by_stream = _by_stream(appends)
        state = await self._prepare(saves)
        async with AsyncExitStack() as locks:
            for stream in sorted(by_stream):
                if stream in self._locks:
                    await locks.enter_async_context(self._locks[stream])
            failures = self._append_all(by_stream)
            nothing = {stream for stream, failure in failures.items() if not failure.stored}
            for stream, error in (await self._sync(by_stream.keys() - nothing)).items():
                failures[stream] = Failure(error)
            self._tell(by_stream, failures)
        unsaved = ""
        if failures and len(failures) == len(by_stream):
            unsaved = "; ".join(dict.fromkeys(failure.reason for failure in failures.values()))
            if state is not None and self._file is not None:
                self._file.discard()
            if not any(failure.stored for failure in failures.values()):
                raise StorageError(unsaved)
        elif state is not None:
            unsaved = await self._keep(state)
        if saves and unsaved:
            failures[SAVES] = Failure(unsaved)
        return failures

    def _promises_disk(self, stream: int) -> bool:
        """Whether an append counts only once it was synced, and may be seen only then."""
        history = self._histories.get(stream)
        return history is not None and history.config.sync == "disk" and self._is_on_files(stream)

    def _is_on_files(self, stream: int) -> bool:
        return self._stores[stream].folder is not None

    def _must_wait(self, stream: int, writes: list[Write]) -> bool:
        history = self._histories.get(stream)
        if history is None or not self._locks[stream].locked():
            return self._promises_disk(stream)
        # Starting over would take files away from whoever is syncing them.
        return self._promises_disk(stream) or any(isinstance(each, BeginEpoch) for each in writes)

    def _append_all(self, by_stream: Mapping[int, list[Write]]) -> dict[int, Failure]:
        failures: dict[int, Failure] = {}
        for stream, writes in by_stream.items():
            try:
                failure = write(self.history(stream), writes, partial(self._note_set_aside, stream))
            except StorageError as error:
                failure = Failure(str(error))
            if failure is not None:
                failures[stream] = failure
                self._failed_appends.warn(
                    time.monotonic_ns(),
                    "stream %d cannot be appended to: %s", stream, failure.reason,
                )  # fmt: skip
        return failures

    def _note_set_aside(self, stream: int, first: int, names: list[str]) -> None:
        log.warning(
            "stream %d goes on without this node's events from %d on, which others may lack; they "
            "are set aside in %s: %s. Check whether they are needed, then remove these files",
            stream, first, self._stores[stream].folder, ", ".join(names),
        )  # fmt: skip

    def _tell(self, by_stream: Mapping[int, list[Write]], failures: Failures) -> None:
        if self._on_stored is not None:
            for stream, writes in by_stream.items():
                stored = writes[: failures[stream].stored] if stream in failures else writes
                batches = [each for each in stored if isinstance(each, EventBatch)]
                if batches:
                    self._on_stored(batches, self._promises_disk(stream))

    async def _sync(self, streams: Sequence[int] | set[int]) -> dict[int, str]:
        """Sync those that promise it, all at the same time; the failures."""
        waiting = [stream for stream in sorted(streams) if self._promises_disk(stream)]
        if not waiting:
            return {}
        errors = await asyncio.gather(*(self._sync_one(self._histories[s]) for s in waiting))
        return {stream: error for stream, error in zip(waiting, errors, strict=True) if error}

    async def _sync_one(self, history: History) -> str:
        """Why it failed, if it did. A thread cannot be stopped: cancelling waits for it."""
        try:
            ticket = history.begin_sync()
        except LogError as error:
            return str(error)
        running = asyncio.ensure_future(asyncio.to_thread(ticket.run))
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise
        finally:
            problem = self._note_synced(history, ticket, running.exception())
        return problem

    def _note_synced(
        self, history: History, ticket: SyncTicket, error: BaseException | None
    ) -> str:
        try:
            if error is None or isinstance(error, OSError):
                history.finish_sync(ticket, error)
            else:
                history.finish_sync(ticket, OSError(repr(error)))
        except LogError as failure:
            log.error("stream %d: %s", history.stream, failure)
            return str(failure)
        return ""

    async def _prepare(self, saves: Mapping[str, bytes]) -> State | None:
        if not saves or self._state is None:
            return None
        state = State(self._state.incarnation, {**self._state.saved, **saves})
        if self._file is not None:
            try:
                await asyncio.to_thread(self._file.prepare, state)
            except StateError as error:
                raise StorageError(str(error)) from error
        return state

    async def _keep(self, state: State) -> str:
        """Let saved values count; why they do not, if that fails."""
        if self._file is not None:
            try:
                await asyncio.to_thread(self._file.replace)
            except StateError as error:
                return str(error)
        self._state = state
        self._doubtful.clear()  # who was told has said what it makes of it
        return ""

    def release(self, stream: int, seq: int) -> None:
        history = self._histories.get(stream)
        if history is not None:
            history.release(seq)

    # -- reading ---------------------------------------------------------------------------------

    def read_now(self, stream: int, first: int, max_bytes: int) -> list[EventBatch] | None:
        if self._promises_disk(stream):
            return None
        return self._read(stream, first, max_bytes)

    async def read(self, stream: int, first: int, max_bytes: int) -> list[EventBatch]:
        if stream not in self._histories:
            return self._read(stream, first, max_bytes)
        async with self._locks[stream]:
            return self._read(stream, first, max_bytes)

    def _read(self, stream: int, first: int, max_bytes: int) -> list[EventBatch]:
        history = self.history(stream)
        try:
            found = history.read(max(first, history.start), max_bytes)
        except (LogError, OSError) as error:
            raise StorageError(str(error)) from error
        if found and found[-1].last > history.stable_end:
            # A sync failed: what it was for may be gone when the history is opened again.
            found = [
                batch if batch.last <= history.stable_end
                else batch.slice(batch.first, history.stable_end)
                for batch in found
                if batch.first <= history.stable_end
            ]  # fmt: skip
        return found

    # -- upkeep ----------------------------------------------------------------------------------

    async def maintain(self, now_wall_ns: int) -> None:
        """Call it every now and then: syncs that are due, retention, some compaction."""
        for stream, history in list(self._histories.items()):
            async with self._locks[stream]:
                try:
                    # Compaction syncs when it is done: there must not be much left to sync then.
                    if self._is_on_files(stream) and (
                        history.sync_is_due(now_wall_ns)
                        or history.unsynced_bytes > _MOST_UNSYNCED_BYTES
                    ):
                        await self._sync_one(history)
                    history.maintain(now_wall_ns, _COMPACTED_AT_A_TIME)
                    self._complaints.pop(stream, None)
                except (LogError, OSError) as error:
                    said, since = self._complaints.get(stream, ("", now_wall_ns))
                    self._complaints[stream] = (str(error), since)
                    if said != str(error):
                        log.warning("stream %d cannot be maintained: %s", stream, error)

    def expiry(self, stream: int, now_wall_ns: int) -> bytes | None:
        """The payload of the GC event that the stream's owner must append now, if any."""
        try:
            predicate = self.history(stream).expiry(now_wall_ns)
        except (LogError, OSError) as error:
            log.warning("stream %d cannot expire events: %s", stream, error)
            return None
        return gc_payload(predicate) if predicate is not None else None

    def complaints(self) -> Mapping[int, tuple[str, int]]:
        """By stream: why its history cannot be maintained, and since when (wall clock)."""
        return self._complaints

    def statistics(self, stream: int) -> Statistics:
        return self.history(stream).statistics()


def _by_stream(appends: Sequence[Write]) -> dict[int, list[Write]]:
    by_stream: dict[int, list[Write]] = {}
    for each in appends:
        by_stream.setdefault(each.stream, []).append(each)
    return by_stream
