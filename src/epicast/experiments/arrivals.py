"""Counting arrivals: when was a batch everywhere?"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from epicast.core import ConfigError, EventBatch, NodeId

_NOT_YET = -1


class Arrivals:
    """Streams of batches with `rows` events each, followed by `agents` nodes.

    Deliveries to a node are contiguous but need not be whole batches: a batch has arrived when its
    last event has.
    """

    def __init__(self, streams: int, agents: int, rows: int, before: int = 0) -> None:
        """`before` events of each stream come before its first batch and do not count."""
        self.rows = rows
        self._before = before
        self._agents = agents
        self._began: list[list[int]] = [[] for _ in range(streams)]
        self._counts: list[list[int]] = [[] for _ in range(streams)]
        self._completed: list[list[int]] = [[] for _ in range(streams)]
        """When the last agent got a batch; `_NOT_YET` while one has not."""
        self._taken: list[dict[NodeId, int]] = [{} for _ in range(streams)]
        """Batches each agent has."""
        self._times: list[int] = []
        """Of all arrivals at single agents, in the order they came."""

    def expect(self, stream: int, at: int) -> None:
        """The next batch of a stream comes to its proxy at `at`."""
        self._began[stream].append(at)
        self._counts[stream].append(0)
        self._completed[stream].append(_NOT_YET)

    def note(self, now: int, node: NodeId, number: int, batch: EventBatch) -> None:
        """Something was delivered; subscriptions are numbered like the streams, from 1."""
        taken = self._taken[number - 1]
        before, after = taken.get(node, 0), (batch.last - self._before) // self.rows
        if after == before:
            return
        taken[node] = after
        counts = self._counts[number - 1]
        for index in range(before, after):
            counts[index] += 1
            if counts[index] == self._agents:
                self._completed[number - 1][index] = now
            self._times.append(now)

    @property
    def missing(self) -> int:
        """Events that have not arrived everywhere."""
        return sum(stream.count(_NOT_YET) for stream in self._completed) * self.rows

    def metrics(self, begin: int, end: int, now: int) -> dict[str, float | int]:
        """Of what happened from `begin` to `end`.

        Throughput counts events that became complete, whenever they were published. Latency is that
        of events published in that time; what has not arrived yet counts as if it did now, so with
        `unfinished` above 0 latencies are lower bounds.
        """
        seconds = (end - begin) / 1e9
        complete = sum(begin <= at < end for stream in self._completed for at in stream)
        single = bisect_left(self._times, end) - bisect_left(self._times, begin)
        found: dict[str, float | int] = {
            "complete_per_s": complete * self.rows / seconds,
            "delivered_per_s": single * self.rows / self._agents / seconds,
        }
        pairs = [self._latencies(index, begin, end, now) for index in range(len(self._began))]
        everything = np.concatenate([latencies for latencies, _ in pairs])
        found["latency_ms"] = _mean_ms(everything)
        found["latency_p99_ms"] = float(np.percentile(everything, 99)) / 1e6
        found["unfinished"] = sum(missing for _, missing in pairs) / len(everything)
        for index, (latencies, _) in enumerate(pairs):
            found[f"latency_{index}_ms"] = _mean_ms(latencies)
        return found

    def _latencies(
        self, stream: int, begin: int, end: int, now: int
    ) -> tuple[NDArray[np.int64], int]:
        """Of the batches published between `begin` and `end`; and how many have not arrived."""
        began = self._began[stream]
        chosen = [index for index, at in enumerate(began) if begin <= at < end]
        completed = [self._completed[stream][index] for index in chosen]
        if not chosen:
            raise ConfigError("nothing was published in the time measured; make it longer")
        latencies = [
            (now if at == _NOT_YET else at) - began[index]
            for index, at in zip(chosen, completed, strict=True)
        ]
        return np.array(latencies, dtype=np.int64), completed.count(_NOT_YET)


def _mean_ms(latencies: NDArray[np.int64]) -> float:
    return float(latencies.mean()) / 1e6
