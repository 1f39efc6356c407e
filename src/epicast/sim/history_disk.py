"""A simulated disk that keeps histories: what is stored is collected as it is on a real one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from epicast.core import EventBatch, Recovered
from epicast.core.effects import BeginEpoch
from epicast.log import GcPolicy, History, HistoryGone, LogConfig, in_memory
from epicast.sim.disk import Commit, SimDisk


def history_config(*, waits_for_release: bool = False) -> LogConfig:
    return in_memory(
        names_publishers=True, compact_lag_segments=16, waits_for_release=waits_for_release
    )


class HistoryDisk(SimDisk):
    """Like its base, but streams with a policy are read as `log.History` gives them out."""

    __slots__ = ("_config", "_histories", "_policies", "on_began", "on_stored")

    def __init__(
        self,
        sync_ns: int,
        policies: Mapping[int, GcPolicy],
        capacity_bytes: int = 1 << 62,
        config: LogConfig | None = None,
    ) -> None:
        super().__init__(sync_ns, capacity_bytes)
        self._config = config or history_config()
        self._policies = policies
        self._histories: dict[int, History] = {}
        self.on_stored: Callable[[EventBatch], None] | None = None
        """Told of every batch that has become durable."""
        self.on_began: Callable[[BeginEpoch], None] | None = None
        """Told when a history goes on in another epoch, or anew."""

    def history(self, stream: int) -> History | None:
        return self._histories.get(stream)

    def sync(self, commit: Commit) -> dict[int, int]:
        assert self.pending and self.pending[0] is commit
        del self.pending[0]
        ends: dict[int, int] = {}
        for batch in commit.batches:
            history = self._histories.get(batch.stream)
            if history is None:
                history = self._histories[batch.stream] = History.in_memory(
                    batch.stream,
                    policy=self._policies.get(batch.stream),
                    config=self._config,
                    epoch=batch.epoch,
                )
            if not isinstance(batch, EventBatch):
                if not batch.keeps:
                    history.reset(batch.epoch, batch.first)
                elif batch.epoch > history.epoch:
                    history.raise_epoch(batch.epoch)
                if self.on_began is not None:
                    self.on_began(batch)
                continue
            if batch.epoch > history.epoch:
                history.reset(batch.epoch, batch.first)
            history.append(batch)
            ends[batch.stream] = batch.last
            if self.on_stored is not None:
                self.on_stored(batch)
        self._saved.update(commit.saves)
        return ends

    def read(self, stream: int, first: int, max_bytes: int) -> list[EventBatch]:
        history = self._histories.get(stream)
        if history is None:
            return []
        try:
            return history.read(first, max_bytes)
        except HistoryGone as gone:
            return history.read(gone.start, max_bytes)

    def release(self, stream: int, seq: int) -> None:
        if stream in self._histories:
            self._histories[stream].release(seq)

    def crash(self, *, lose_everything: bool) -> None:
        super().crash(lose_everything=lose_everything)
        if lose_everything:
            self._histories.clear()

    def recovered(self, incarnation: int) -> Recovered:
        histories = self._histories
        return Recovered(
            incarnation,
            {stream: history.end for stream, history in histories.items()},
            dict(self._saved),
            {stream: history.epoch for stream, history in histories.items()},
            {stream: history.publishers() for stream, history in histories.items()},
        )
