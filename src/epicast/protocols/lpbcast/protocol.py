from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from random import Random

from epicast.core import (
    DATA,
    DATAGRAM,
    Effects,
    EventBatch,
    InvariantViolation,
    NodeId,
    Peer,
    PeerSampler,
    Publication,
    Recovered,
    handles,
)
from epicast.protocols.event_runs import in_parts, packed
from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.lpbcast.event_ids import EventIds, well_formed
from epicast.protocols.lpbcast.member import SETTLE, VIEWS, Member
from epicast.protocols.lpbcast.messages import (
    EVENT_RANGE_BYTES,
    GOSSIP_BYTES,
    Announcement,
    EventRange,
    Gossip,
    Notification,
    Retrieve,
    Retrieved,
    SourceDigest,
    notification_bytes,
)
from epicast.protocols.lpbcast.publishing import PublishRate
from epicast.protocols.lpbcast.retrieval import Retrieval, Store
from epicast.protocols.notifications import (
    NotificationBuffer,
    Turns,
    is_notification,
    refusal,
    unpinned,
)

_LAST_ROUNDS = 32
"""Of a node that leaves, at the most."""
_OLDEST = 1 << 31
"""An age that no event has."""


class Lpbcast(Member):
    """With a layer below, or `peers`, membership is their business and only events are gossiped."""

    __slots__ = ("_delivered", "_duplicates", "_events", "_ids", "_published", "_purged",
                 "_purged_young", "_rate", "_refused", "_retrieval", "_store",
                 "_turns")  # fmt: skip

    def __init__(
        self,
        node: Peer,
        config: LpbcastConfig,
        rng: Random,
        peers: PeerSampler | None = None,
    ) -> None:
        super().__init__(node, config, rng, peers)
        self._events = NotificationBuffer(
            config.max_events, config.max_buffer_bytes, config.purging, config.long_ago_rounds, rng
        )
        self._ids = EventIds(config)
        self._retrieval = Retrieval(config, self._ids.knows)
        self._store = Store(config)
        self._rate = PublishRate(config, rng)
        self._turns = Turns()
        self._published = self._delivered = self._duplicates = 0
        self._purged = self._purged_young = self._refused = 0

    # Coming and going

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        self._join(now, contacts, recovered.incarnation, fx)
        self._settle()
        self._arm_round(now, first=True)

    def on_stop(self, now: int, fx: Effects) -> None:
        """A last round with the node's unsubscription in place of its subscription, and more of
        them while there are events of its own that nobody has got."""
        self.timers.clear()
        farewell = self._membership.goodbye() if self.below is None else None
        for _ in range(_LAST_ROUNDS):
            room = self.config.max_events - self._unsent()
            self._publish_batches(self._rate.take_at_most(room), fx)
            self._gossip(now, self._composer.messages(None, self._events, None, 0, farewell), fx)
            if not self._rate.events_waiting and not self._unsent():
                break
        self.timers.clear()

    def _unsent(self) -> int:
        """Events of its own that it has not passed on yet."""
        me = self.node.id
        mine = [run for run in self._events.runs() if run.source == me]
        return sum(run.rows for run in mine if not run.repetitions)

    # Rounds

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        if name == VIEWS:
            self._gossip_membership(now, fx)
            return
        if name == SETTLE:
            self._budget.settle(now)
            return
        config = self.config
        self._begin_round(now)
        self._events.grow_older(config.max_age_rounds)
        self._settle()
        self._rate.next_round(self._round, self._events)
        self._publish_waiting(fx)
        members = self._membership if self._carries_membership() else None
        ids = self._ids if config.retrieval else None
        smallest = self._rate.smallest_buffer if config.adaptive else 0
        self._gossip(now, self._composer.messages(members, self._events, ids, smallest), fx)
        self._retrieve(now, fx)
        self._subscribe_if_quiet(now, fx)

    @property
    def _oldest_gossiped(self) -> int:
        """Nobody passes on what is older than `max_age_rounds`, by its own settings and clock."""
        max_age = self.config.max_age_rounds
        return 2 * max_age + 10 if max_age else _OLDEST

    @property
    def _most_older(self) -> int:
        """Rounds that one message can make an event older by. Who says it is at its end may lie."""
        max_age = self.config.max_age_rounds
        return max(1, max_age // 2) if max_age else _OLDEST

    def _settle(self) -> None:
        if self._round >= self.config.settling_rounds:
            self._ids.settle()

    @handles(Gossip)
    def _handle_gossip(self, now: int, source: NodeId, message: Gossip, fx: Effects) -> None:
        self._hear_of_members(message, fx)
        if message.events:
            self._take_in(message.events, source, fx, self._oldest_gossiped)
        if message.announced:
            self._note_announced(now, source, message.announced, fx)
        if message.digest and self.config.retrieval:
            self._compare(source, message.digest, fx)
        self._rate.hear_of_buffer(message.smallest_buffer)

    # Events

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        for publication in publications:
            batch = publication.batch
            error = self._turns.objection(batch) or refusal(batch, self.config.max_event_bytes)
            if error:
                self._turns.note_refused(batch)
                fx.refuse(publication, error)
                self._refused += batch.rows
            else:
                self._rate.put(batch)
                self._publish_waiting(fx)

    def publish_room(self) -> int:
        return self._rate.room()

    def _publish_waiting(self, fx: Effects) -> None:
        self._publish_batches(self._rate.take(), fx)

    def _publish_batches(self, batches: Iterable[EventBatch], fx: Effects) -> None:
        for batch in batches:
            self._published += batch.rows
            new = self._ids.new_ranges(batch.stream, batch.first, batch.last)
            self._deliver(batch, 0, new, fx)
            self._purge(fx)

    def _take_in(
        self,
        notifications: Sequence[Notification],
        source: NodeId,
        fx: Effects,
        oldest: int = _OLDEST,
    ) -> None:
        """Phase III of gossip reception: deliver what is new and pass it on, note the ages of the
        rest."""
        ids, config, me = self._ids, self.config, self.node.id
        for notification in notifications:
            batch, age = notification.batch, notification.age
            stream, first, last = batch.stream, batch.first, batch.last
            if not is_notification(batch) or age < 0:
                fx.drop("malformed notification", source, stream)
                continue
            if age > oldest:
                fx.drop("implausible age", source, stream, first, last)
                continue
            if ids.had(stream, first, last):  # most end here
                self._duplicates += batch.rows
                self._events.raise_age(stream, first, last, age, self._most_older)
                continue
            if stream == me:  # what it has published itself was had
                fx.drop("event in our name", source, stream, first, last)
                continue
            if not ids.plausible(stream, last):
                fx.drop("implausible id", source, stream, first, last)
                continue
            if batch.payload_bytes > config.max_event_bytes * batch.rows:
                fx.drop("event too large", source, stream, first, last)
                continue
            new = ids.new_ranges(stream, first, last)
            self._deliver(batch, age, new, fx)
            known = batch.rows - sum(high - low + 1 for low, high in new)
            if known:
                self._duplicates += known
                self._events.raise_age(stream, first, last, age, self._most_older)
        self._purge(fx)

    def _deliver(
        self, batch: EventBatch, age: int, new: Sequence[tuple[int, int]], fx: Effects
    ) -> None:
        if not new:
            return
        kept = unpinned(batch)
        for low, high in new:
            fx.deliver(kept.slice(low, high))
            self._delivered += high - low + 1
            self._events.add(kept, low, high, age, self._round)
            self._store.add(kept, low, high, age, self._round)
        for reason, stream, first, last in self._ids.given_up():
            fx.drop(f"seen {reason}", stream=stream, first=first, last=last)

    def _purge(self, fx: Effects) -> None:
        critical = self.config.critical_age_rounds
        for run in self._events.purge():
            self._purged += run.rows
            if run.age < critical:
                self._purged_young += run.rows

    # Retrieval

    def _note_announced(
        self, now: int, source: NodeId, announced: Sequence[Announcement], fx: Effects
    ) -> None:
        """Too large for gossip: there is nothing to wait for."""
        for item in announced:
            events = item.events
            if not 1 <= events.first <= events.last or item.age < 0:
                fx.drop("malformed announcement", source)
                continue
            if item.age > self._oldest_gossiped:
                fx.drop("implausible age", source, events.source)
                continue
            if not self._ids.plausible(events.source, events.last):
                fx.drop("implausible id", source, events.source)
                continue
            last = min(events.last, events.first + self.config.max_retrievals - 1)
            self._events.raise_age(events.source, events.first, last, item.age, self._most_older)
            if events.source == self.node.id:
                continue
            for low, high in self._ids.lacking(events.source, events.first, last):
                self._retrieval.note(events.source, low, high, source, self._round, at_once=True)

    def _compare(self, source: NodeId, digest: Sequence[SourceDigest], fx: Effects) -> None:
        for item in digest:
            if not well_formed(item):
                fx.drop("malformed digest", source)
                continue
            if item.source == self.node.id:  # who knows better
                continue
            if not self._ids.plausible(
                item.source, item.beyond[-1][1] if item.beyond else item.end
            ):
                fx.drop("implausible id", source, item.source)
                continue
            for first, last in self._ids.missing(item, self.config.max_retrievals):
                self._retrieval.note(item.source, first, last, source, self._round)

    def _retrieve(self, now: int, fx: Effects) -> None:
        if self._retrieval.idle:
            return
        at_a_time = (self.config.max_message_bytes - GOSSIP_BYTES) // EVENT_RANGE_BYTES
        abandoned = self._retrieval.abandoned
        questions = self._retrieval.due(self._round, self._ids, self._anybody, self._can_reach)
        for target, wanted in questions.items():
            address = self._membership.address(target)
            if address is not None:
                fx.know(address)
            for start in range(0, len(wanted), at_a_time):
                part = wanted[start : start + at_a_time]
                ranges = [EventRange(run[0].source, run[0].first, run[-1].last) for run in part]
                if self._send(now, [target], Retrieve(tuple(ranges)), DATAGRAM, fx):
                    self._retrieval.count_asked(chain(*part), self._round)
        if self._retrieval.abandoned > abandoned:
            fx.drop("event retrieved from nobody")

    def _anybody(self) -> NodeId | None:
        return next(iter(self.sample(1)), None)

    def _can_reach(self, source: NodeId) -> bool:
        return self._membership.address(source) is not None

    @handles(Retrieve)
    def _handle_retrieve(self, now: int, source: NodeId, message: Retrieve, fx: Effects) -> None:
        if any(not 1 <= item.first <= item.last for item in message.wanted):
            fx.drop("malformed request", source)
            return
        room = self.config.max_message_bytes - GOSSIP_BYTES
        found = [
            Notification(item.age, part)
            for item in self._store.find(message.wanted, self.config.max_retrievals, self._round)
            for part in in_parts(item.batch, room, _batch_size)
        ]
        for part in packed(found, _size, room):
            fits = _size(part[0]) <= room
            self._send(now, [source], Retrieved(tuple(part)), DATAGRAM if fits else DATA, fx)

    @handles(Retrieved)
    def _handle_retrieved(self, now: int, source: NodeId, message: Retrieved, fx: Effects) -> None:
        self._take_in(message.events, source, fx)

    # For the layers above, and for measuring

    def check_invariants(self) -> None:
        config = self.config
        problem = self._membership.problems()
        if not problem and len(self._events) > config.max_events:
            problem = f"{len(self._events)} events, at most {config.max_events}"
        if not problem and self._events.bytes > config.max_buffer_bytes:
            problem = f"{self._events.bytes} bytes of events, at most {config.max_buffer_bytes}"
        if not problem and len(self._store) > config.max_stored_events:
            problem = f"{len(self._store)} stored, at most {config.max_stored_events}"
        if not problem and self._retrieval.events > config.max_retrievals:
            problem = f"{self._retrieval.events} retrievals, at most {config.max_retrievals}"
        if problem:
            raise InvariantViolation(f"node {self.node}: {problem}")

    def statistics(self) -> Mapping[str, int | float]:
        """In events where nothing else is said, so that batching does not change them."""
        return {
            "rounds": self._round,
            "view": len(self._membership.view),
            "published": self._published,
            "refused": self._refused,
            "waiting": self._rate.events_waiting,
            "publish_rate": self._rate.rate,
            "delivered": self._delivered,
            "duplicates": self._duplicates,
            "buffered": len(self._events),
            "purged": self._purged,
            "purged_young": self._purged_young,
            "stored": len(self._store),
            "sources": self._ids.sources,
            "sources_forgotten": self._ids.forgotten,
            "retrieving": self._retrieval.events,
            "retrieval_asked": self._retrieval.asked,
            "retrieval_abandoned": self._retrieval.abandoned,
            "bytes_spent": self._budget.spent,
            "bytes_withheld": self._budget.withheld,
        }


def _size(notification: Notification) -> int:
    return _batch_size(notification.batch)


def _batch_size(batch: EventBatch) -> int:
    return notification_bytes(batch.wire_size())
