"""What the topics of a host share, and the effects through which each of them does."""

from __future__ import annotations

from msgspec import Struct

from epicast.core.batch import EventBatch
from epicast.core.effects import DeliverAfterAppend, Effects, TopicDelivery
from epicast.core.ids import Group, NodeId, Peer
from epicast.core.sharing import SharedInterest, SharedLinks
from epicast.core.tagged import TaggedEffects, tag_token


class Shared:
    """Who is interested in what, and what is on the node's disk for whom."""

    __slots__ = ("appenders", "groups", "links", "log_ends", "saved")

    def __init__(self) -> None:
        self.links = SharedLinks()
        self.groups: SharedInterest[Group] = SharedInterest()
        self.appenders: dict[int, int] = {}
        """The topic that appends to a stream, by stream."""
        self.log_ends: dict[int, int] = {}
        """How far each stream is durable: a topic that starts is told."""
        self.saved: dict[int, dict[str, bytes]] = {}
        """What each topic has saved, for the same reason."""

    def forget(self, topic: int, fx: Effects) -> None:
        """End the interests of a topic. What it stored stays."""
        for peer in self.links.forget(topic):
            fx.disconnect(peer)
        for group in self.groups.forget(topic):
            fx.leave(group)
        self.appenders = {s: owner for s, owner in self.appenders.items() if owner != topic}


class TopicEffects(TaggedEffects):
    """Effects of one topic: deliveries say which, interests are counted."""

    __slots__ = ("_shared", "_start")

    def __init__(self, topic: int, start: int, shared: Shared, outer: Effects) -> None:
        super().__init__(topic, outer)
        self._start = start
        self._shared = shared

    def deliver(self, batch: EventBatch) -> None:
        self.operations.append(TopicDelivery(self.tag, batch))

    def deliver_after_append(self, batch: EventBatch) -> None:
        self.operations.append(DeliverAfterAppend(batch, self.tag))

    def connect(self, peer: Peer) -> None:
        if self._shared.links.connect(self.tag, peer.id):
            self._outer.connect(peer)

    def disconnect(self, peer: NodeId) -> None:
        if self._shared.links.disconnect(self.tag, peer):
            self._outer.disconnect(peer)

    def join(self, group: Group) -> None:
        if self._shared.groups.add(self.tag, group):
            self._outer.join(group)

    def leave(self, group: Group) -> None:
        if self._shared.groups.remove(self.tag, group):
            self._outer.leave(group)

    def append(self, batch: EventBatch) -> None:
        owner = self._shared.appenders.setdefault(batch.stream, self.tag)
        if owner != self.tag:
            raise RuntimeError(f"append: stream {batch.stream} is topic {owner}'s on this node")
        self._outer.append(batch)

    def save(self, name: str, value: bytes) -> None:
        self._shared.saved.setdefault(self.tag, {})[name] = value
        super().save(name, value)

    def notice(self, topic: int, value: Struct) -> None:
        """One for topic 0 is for this topic, whose number its protocol does not know."""
        self._outer.notice(topic or self.tag, value)

    def read(self, stream: int, first: int, max_bytes: int, token: int) -> None:
        # Tagged with the topic's start, not its number: an answer that comes after the topic was
        # removed must not reach its successor.
        self._outer.read(stream, first, max_bytes, tag_token(token, self._start))
