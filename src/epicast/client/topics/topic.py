"""A topic as an application sees it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from epicast.client.checking import EventChecks, invalid
from epicast.client.errors import Closed, JoinFailed, PublishRefused
from epicast.client.topics.contacts import ContactSeeker
from epicast.client.topics.early import EarlySubscription, EarlySubscriptions
from epicast.client.topics.items import Gap
from epicast.client.topics.subscription import DEFAULT_WINDOW_BYTES, TopicSubscription
from epicast.core import Config, ConfigError, EpicastError, EventBatch, Peer
from epicast.deployment.addresses import Address
from epicast.protocols.epto import Pending
from epicast.protocols.notifications import OUT_OF_TURN
from epicast.protocols.topic_modes import ORDERED_MODE, topic_mode
from epicast.runtime.waiting import (
    Bell,
    done_within,
    end_task,
    in_thread,
    next_turn,
    spawn,
    until_done,
)

if TYPE_CHECKING:
    from epicast.client.topics.peer import PeerNode

log = logging.getLogger("epicast.client")

State = Literal["joining", "joined", "left"]
_BATCH_EVENTS = 1024
_BATCH_BYTES = 1 << 20
"""Of one publication: larger ones are handed over in parts."""
_LOOK_S = 0.02
_LOOK_MOST_S = 0.5
JOIN_WITHIN_S = 120.0
"""Seconds after which a topic that was not joined ends, if `node.topic` names no other time."""
_SILENT_S = 30.0
"""After which contacts that answer, but of whose topic nothing is heard, are looked up anew."""


class Topic:
    """Made by `node.topic`, once per topic; joins by itself."""

    def __init__(
        self,
        node: PeerNode,
        name: str,
        mode: str,
        number: int,
        config: Config,
        contacts: Sequence[Address],
        next_sequence: int,
        join_within: float | None,
    ) -> None:
        self.name = name
        self.mode = mode
        self.number = number
        """What travels instead of its name."""
        self.config = config
        self.problem = ""
        """What stands in the way of joining, while something does."""
        self.next_sequence = next_sequence
        """The number of the event this node publishes next."""
        self._node = node
        self._contacts = tuple(contacts)
        self._seeker: ContactSeeker | None = None
        self._is_joined = False
        self._runs = False
        self._over: EpicastError | None = None
        self._news = Bell()
        self.early = EarlySubscriptions()
        self._subscriptions: list[TopicSubscription] = []
        self._dropped = 0
        self._refusals: dict[int, str] = {}
        """Why a publication was refused, by the `id` of its batch; empty if it was not. Holds the
        publications that a caller waits for."""
        self._largest = topic_mode(mode).largest_event(config)
        self._checks = EventChecks(name, self._largest, self._largest)
        self._join_within = join_within
        self._joining = spawn(self._join())

    # -- joining and leaving ---------------------------------------------------------------------

    @property
    def state(self) -> State:
        if self._over is not None:
            return "left"
        return "joined" if self._is_joined else "joining"

    async def joined(self, timeout: float | None = None) -> None:
        """Wait until somebody in the topic was heard of; at once if no contacts were given.

        A contact that cannot be reached is tried again. Raises `JoinFailed`, which says what stands
        in the way, after `timeout` seconds; joining goes on. Once `join_within` of `node.topic` is
        over, the topic ends: this, `publish` and subscriptions raise `JoinFailed`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.state == "joining":
            left = None if deadline is None else deadline - time.monotonic()
            if timeout is not None and left is not None and left <= 0:
                raise self._not_joined(timeout)
            await self._news.wait(left)
        self._raise_over()

    def _not_joined(self, seconds: float) -> JoinFailed:
        reason = self.problem or "nobody was heard of yet"
        return JoinFailed(
            f"topic {self.name!r} was not joined within {seconds:g} seconds: {reason}"
        )

    async def _join(self) -> None:
        attempts = spawn(self._try_to_join())
        try:
            if await done_within(attempts, self._join_within):
                await attempts
            elif self._join_within is not None:
                self._give_up_joining(self._not_joined(self._join_within))
        except EpicastError as error:
            self._give_up_joining(error)
        except Exception as error:
            failed = JoinFailed(f"topic {self.name!r} cannot be joined: {error!r}")
            failed.__cause__ = error
            self._give_up_joining(failed)
        finally:
            await end_task(attempts)

    def _give_up_joining(self, error: EpicastError) -> None:
        """End the topic, so that `node.topic` makes another one."""
        if self._over is None:
            log.warning("%s", error)
            self.end(error)
            self._stop()
            self._node.forget_topic(self)

    async def _try_to_join(self) -> None:
        await self._node.ready()
        await in_thread(topic_mode(self.mode).warm_up)
        while not self._is_joined:
            contacts = await self._find_contacts()
            self._node.start_topic(self, contacts)
            self._runs = True
            if not contacts or await self._heard_of_others(contacts):
                self.problem = ""
                self._is_joined = True
                self._news.ring()
            else:
                self._stop()

    def _stop(self) -> None:
        if self._runs:
            self._runs = False
            self._node.stop_topic(self)

    async def _find_contacts(self) -> list[Peer]:
        if not self._contacts:
            return []
        self._seeker = self._seeker or self._node.seeker(self, self._contacts)
        return await self._seeker.find()

    def report(self, problem: str) -> None:
        self.problem = problem

    async def _heard_of_others(self, contacts: Sequence[Peer]) -> bool:
        waited, pause = 0.0, _LOOK_S
        while not self._node.has_heard(self):
            if waited > _SILENT_S:
                names = ", ".join(map(str, contacts))
                self.problem = (
                    f"{names} is there, but nothing is heard of topic {self.name!r} in mode "
                    f"{self.mode!r}: does it run there, and do datagrams (UDP) get through?"
                )
                log.warning("topic %s: %s", self.name, self.problem)
                return False
            await Bell().wait(pause)
            waited += pause
            pause = min(2 * pause, _LOOK_MOST_S)
        return True

    async def leave(self) -> None:
        """Say goodbye to the topic. Loops over subscriptions end after what is there already."""
        if self._over is not None:
            return
        self.end(Closed(f"topic {self.name!r} was left"), quietly=True)
        await end_task(self._joining)
        self._stop()
        self._node.forget_topic(self)
        await next_turn()  # in which the goodbye is sent

    def end(self, error: EpicastError, *, quietly: bool = False) -> None:
        """Nothing more is published or received; `quietly`: the application wanted it so."""
        if self._over is None:
            self._over = error
            for subscription in self._subscriptions:
                subscription.end(None if quietly else error)
            self._news.ring()

    async def give_up(self) -> None:
        """The node has ended, and with it the topic."""
        await end_task(self._joining)

    def _raise_over(self) -> None:
        if self._over is not None:
            raise self._over

    async def __aenter__(self) -> Topic:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.leave()

    # -- publishing ------------------------------------------------------------------------------

    async def publish(self, payload: bytes, key: bytes = b"") -> int:
        """Publish an event; returns its number, which with this node's id is its name.

        Waits until the topic is joined and has room. Nobody acknowledges: what a topic promises
        is up to its mode. A call that is cancelled while it waits may publish all the same.
        """
        payload, key = self._checks.event(payload, key)
        return await self._publish([payload], [key] if key else None)

    async def publish_many(
        self, payloads: Sequence[bytes] | EventBatch, keys: Sequence[bytes] | None = None
    ) -> int:
        """Publish events, or the columns of a batch; returns the number of the last."""
        if isinstance(payloads, EventBatch):
            columns = self._checks.columns(payloads, keys)
            await self.joined()
            return await self._hand_over(
                columns.renumbered(self._node.id, 0, self.next_sequence, time.time_ns(), ())
            )
        payloads, keys = self._checks.events(payloads, keys)
        last = 0
        for start in range(0, len(payloads), _BATCH_EVENTS):
            part = slice(start, start + _BATCH_EVENTS)
            last = await self._publish(payloads[part], None if keys is None else keys[part])
        return last

    async def _publish(self, payloads: Sequence[bytes], keys: Sequence[bytes] | None) -> int:
        await self.joined()
        return await self._hand_over(
            EventBatch.build(
                self._node.id, self.next_sequence, payloads, keys=keys, time=time.time_ns()
            )
        )

    async def _hand_over(self, batch: EventBatch) -> int:
        """Numbers are taken when publications are queued, in order and without holes: a number
        that nobody ever published would be missed by everybody for a while. What is refused gives
        its number back; what was queued behind it is queued again, with other numbers."""
        self._raise_over()
        longest = batch.longest
        if longest.key + longest.payload > self._largest:
            raise invalid(
                f"an event of {longest.key + longest.payload} bytes, key and payload; "
                f"{self._largest} is the most in topic {self.name!r}: publish parts, or where the "
                "data is"
            )
        refused = await self._try(batch)
        while refused is not None:
            part, refusal = refused
            if refusal != OUT_OF_TURN:
                taken = part.first - batch.first
                some = f" ({taken} events before it were published)" if taken else ""
                raise PublishRefused.from_text(f"INVALID: {refusal}{some}")
            self._raise_over()
            batch = batch.slice(part.first, batch.last).renumbered(
                self._node.id, 0, self.next_sequence, time.time_ns(), ()
            )
            refused = await self._try(batch)
        self._raise_over()
        return batch.last

    async def _try(self, batch: EventBatch) -> tuple[EventBatch, str] | None:
        """Queue a batch: the first part of it that was refused, and why."""
        waiting: list[Any] = []
        parts: list[EventBatch] = []
        try:
            for part in _parts(batch):
                waiting.append(self._node.submit(part, self.number))
                self.next_sequence = part.last + 1
                parts.append(part)
                self._refusals[id(part)] = ""
            for future in waiting:
                if future is not None:
                    await until_done(future)
            await next_turn()  # in which the protocol takes up what was accepted, or refuses it
            refused = ((part, self._refusals[id(part)]) for part in parts)
            return next(((part, why) for part, why in refused if why), None)
        finally:
            for part in parts:
                del self._refusals[id(part)]

    def on_refuse(self, batch: EventBatch, error: str) -> None:
        self.next_sequence = min(self.next_sequence, batch.first)
        if id(batch) in self._refusals:
            self._refusals[id(batch)] = error

    # -- subscribing -----------------------------------------------------------------------------

    def subscribe(
        self, *, early: float | None = None, window_bytes: int = DEFAULT_WINDOW_BYTES
    ) -> TopicSubscription:
        """What is delivered from now on, in the order it is; the node's own events too.

        `window_bytes` bounds what is held that the application has not asked for. Beyond it the
        oldest is given up, and a `Gap` stands for it.

        With `early`, a probability, events of an ordered topic come as soon as each is so likely to
        be in its final place. `Confirmed` says later which are, and `Revised` which are not and are
        to be rolled back: what is right follows.
        """
        self._raise_over()
        subscription: TopicSubscription
        if early is None:
            subscription = TopicSubscription(window_bytes, self._forget)
        else:
            self._require_order("early")
            subscription = EarlySubscription(early, window_bytes, self._forget)
            self.early.add(subscription)
        self._subscriptions.append(subscription)
        return subscription

    def _forget(self, subscription: TopicSubscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            if isinstance(subscription, EarlySubscription):
                self.early.remove(subscription)
            self._dropped += subscription.dropped

    def receive(self, batch: EventBatch | Gap) -> None:
        for subscription in self._subscriptions:
            subscription.receive(batch)

    def pending(self) -> list[Pending]:
        """Of an ordered topic: events that are known and not delivered yet, in order, each with the
        probability that this is its final place. As of the last round."""
        self._require_order("pending")
        return self._node.topic_pending(self)

    def _require_order(self, what: str) -> None:
        if self.mode != ORDERED_MODE:
            raise ConfigError(
                f"{what}: topic {self.name!r} has mode {self.mode!r}, which delivers what comes at "
                f"once; nothing waits to be ordered except in mode {ORDERED_MODE!r}"
            )

    def statistics(self) -> Mapping[str, int | float]:
        """Counters of the topic's protocol, and what is held here."""
        return {
            **self._node.topic_statistics(self),
            "joined": int(self.state == "joined"),
            "join_attempts": self._seeker.attempts if self._seeker is not None else 0,
            "subscriptions": len(self._subscriptions),
            "dropped_events": self._dropped + sum(s.dropped for s in self._subscriptions),
        }

    def __repr__(self) -> str:
        return f"<Topic {self.name!r} {self.mode} {self.state}>"


def _parts(batch: EventBatch) -> Iterator[EventBatch]:
    rows = min(_BATCH_EVENTS, max(1, batch.rows * _BATCH_BYTES // max(1, batch.wire_size())))
    for first in range(batch.first, batch.last + 1, rows):
        yield batch.slice(first, min(first + rows - 1, batch.last))
