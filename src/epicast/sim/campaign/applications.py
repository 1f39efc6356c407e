"""What sits at the edges: it takes what is delivered at its own pace, and publishes."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from epicast.core import EventBatch, EventKind
from epicast.core.sampling import derive_seed
from epicast.log import gc_payload, parse
from epicast.protocols.sprinkler.numbering import PublisherNumbers
from epicast.sim.campaign.plan import MS, PlannedEdge, Publishing
from epicast.sim.campaign.truth import Broken
from epicast.sim.campaign.watched import Session
from epicast.sim.node import SimNode

if TYPE_CHECKING:
    from epicast.sim.campaign.world import World

_NOWHERE = 1
"""No stream has this id."""
_TOO_MANY_REGIONS = "regions=99"
_AFTERWARDS = 3
"""Publications to each stream once all is healed."""


class Application:
    def __init__(self, world: World, plan: PlannedEdge, node: SimNode) -> None:
        self._world = world
        self.plan = plan
        self.node = node
        self._unconsumed: dict[int, int] = {}
        """By subscription: bytes delivered and not taken."""
        self._stalled = False
        self._untaken: dict[int, tuple[int, int]] = {}
        """By subscription: how far it was delivered while it stalled, and how many bytes."""
        self._streams = {number: each.stream for number, each in enumerate(plan.subscribed, 1)}

    # -- subscriptions ---------------------------------------------------------------------------

    def start(self) -> None:
        for number, wanted in enumerate(self.plan.subscribed, 1):
            session = Session(
                f"{self.plan.name}#{number}", self._world.id_of(wanted.stream), wanted.window_bytes
            )
            self._world.oracles.sessions[self.node.id, number] = session
            self._subscribe(number, session)
        for begin, end in self.plan.stalls:
            self._world.at(begin, self._stall)
            self._world.at(end, self._go_on)

    def resume(self) -> None:
        """The node was started again: go on behind the watermarks."""
        self._unconsumed.clear()
        self._untaken.clear()
        for number in self._streams:
            self._subscribe(number, self._world.oracles.sessions[self.node.id, number])

    def _subscribe(self, number: int, session: Session) -> None:
        self._world.geo.subscribe(
            self.node,
            number,
            self._streams[number],
            epoch=session.epoch,
            after=session.end,
            window_bytes=session.window,
        )

    def on_delivery(self, session: Session, number: int, batch: EventBatch) -> None:
        size = batch.wire_size()
        before = self._unconsumed.get(number, 0)
        if before > 2 * session.window + self._world.slack_bytes:
            raise Broken(f"{session.name}: {before} bytes wait, the window is {session.window}")
        self._unconsumed[number] = before + size
        if self._stalled:
            self._untaken[number] = (batch.last, self._untaken.get(number, (0, 0))[1] + size)
        elif (
            self.plan.delay_ns and self._world.simulation.now < self._world.plan.publishing_ends_ns
        ):
            # Later on the system is judged by how long it takes, not its applications.
            later = (number, batch.last, size, self.node.incarnation, session.resets)
            scheduler = self._world.simulation.scheduler
            scheduler.at(scheduler.now + self.plan.delay_ns, self._take_later, later)
        else:
            self._take(number, batch.last, size)

    def on_restarted(self, number: int) -> None:
        self._unconsumed[number] = 0
        self._untaken.pop(number, None)

    def _take_later(self, what: tuple[int, int, int, int, int], _: Any) -> None:
        number, last, size, incarnation, resets = what
        session = self._world.oracles.sessions[self.node.id, number]
        if self.node.alive and self.node.incarnation == incarnation and session.resets == resets:
            self._take(number, last, size)

    def _take(self, number: int, last: int, size: int) -> None:
        self._unconsumed[number] -= size
        self._world.geo.consumed(self.node, number, last)

    def _stall(self) -> None:
        self._stalled = True

    def _go_on(self) -> None:
        self._stalled = False
        untaken, self._untaken = self._untaken, {}
        if self.node.alive:
            for number, (last, size) in untaken.items():
                self._take(number, last, size)


class Publisher:
    """Numbers what it publishes, stream by stream, as the client library does, and saves the next
    number before a publication leaves; every payload says what it is."""

    def __init__(self, world: World, plan: Publishing, name: str, node: SimNode) -> None:
        self._world = world
        self._plan = plan
        self._name = name
        self.node = node
        self._rng = Random(derive_seed(world.plan.seed, "publisher", name))
        streams = (*map(world.id_of, plan.streams), _NOWHERE)
        self._numbers = {stream: PublisherNumbers(1) for stream in streams}
        self._saved = dict.fromkeys(streams, 1)
        self._runs = 1
        self._unanswered: dict[tuple[int, int], tuple[EventBatch, str]] = {}
        """By stream and first number, in the order they were published."""

    def start(self) -> None:
        plan, world = self._plan, self._world
        for time in range(plan.from_ns, world.plan.publishing_ends_ns, plan.every_ns):
            world.at(time, self._publish_some)
        for at in range(_AFTERWARDS):
            for stream in plan.streams:
                time = world.plan.trouble_ends_ns + (1 + at) * 200 * MS
                world.at(time, partial(self._publish_data, stream, 1))

    def resume(self) -> None:
        """The node was started again; the publisher has kept what it had no answer to, or not."""
        self._numbers = {stream: PublisherNumbers(first) for stream, first in self._saved.items()}
        self._runs += 1
        unanswered, self._unanswered = self._unanswered, {}
        self._world.oracles.on_publisher_lost(self.node.id)
        if self._plan.repeats:
            for batch, level in unanswered.values():
                self._publish(batch, level)

    def on_answer(self, batch: EventBatch) -> None:
        self._unanswered.pop((batch.stream, batch.first), None)

    def on_refusal(self, batch: EventBatch) -> None:
        self.on_answer(batch)
        self._numbers[batch.stream].refused += batch.rows

    def _publish_some(self) -> None:
        for _ in range(self._plan.burst):
            self._publish_something()

    def _publish_something(self) -> None:
        plan, rng = self._plan, self._rng
        if rng.random() < 0.2:
            return
        if plan.unsound_share and rng.random() < plan.unsound_share:
            self._publish_unsound(rng.choice(plan.streams))
            return
        stream = rng.choice(plan.streams)
        if rng.random() < plan.gc_share:
            self._publish_gc(stream)
        else:
            self._publish_data(
                stream, plan.batch if rng.random() < 0.7 else rng.randint(1, plan.batch)
            )

    def _publish_data(self, stream: str, count: int) -> None:
        keys = [self._key() for _ in range(count)]
        self._build(stream, keys, [b""] * count, None)

    def _publish_gc(self, stream: str) -> None:
        rng, key = self._rng, b""
        text = f"seq < {rng.randint(1, 150)}"
        if self._plan.keys:
            number = rng.randrange(self._plan.keys)
            text = rng.choice((text, f"key == 'k{number}'", f"key prefix 'k{number}'"))
            if text.startswith("key ==") and rng.random() < 0.5:
                key = b"k%d" % number  # the removal of a key is an event of that key
        self._build(stream, [key], [gc_payload(parse(text))], [int(EventKind.GC)])

    def _publish_unsound(self, stream: str) -> None:
        """Something that has to be refused: one event of several is wrong, or where they go to."""
        rng = self._rng
        count = rng.randint(1, 4)
        keys, heads, kinds = [b""] * count, [b""] * count, [int(EventKind.DATA)] * count
        wrong = rng.choice(("key", "predicate", "kind", "level", "stream"))
        at = rng.randrange(count)
        if wrong == "key":
            keys[at] = bytes(self._world.geo.streams[stream].max_key_bytes + 1)
        elif wrong == "predicate":
            kinds[at] = int(EventKind.GC)
        elif wrong == "kind":
            kinds[at] = 9
        level = _TOO_MANY_REGIONS if wrong == "level" else ""
        where = _NOWHERE if wrong == "stream" else self._world.id_of(stream)
        batch = self._numbered(where, keys, heads, kinds)
        if batch is not None:
            self._publish(batch, level, is_sound=False)

    def _key(self) -> bytes:
        """Some are far more frequent than others."""
        different = self._plan.keys
        return b"k%d" % int(different * self._rng.random() ** 3) if different else b""

    def _build(
        self, stream: str, keys: list[bytes], heads: list[bytes], kinds: list[int] | None
    ) -> None:
        batch = self._numbered(self._world.id_of(stream), keys, heads, kinds)
        if batch is not None:
            self._publish(batch, self._plan.level if self._rng.random() < 0.5 else "")

    def _numbered(
        self, stream: int, keys: list[bytes], heads: list[bytes], kinds: list[int] | None
    ) -> EventBatch | None:
        """A batch under the next numbers, which are saved; None while the node is down."""
        if not self.node.alive:
            return None
        numbers = self._numbers[stream]
        first = numbers.take(len(keys))
        self._saved[stream] = numbers.next
        run = f":{self._runs}" if self._runs > 1 else ""
        payloads = [
            (head + f"{self._name}:{stream}:{first + at}{run}".encode()).ljust(
                self._plan.size_bytes, b"."
            )
            for at, head in enumerate(heads)
        ]
        return EventBatch.build(stream, first, payloads, keys=keys, kinds=kinds)

    def _publish(self, batch: EventBatch, level: str, *, is_sound: bool = True) -> None:
        self._unanswered[batch.stream, batch.first] = (batch, level)
        self._world.publish(self.node, batch, level, is_sound=is_sound)
