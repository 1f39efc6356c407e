from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from epicast.core import (
    DATA,
    DATAGRAM,
    Effects,
    EventBatch,
    InvariantViolation,
    Message,
    NodeId,
    Peer,
    PeerSampler,
    Protocol,
    Publication,
    Recovered,
    handles,
)
from epicast.core.sampling import choose, sample
from epicast.protocols.budget import ByteBudget
from epicast.protocols.lpbcast.composing import Composer
from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.lpbcast.event_ids import EventIds, names_of, well_formed
from epicast.protocols.lpbcast.membership import Membership
from epicast.protocols.lpbcast.messages import (
    EVENT_RANGE_BYTES,
    GOSSIP_BYTES,
    Announcement,
    Gossip,
    Notification,
    Retrieve,
    Retrieved,
    SourceDigest,
    Subscribe,
    Subscription,
    notification_bytes,
)
from epicast.protocols.lpbcast.publishing import PublishRate
from epicast.protocols.lpbcast.retrieval import Retrieval, Store, ranges_of
from epicast.protocols.notifications import (
    Buffered,
    NotificationBuffer,
    is_notification,
    unpinned,
)
from epicast.wire import DATAGRAM_HEADER_BYTES

_ROUND, _VIEWS = "round", "views"


class Lpbcast(Protocol[LpbcastConfig]):
    """With a layer below, or `peers`, membership is their business and only events are gossiped."""

    __slots__ = ("_budget", "_composer", "_contacts", "_delivered", "_duplicates", "_events",
                 "_ids", "_membership", "_published", "_purged", "_purged_young", "_quiet_rounds",
                 "_rate", "_refused", "_retrieval", "_round", "_store")  # fmt: skip

    def __init__(
        self,
        node: Peer,
        config: LpbcastConfig,
        rng: Random,
        peers: PeerSampler | None = None,
    ) -> None:
        super().__init__(node, config, rng)
        self.below = peers
        self._contacts: list[Peer] = []
        self._membership = Membership(node, config, rng)
        self._events = NotificationBuffer(
            config.max_events, config.max_buffer_bytes, config.purging, config.long_ago_rounds, rng
        )
        self._ids = EventIds(config)
        self._retrieval = Retrieval(config)
        self._store = Store(config)
        self._rate = PublishRate(config, rng)
        self._composer = Composer(config, rng)
        self._budget = ByteBudget(config.bytes_per_s)
        self._round = 0
        self._quiet_rounds = 0
        """Since gossip came last."""
        self._published = self._delivered = self._duplicates = 0
        self._purged = self._purged_young = self._refused = 0

    # Coming and going

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        config = self.config
        self._membership.begin(recovered.incarnation)
        if self.below is None:
            others = [peer for peer in contacts if peer.id != self.node.id]
            known = sample(self.rng, others, config.view_size)
            self._contacts = known[: config.max_contacts]
            self._membership.hear([Subscription(peer, 0) for peer in known], fx)
            self._subscribe(now, fx)
        self._settle()
        self._arm(now, _ROUND, config.gossip_period_ns, first=True)
        if config.membership_extra and self.below is None:
            self._arm(now, _VIEWS, self._views_period(), first=True)

    def on_stop(self, now: int, fx: Effects) -> None:
        """A last gossip, with the node's unsubscription in place of its subscription."""
        self.timers.clear()
        if self.below is None:
            farewell = Gossip((), (self._membership.goodbye(),))
            self._send(now, self.sample(self.config.fanout), farewell, DATAGRAM, fx)

    def _subscribe(self, now: int, fx: Effects) -> None:
        """Through a contact, or else whoever is left in the view."""
        contact = choose(self.rng, self._contacts) if self._contacts else None
        if contact is None:
            neighbors = self._membership.sample(1)
            contact = self._membership.address(neighbors[0]) if neighbors else None
        if contact is not None:
            fx.know(contact)
            self._send(now, [contact.id], Subscribe(self._membership.own()), DATAGRAM, fx)

    @handles(Subscribe)
    def _handle_subscribe(self, now: int, source: NodeId, message: Subscribe, fx: Effects) -> None:
        if message.subscription.peer.id != source or self.below is not None:
            fx.drop("subscription in another's name", source)
            return
        self._membership.hear((message.subscription,), fx, frequency=0)

    # Rounds

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        if name == _VIEWS:
            self._arm(now, _VIEWS, self._views_period())
            subscriptions, unsubscriptions, _ = self._composer.membership(self._membership)
            self._gossip(now, [Gossip(subscriptions, unsubscriptions)], fx)
            return
        config = self.config
        self._arm(now, _ROUND, config.gossip_period_ns)
        self._round += 1
        self._events.grow_older(config.max_age_rounds)
        self._membership.age_unsubscriptions()
        self._settle()
        self._rate.next_round(self._round, self._events)
        self._publish_waiting(fx)
        alone = self.below is None
        members = self._membership if alone and self._carries_membership() else None
        ids = self._ids if config.retrieval else None
        smallest = self._rate.smallest_buffer if config.adaptive else 0
        self._gossip(now, self._composer.messages(members, self._events, ids, smallest), fx)
        self._retrieve(now, fx)
        if alone:
            self._quiet_rounds += 1
            if self._quiet_rounds % config.resubscribe_rounds == 0:
                self._subscribe(now, fx)

    def _gossip(self, now: int, messages: Sequence[Gossip], fx: Effects) -> None:
        targets = self.sample(self.config.fanout)
        every = self.config.contact_every
        if every and self._contacts and self._round % every == 0:
            # It may be on the far side of a partition that both sides have forgotten by now.
            contact = choose(self.rng, self._contacts)
            fx.know(contact)
            if contact.id not in targets:
                targets[-1:] = [contact.id]
        for message in messages:
            self._send(now, targets, message, DATAGRAM, fx)

    def _settle(self) -> None:
        if self._round >= self.config.settling_rounds:
            self._ids.settle()

    def _carries_membership(self) -> bool:
        return self._round % self.config.membership_every == 0

    @handles(Gossip)
    def _handle_gossip(self, now: int, source: NodeId, message: Gossip, fx: Effects) -> None:
        self._quiet_rounds = 0
        if self.below is None:
            if message.unsubscriptions:
                self._membership.leave(message.unsubscriptions, fx)
            if message.subscriptions:
                self._membership.hear(message.subscriptions, fx)
        if message.events:
            self._take_in(message.events, source, fx)
        if message.announced:
            self._note_announced(now, source, message.announced, fx)
        if message.digest and self.config.retrieval:
            self._compare(source, message.digest, fx)
        self._rate.hear_of_buffer(message.smallest_buffer)

    # Events

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        limit = self.config.max_event_bytes
        for publication in publications:
            batch = publication.batch
            longest = batch.longest
            if not is_notification(batch):
                fx.refuse(publication, "a gossip topic has no tombstones: publish events only")
            elif longest.key + longest.payload > limit:
                fx.refuse(
                    publication,
                    f"an event of {longest.key + longest.payload} bytes; max_event_bytes of this "
                    f"topic is {limit}",
                )
            else:
                self._rate.put(batch)
                self._publish_waiting(fx)
                continue
            self._refused += batch.rows

    def publish_room(self) -> int:
        return self._rate.room()

    def _publish_waiting(self, fx: Effects) -> None:
        for batch in self._rate.take():
            self._published += batch.rows
            self._take_in((Notification(0, batch),), self.node.id, fx)

    def _take_in(self, notifications: Sequence[Notification], source: NodeId, fx: Effects) -> None:
        """Phase III of gossip reception: deliver what is new and pass it on, note the ages of the
        rest."""
        ids, entries = self._ids, self._events.entries
        for notification in notifications:
            batch, age = notification.batch, notification.age
            first, last = batch.first, batch.last
            if ids.had(batch.stream, last):  # most end here
                self._duplicates += last - first + 1
                if first == last:
                    entry = entries.get((batch.stream, first))
                    if entry is not None and entry.age < age:
                        entry.age = age
                    continue
                new: Sequence[tuple[int, int]] = ()
            elif not is_notification(batch) or age < 0:
                fx.drop("malformed notification", source, batch.stream)
                continue
            elif batch.payload_bytes > self.config.max_event_bytes * batch.rows:
                fx.drop("event too large", source, batch.stream, first, last)
                continue
            else:
                new = ids.new_ranges(batch.stream, first, last)
            self._deliver(batch, age, new, fx)
            fresh = sum(high - low + 1 for low, high in new)
            if fresh < last - first + 1:
                self._duplicates += last - first + 1 - fresh
                # Bounded by the buffer: a batch may be as long as a message allows.
                for seq in range(first, last + 1):
                    self._events.raise_age((batch.stream, seq), age)
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
            self._store.add(kept, low, high, self._round - age)
        for reason, stream, first, last in self._ids.given_up():
            fx.drop(f"seen {reason}", stream=stream, first=first, last=last)

    def _purge(self, fx: Effects) -> None:
        purged = self._events.purge()
        if purged:
            self._purged += len(purged)
            critical = self.config.critical_age_rounds
            self._purged_young += sum(entry.age < critical for entry in purged)

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
            last = min(events.last, events.first + self.config.max_retrievals - 1)
            for seq in range(events.first, last + 1):
                if self._ids.contains(events.source, seq):
                    self._events.raise_age((events.source, seq), item.age)
                else:
                    self._retrieval.note(events.source, seq, source, self._round, at_once=True)

    def _compare(self, source: NodeId, digest: Sequence[SourceDigest], fx: Effects) -> None:
        retrieval = self._retrieval
        for item in digest:
            if not well_formed(item):
                fx.drop("malformed digest", source)
                continue
            if retrieval.room <= 0:
                return
            for seq in names_of(self._ids.missing(item, retrieval.room)):
                retrieval.note(item.source, seq, source, self._round)

    def _retrieve(self, now: int, fx: Effects) -> None:
        if not len(self._retrieval):
            return
        at_a_time = (self.config.max_message_bytes - GOSSIP_BYTES) // EVENT_RANGE_BYTES
        abandoned = self._retrieval.abandoned
        questions = self._retrieval.due(self._round, self._ids, self._anybody, self._can_reach)
        for target, events in questions.items():
            address = self._membership.address(target)
            if address is not None:
                fx.know(address)
            ranges = ranges_of(events)[:at_a_time]
            self._send(now, [target], Retrieve(tuple(ranges)), DATAGRAM, fx)
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
        room = whole = self.config.max_message_bytes - GOSSIP_BYTES
        answer: list[Notification] = []
        for found in self._store.find(message.wanted, self.config.max_retrievals, self._round):
            size = notification_bytes(found.batch.wire_size())
            if size > whole:
                self._send(now, [source], Retrieved((found,)), DATA, fx)
                continue
            if size > room:
                self._send(now, [source], Retrieved(tuple(answer)), DATAGRAM, fx)
                answer, room = [], whole
            answer.append(found)
            room -= size
        if answer:
            self._send(now, [source], Retrieved(tuple(answer)), DATAGRAM, fx)

    @handles(Retrieved)
    def _handle_retrieved(self, now: int, source: NodeId, message: Retrieved, fx: Effects) -> None:
        self._take_in(message.events, source, fx)

    # Helpers

    def _send(
        self, now: int, targets: list[NodeId], message: Message, channel: int, fx: Effects
    ) -> None:
        if self._budget.limited and targets:
            size = message.wire_size() + DATAGRAM_HEADER_BYTES
            targets = targets[: self._budget.copies(now, size, len(targets))]
        if targets:
            fx.send(targets, message, channel)

    def _arm(self, now: int, name: str, period: int, *, first: bool = False) -> None:
        if self.config.aligned_rounds:
            self.timers.set(name, (now // period + 1) * period)
        elif first:
            self.timers.set(name, now + 1 + int(self.rng.random() * period))
        else:
            stretch = 1 + self.config.gossip_jitter * (2 * self.rng.random() - 1)
            self.timers.set(name, now + max(1, int(period * stretch)))

    def _views_period(self) -> int:
        return self.config.gossip_period_ns // (self.config.membership_extra + 1)

    # For the layers above, and for measuring

    def sample(self, k: int) -> list[NodeId]:
        return self._membership.sample(k) if self.below is None else self.below.sample(k)

    def neighbors(self) -> list[NodeId]:
        return list(self._membership.view)

    def buffered(self) -> list[Buffered]:
        """The events this node still passes on."""
        return list(self._events.entries.values())

    def purged_subscriptions(self) -> Mapping[int, int]:
        """How many were purged from `subs`, by how often they had been heard of."""
        return self._membership.removed

    def check_invariants(self) -> None:
        config = self.config
        problem = self._membership.problems()
        if not problem and len(self._events) > config.max_events:
            problem = f"{len(self._events)} events, at most {config.max_events}"
        if not problem and self._events.bytes > config.max_buffer_bytes:
            problem = f"{self._events.bytes} bytes of events, at most {config.max_buffer_bytes}"
        if not problem and len(self._store) > config.max_stored_events:
            problem = f"{len(self._store)} stored, at most {config.max_stored_events}"
        if not problem and len(self._retrieval) > config.max_retrievals:
            problem = f"{len(self._retrieval)} retrievals, at most {config.max_retrievals}"
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
            "retrieving": len(self._retrieval),
            "retrieval_asked": self._retrieval.asked,
            "retrieval_abandoned": self._retrieval.abandoned,
            "bytes_spent": self._budget.spent,
            "bytes_withheld": self._budget.withheld,
        }
