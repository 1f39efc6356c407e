"""A protocol that does what a test says and remembers everything that happens to it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from epicast.core import CONTROL, Effects, EventBatch, Message, Peer, Protocol
from epicast.sim.node import SimNode
from epicast.sim.simulation import Simulation
from epicast.wire import register

US = 1_000
MS = 1_000_000
SECOND = 1_000_000_000


@register(65_401)
class Note(Message):
    text: str
    padding: bytes = b""


class Probe(Protocol[None]):
    """`log` has (time, what, …) for every stimulus; `reactions` are called for some of them."""

    def __init__(self, node: Peer, rng: Random) -> None:
        super().__init__(node, None, rng)
        self.log: list[tuple[Any, ...]] = []
        self.room = 1 << 30
        self.reactions: dict[str, Callable[[Effects], None]] = {}
        """What to do on "up", "down", "ready", "appended", or the text of a note."""

    def do(self, now: int, action: Callable[[Effects], None], fx: Effects) -> None:
        action(fx)

    def on_start(self, now, contacts, recovered, fx):
        self.recovered = recovered
        self.contacts = list(contacts)
        self._note(fx, now, "start", recovered.incarnation)

    def on_stop(self, now, fx):
        self._note(fx, now, "stop")

    def on_publish(self, now, publications, fx):
        for publication in publications:
            self._note(fx, now, "publish", publication.batch.first)

    def publish_room(self):
        return self.room

    def on_messages(self, now, source, messages, fx):
        for message in messages:
            self._note(fx, now, message.text, source)

    def on_peer_up(self, now, peer, fx):
        self._note(fx, now, "up", peer)

    def on_peer_down(self, now, peer, fx):
        self._note(fx, now, "down", peer)

    def on_ready(self, now, peer, room, fx):
        self._note(fx, now, "ready", peer, room)

    def on_appended(self, now, stream, seq, fx):
        self._note(fx, now, "appended", stream, seq)

    def on_append_failed(self, now, stream, first, reason, fx):
        self._note(fx, now, "append failed", stream, first, reason)

    def on_read(self, now, token, batches, fx):
        self._note(fx, now, "read", token, [(batch.first, batch.last) for batch in batches])

    def on_deadline(self, now, name, fx):
        self._note(fx, now, "timer", name)

    def _note(self, fx: Effects, now: int, what: str, *more: Any) -> None:
        self.log.append((now, what, *more))
        if what in self.reactions:
            self.reactions[what](fx)

    # -- looking at the log ----------------------------------------------------------------------

    def events(self, *wanted: str) -> list[tuple[Any, ...]]:
        """The log without times; all but starts if nothing is named."""
        return [
            entry[1:]
            for entry in self.log
            if (entry[1] in wanted if wanted else entry[1] != "start")
        ]

    def texts(self) -> list[str]:
        return [entry[1] for entry in self.log if entry[1] != "start"]

    def times(self, what: str) -> list[int]:
        return [entry[0] for entry in self.log if entry[1] == what]


class Lab:
    """Probes 1..n in a simulation, made to act from outside."""

    def __init__(self, nodes: int = 2, seed: int = 1, **options: Any) -> None:
        self.sim = Simulation(seed, **options)
        for _ in range(nodes):
            self.sim.add_node(Probe)

    def node(self, number: int) -> SimNode:
        return self.sim.nodes[number]

    def __getitem__(self, number: int) -> Probe:
        protocol = self.sim.nodes[number].protocol
        assert isinstance(protocol, Probe)
        return protocol

    def act(self, number: int, action: Callable[[Effects], None]) -> None:
        """Have node `number` do something, as if a handler had asked for it."""
        self.sim.stimulate(self.node(number), "do", action)

    def at(self, time: int, function: Callable[..., None], *arguments: Any) -> None:
        """Call during the run, at `time` after its beginning."""
        self.sim.scheduler.at(time, lambda _, __: function(*arguments))

    def send(
        self, source: int, target: Any, text: str, channel: int = CONTROL, **more: Any
    ) -> None:
        self.act(source, lambda fx: fx.send(target, Note(text, **more), channel))

    def connect(self, source: int, target: int) -> None:
        self.act(source, lambda fx: fx.connect(Peer(target)))

    def disconnect(self, source: int, target: int) -> None:
        self.act(source, lambda fx: fx.disconnect(target))

    def link(self, source: int, target: int) -> None:
        """A connection that both want, up."""
        self.connect(source, target)
        self.connect(target, source)
        self.sim.run_for(SECOND)
        assert self[source].events("up")[-1] == ("up", target)
        for number in (source, target):
            self[number].log.clear()

    def run(self, duration: int) -> None:
        self.sim.run_for(duration)


def batch(stream: int, first: int, count: int = 1, size: int = 10) -> EventBatch:
    payloads = [f"{stream}:{first + i}:".encode().ljust(size, b".") for i in range(count)]
    return EventBatch.build(stream, first, payloads)
