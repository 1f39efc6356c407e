"""Telling neighbours about progress: NOTIFY, fanout and shuffling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from epicast.core import Effects, EventBatch, NodeId, Peer
from epicast.protocols.reinforcement.view import ReinforcedView
from epicast.protocols.sprinkler.config import RegionConfig
from epicast.protocols.sprinkler.messages import Counter, Notify


class Notifier:
    """News gathers during a step and goes out once, to the same F neighbours for a while."""

    __slots__ = ("_batches", "_changed", "_config", "_connects", "_left_out", "_news", "_ride",
                 "_shuffled_at", "_view", "neighbors", "sent")  # fmt: skip

    def __init__(self, config: RegionConfig, view: ReinforcedView, *, connects: bool) -> None:
        """`connects`: whether interest in neighbours is stated, so that lost ones are noticed."""
        self._config = config
        self._view = view
        self._connects = connects
        self._shuffled_at: int | None = None
        self._changed = False
        self._news: dict[int, None] = {}
        self._batches: list[EventBatch] = []
        self._ride = config.ride_bytes
        self.neighbors: dict[NodeId, Peer] = {}
        self._left_out: NodeId = 0
        self.sent = 0

    def add(self, stream: int, batches: Sequence[EventBatch]) -> None:
        self._news[stream] = None
        if self._ride >= 0:
            self._ride -= sum(batch.wire_size() for batch in batches)
            self._batches += batches if self._ride >= 0 else ()

    def forget(self, stream: int) -> None:
        """A stream is not spread any more."""
        self._news.pop(stream, None)
        self._batches = [batch for batch in self._batches if batch.stream != stream]

    def leave_out(self, peer: NodeId) -> None:
        """A member of the view that is not told: the proxy, which knows. Its connection must not be
        given up with those of neighbours that are exchanged."""
        self._left_out = peer
        self.remove(peer)

    def remove(self, peer: NodeId) -> None:
        """A neighbour is gone; another takes its place at the next occasion."""
        if self.neighbors.pop(peer, None) is not None:
            self._changed = True

    def flush(self, now: int, counter_of: Callable[[int], Counter], fx: Effects) -> None:
        """Tell the news to the neighbours of the moment."""
        if not self._news:
            return
        self._shuffle_if_due(now, fx)
        if self.neighbors:
            counters = tuple(map(counter_of, self._news))
            batches = tuple(self._batches) if self._ride >= 0 else ()
            fx.send(list(self.neighbors), Notify(counters, batches))
            self.sent += len(self.neighbors)
        self._news.clear()
        self._batches = []
        self._ride = self._config.ride_bytes

    def _shuffle_if_due(self, now: int, fx: Effects) -> None:
        config = self._config
        wanted = min(config.fanout, len(self._view) - (self._left_out in self._view))
        due = self._shuffled_at is None or now - self._shuffled_at >= config.shuffle_time_ns
        if not due and not self._changed and len(self.neighbors) >= wanted:
            return
        if due:
            self._shuffled_at = now
        self._changed = False
        before = self.neighbors
        chosen = self._view.sample(config.fanout, self._left_out)
        self.neighbors = {peer.id: peer for peer in chosen}
        introduce = fx.connect if self._connects else fx.know
        for peer_id, peer in self.neighbors.items():
            if peer_id not in before:
                introduce(peer)
        if self._connects:
            for peer_id in before:
                if peer_id not in self.neighbors:
                    fx.disconnect(peer_id)
