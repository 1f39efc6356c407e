from collections.abc import Mapping, Sequence
from random import Random

from epicast.core import (
    DATA,
    Effects,
    EventBatch,
    InvariantViolation,
    NodeId,
    Peer,
    Protocol,
    Publication,
    handles,
)
from epicast.protocols.flood.config import FloodConfig
from epicast.protocols.flood.messages import Flooded
from epicast.protocols.seen import SeenEvents


class Flood(Protocol[FloodConfig]):
    """Belongs on a layer that has neighbours, such as HyParView."""

    __slots__ = ("_delivered", "_duplicates", "_forwarded", "_neighbors", "_received", "_seen")

    def __init__(self, node: Peer, config: FloodConfig, rng: Random) -> None:
        super().__init__(node, config, rng)
        self._neighbors: list[NodeId] = []
        self._seen = SeenEvents(config.max_sources, config.max_gaps)
        self._received = 0
        self._duplicates = 0
        self._delivered = 0
        self._forwarded = 0

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        if peer not in self._neighbors:
            self._neighbors.append(peer)

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        if peer in self._neighbors:
            self._neighbors.remove(peer)

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        for publication in publications:
            self._spread(publication.batch, None, self.node.id, fx)

    @handles(Flooded)
    def _handle_flooded(self, now: int, source: NodeId, message: Flooded, fx: Effects) -> None:
        batch = message.batch
        covered = batch.last - batch.first + 1
        self._received += covered
        self._duplicates += covered - self._spread(batch, message, source, fx)

    def _spread(
        self, batch: EventBatch, message: Flooded | None, source: NodeId, fx: Effects
    ) -> int:
        """Deliver and forward what is new of `batch`; how many sequence numbers that is."""
        first, last = batch.first, batch.last
        parts = self._seen.new_ranges(batch.stream, first, last)
        if not parts:
            return 0
        to = [peer for peer in self._neighbors if peer != source]
        new = 0
        for low, high in parts:
            if (low, high) == (first, last):
                part, forward = batch, message or Flooded(batch)
            else:
                part = batch.slice(low, high)
                forward = Flooded(part)
            new += high - low + 1
            fx.deliver(part)
            if to:
                fx.send(to, forward, DATA)
                self._forwarded += (high - low + 1) * len(to)
        self._delivered += new
        while self._seen.given_up:
            reason, stream, low, high = self._seen.given_up.pop()
            fx.drop(f"seen {reason}", stream=stream, first=low, last=high)
        return new

    def neighbors(self) -> list[NodeId]:
        return list(self._neighbors)

    def check_invariants(self) -> None:
        if self.node.id in self._neighbors:
            raise InvariantViolation(f"node {self.node} is its own neighbour")

    def statistics(self) -> Mapping[str, int | float]:
        """In events (tombstones included), so that batching does not change them."""
        return {
            "received": self._received,
            "duplicates": self._duplicates,
            "delivered": self._delivered,
            "forwarded": self._forwarded,
            "sources": self._seen.sources,
        }
