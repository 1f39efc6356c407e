"""A simulated disk that keeps histories: what is stored is collected as it is on a real one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from epicast.core import EventBatch, Recovered
from epicast.core.effects import Write
from epicast.log import GcPolicy, History, HistoryGone, LogConfig, in_memory
from epicast.log.restarts import Failure, write
from epicast.sim.disk import SimDisk


def history_config(*, waits_for_release: bool = False) -> LogConfig:
    return in_memory(
        names_publishers=True, compact_lag_segments=16, waits_for_release=waits_for_release
    )


class HistoryDisk(SimDisk):
    """Like its base, but streams with a policy are read as `log.History` gives them out."""

    __slots__ = ("_config", "_histories", "_policies", "on_stored")

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

    def history(self, stream: int) -> History | None:
        return self._histories.get(stream)

    def _write(self, stream: int, writes: Sequence[Write]) -> Failure | None:
        history = self._histories.get(stream)
        if history is None:
            history = self._histories[stream] = History.in_memory(
                stream, policy=self._policies.get(stream), config=self._config
            )
        return write(history, writes)

    def _tell(self, stored: Sequence[Write]) -> None:
        if self.on_stored is not None:
            for each in stored:
                if isinstance(each, EventBatch):
                    self.on_stored(each)

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
