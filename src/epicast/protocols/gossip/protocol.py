from collections.abc import Mapping, Sequence
from random import Random

from epicast.core import (
    DATA,
    DATAGRAM,
    Effects,
    NodeId,
    Peer,
    PeerSampler,
    Protocol,
    Publication,
    handles,
)
from epicast.protocols.gossip.config import PushGossipConfig
from epicast.protocols.gossip.messages import Rumor
from epicast.protocols.seen import SeenEvents


class PushGossip(Protocol[PushGossipConfig]):
    """Peers come from the layer below in a stack, or from `peers` when it runs alone."""

    __slots__ = ("_delivered", "_duplicates", "_forwarded", "_seen")

    def __init__(
        self,
        node: Peer,
        config: PushGossipConfig,
        rng: Random,
        peers: PeerSampler | None = None,
    ) -> None:
        super().__init__(node, config, rng)
        self.below = peers
        self._seen = SeenEvents(config.max_sources, config.max_gaps)
        self._delivered = 0
        self._duplicates = 0
        self._forwarded = 0

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        for publication in publications:
            self._handle_rumor(now, self.node.id, Rumor(publication.batch), fx)

    @handles(Rumor)
    def _handle_rumor(self, now: int, source: NodeId, rumor: Rumor, fx: Effects) -> None:
        batch = rumor.batch
        first, last = batch.first, batch.last
        if last <= self._seen.ends.get(batch.stream, 0):  # most messages end here
            self._duplicates += last - first + 1
            return
        new = self._seen.new_ranges(batch.stream, first, last)
        before = self._delivered
        for low, high in new:
            if low != first or high != last:
                rumor = Rumor(batch.slice(low, high))
            self._spread(rumor, fx)
        self._duplicates += last - first + 1 - (self._delivered - before)
        while self._seen.given_up:
            reason, stream, first, last = self._seen.given_up.pop()
            fx.drop(f"seen {reason}", stream=stream, first=first, last=last)

    def _spread(self, rumor: Rumor, fx: Effects) -> None:
        batch, config = rumor.batch, self.config
        fx.deliver(batch)
        events = batch.last - batch.first + 1
        self._delivered += events
        targets = self.sample(config.fanout)
        if targets:
            small = batch.wire_size() <= config.max_datagram_bytes
            fx.send(targets, rumor, DATAGRAM if small else DATA)
            self._forwarded += events * len(targets)

    def statistics(self) -> Mapping[str, int | float]:
        """In events (tombstones and our own included), so that batching does not change them."""
        return {
            "delivered": self._delivered,
            "duplicates": self._duplicates,
            "forwarded": self._forwarded,
            "sources": self._seen.sources,
        }
