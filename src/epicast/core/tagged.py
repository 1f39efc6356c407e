"""Effects of protocols that share a node, so that none meets another's messages, reads or saves.

A stack gives each layer, a host each topic, effects of its own that carry its tag: messages are
wrapped in `Layered`, the tokens of reads and the names of saved values carry the tag as well.
Everything else goes to the effects outside, where the next stack or host may have its say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from epicast.core.batch import EventBatch
from epicast.core.effects import CONTROL, Channel, Destination, Effects, Publication
from epicast.core.ids import Group, NodeId, Peer
from epicast.core.message import AnyMessage, Layered

MAX_TAG = 2**32 - 1
"""What the wire has room for."""
_TAGS = MAX_TAG + 1


class TaggedEffects(Effects):
    __slots__ = ("_enclosing", "_outer", "tag")

    def __init__(self, tag: int, outer: Effects) -> None:
        self.tag = tag
        self._outer = outer
        self._enclosing: tuple[int, ...] = ()
        if isinstance(outer, TaggedEffects):
            self._enclosing = (outer.tag, *outer._enclosing)
        self.sends = outer.sends
        self.deliveries = outer.deliveries
        self.operations = outer.operations

    @property
    def wall_offset(self) -> int:  # type: ignore[override]
        return self._outer.wall_offset

    @property
    def room(self) -> Callable[[NodeId], int]:  # type: ignore[override]
        return self._outer.room

    def send(self, to: Destination, message: AnyMessage, channel: Channel = CONTROL) -> None:
        message = Layered(self.tag, message)
        for tag in self._enclosing:
            message = Layered(tag, message)
        self.sends.append((to, message, channel))

    def deliver(self, batch: EventBatch) -> None:
        self._outer.deliver(batch)

    def publish_below(self, publication: Publication) -> None:
        self._outer.publish_below(publication)

    def neighbor_up(self, peer: NodeId) -> None:
        self._outer.neighbor_up(peer)

    def neighbor_down(self, peer: NodeId) -> None:
        self._outer.neighbor_down(peer)

    def connect(self, peer: Peer) -> None:
        self._outer.connect(peer)

    def disconnect(self, peer: NodeId) -> None:
        self._outer.disconnect(peer)

    def join(self, group: Group) -> None:
        self._outer.join(group)

    def leave(self, group: Group) -> None:
        self._outer.leave(group)

    def append(self, batch: EventBatch) -> None:
        self._outer.append(batch)

    def save(self, name: str, value: bytes) -> None:
        self._outer.save(f"{self.tag}/{name}", value)

    def send_after_append(
        self, to: Destination, message: AnyMessage, channel: Channel = CONTROL
    ) -> None:
        self._outer.send_after_append(to, Layered(self.tag, message), channel)

    def deliver_after_append(self, batch: EventBatch) -> None:
        self._outer.deliver_after_append(batch)

    def notice(self, topic: int, value: Struct) -> None:
        self._outer.notice(topic, value)

    def read(self, stream: int, first: int, max_bytes: int, token: int) -> None:
        self._outer.read(stream, first, max_bytes, tag_token(token, self.tag))


def tag_token(token: int, tag: int) -> int:
    return token * _TAGS + tag


def untag_token(token: int) -> tuple[int, int]:
    """The token as the reader gave it, and the reader's tag."""
    return divmod(token, _TAGS)


def saved_by_tag(saved: Mapping[str, bytes]) -> dict[int, dict[str, bytes]]:
    """What each tag has saved, under the names it used."""
    parts: dict[int, dict[str, bytes]] = {}
    for tagged_name, value in saved.items():
        tag, slash, name = tagged_name.partition("/")
        if slash and tag.isdecimal():
            parts.setdefault(int(tag), {})[name] = value
    return parts
