"""A protocol that writes down what it is told and does what a test asks of it."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from epicast.core import (
    AnyMessage,
    Effects,
    EventBatch,
    Message,
    NodeId,
    Peer,
    Protocol,
    Publication,
    Recovered,
)

Reaction = Callable[["Probe", int, Any, Effects], None]
NODE = Peer(1, "here", 1)


class Note(Message):
    text: str


class Probe(Protocol[str]):
    """`reactions[stimulus](probe, now, subject, fx)` is called when that stimulus comes."""

    def __init__(
        self, name: str = "probe", log: list[Any] | None = None, node: Peer = NODE, **reactions: Any
    ) -> None:
        super().__init__(node, name, Random(1))
        self.log: list[Any] = [] if log is None else log
        self.reactions: dict[str, Reaction] = reactions
        self.room = 1 << 30
        self.peers: list[NodeId] = []
        self.recovered = Recovered()
        self.contacts: Sequence[Peer] = ()

    def _noted(self, stimulus: str, now: int, subject: Any, fx: Effects) -> None:
        self.log.append((self.config, stimulus, subject))
        reaction = self.reactions.get(stimulus)
        if reaction is not None:
            reaction(self, now, subject, fx)

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        self.contacts, self.recovered = contacts, recovered
        self._noted("start", now, [contact.id for contact in contacts], fx)

    def on_stop(self, now: int, fx: Effects) -> None:
        self._noted("stop", now, None, fx)

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        self._noted("publish", now, [p.first for p in publications], fx)

    def publish_room(self) -> int:
        return self.room

    def on_messages(
        self, now: int, source: NodeId, messages: Sequence[AnyMessage], fx: Effects
    ) -> None:
        self._noted("messages", now, (source, list(messages)), fx)

    def on_delivery(self, now: int, batch: EventBatch, fx: Effects) -> None:
        self._noted("delivery", now, batch, fx)

    def on_appended(self, now: int, stream: int, seq: int, fx: Effects) -> None:
        self._noted("appended", now, (stream, seq), fx)

    def on_append_failed(self, now: int, stream: int, first: int, reason: str, fx: Effects) -> None:
        self._noted("append failed", now, (stream, first, reason), fx)

    def on_read(self, now: int, token: int, batches: Sequence[EventBatch], fx: Effects) -> None:
        self._noted("read", now, (token, list(batches)), fx)

    def on_ready(self, now: int, peer: NodeId, room: int, fx: Effects) -> None:
        self._noted("ready", now, (peer, room), fx)

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        self._noted("up", now, peer, fx)

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        self._noted("down", now, peer, fx)

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        self._noted("deadline", now, name, fx)

    def sample(self, k: int) -> list[NodeId]:
        return self.peers[:k] if self.peers else super().sample(k)

    def neighbors(self) -> list[NodeId]:
        return list(self.peers)

    def check_invariants(self) -> None:
        self.log.append((self.config, "invariants", None))

    def statistics(self) -> dict[str, int | float]:
        return {"peers": len(self.peers)}


def batch_of(*payloads: bytes, stream: int = 1, first: int = 1) -> EventBatch:
    return EventBatch.build(stream, first, list(payloads))
