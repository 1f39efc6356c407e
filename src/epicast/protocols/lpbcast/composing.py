"""Gossip that fits its datagrams, by construction."""

from __future__ import annotations

from random import Random

from epicast.core import EventBatch, NodeId
from epicast.core.sampling import sample
from epicast.protocols.event_runs import in_parts, together
from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.lpbcast.event_ids import EventIds
from epicast.protocols.lpbcast.membership import Membership
from epicast.protocols.lpbcast.messages import (
    ANNOUNCEMENT_BYTES,
    GOSSIP_BYTES,
    UNSUBSCRIPTION_BYTES,
    Announcement,
    EventRange,
    Gossip,
    Notification,
    Subscription,
    Unsubscription,
    digest_bytes,
    notification_bytes,
    subscription_bytes,
)
from epicast.protocols.notifications import NotificationBuffer

_SHARE = 3
"""Digest and membership take a third of a message each, at most."""


class Composer:
    __slots__ = ("_config", "_rng", "_room")

    def __init__(self, config: LpbcastConfig, rng: Random) -> None:
        self._config = config
        self._rng = rng
        self._room = config.max_message_bytes - GOSSIP_BYTES

    def membership(
        self, members: Membership
    ) -> tuple[tuple[Subscription, ...], tuple[Unsubscription, ...], int]:
        """The node's own subscription and as many others as fit, and the bytes they take."""
        own = members.own()
        taken = subscription_bytes(own)
        room = self._room // _SHARE
        unsubscriptions = members.unsubscriptions()[: max(0, room - taken) // UNSUBSCRIPTION_BYTES]
        taken += len(unsubscriptions) * UNSUBSCRIPTION_BYTES
        chosen = [own]
        subs = members.subscriptions()
        for member in sample(self._rng, subs, len(subs)):
            size = subscription_bytes(member)
            if taken + size > room:
                break
            taken += size
            chosen.append(member)
        return tuple(chosen), tuple(unsubscriptions), taken

    def introduction(self, members: Membership, to: NodeId) -> tuple[Subscription, ...]:
        """The node's own subscription and its neighbours, as many as a message holds."""
        chosen = [members.own()]
        room = self._room - subscription_bytes(chosen[0])
        neighbors = list(members.view.values())
        for member in sample(self._rng, neighbors, len(neighbors)):
            room -= subscription_bytes(member)
            if room < 0:
                break
            if member.peer.id != to:
                chosen.append(member)
        return tuple(chosen)

    def messages(
        self, members: Membership | None, events: NotificationBuffer, ids: EventIds | None,
        smallest_buffer: int, farewell: Unsubscription | None = None,
    ) -> list[Gossip]:  # fmt: skip
        """One gossip, or several if the events do not fit one."""
        subscriptions: tuple[Subscription, ...] = ()
        unsubscriptions: tuple[Unsubscription, ...] = ()
        taken = 0
        if farewell is not None:
            unsubscriptions, taken = (farewell,), UNSUBSCRIPTION_BYTES
        if members is not None:
            subscriptions, unsubscriptions, taken = self.membership(members)
        digest = ids.digest(self._room // _SHARE) if ids is not None else ()
        taken += sum(digest_bytes(len(item.beyond)) for item in digest)
        messages: list[Gossip] = []
        for notifications, announced in self._packed(events, self._room - taken):
            if messages:
                messages.append(Gossip((), (), notifications, announced))
            else:
                messages.append(
                    Gossip(subscriptions, unsubscriptions, notifications, announced, digest,
                           smallest_buffer)
                )  # fmt: skip
        return messages

    def _packed(
        self, events: NotificationBuffer, room: int
    ) -> list[tuple[tuple[Notification, ...], tuple[Announcement, ...]]]:
        """Events by message: the first has `room`, the others a whole message. Those that do not
        fit in all wait for the next round, in which they come first."""
        whole = self._room
        runs = events.runs()
        if events.bytes + len(runs) * notification_bytes(0) > room:
            runs = events.least_repeated()
        packed: list[tuple[tuple[Notification, ...], tuple[Announcement, ...]]] = []
        inside: list[Notification] = []
        announced: list[Announcement] = []
        for run in list(together(runs)):
            for part in in_parts(run.events(), whole, _size):
                size = _size(part)
                large = size > whole
                if large:
                    size = ANNOUNCEMENT_BYTES
                if size > room:
                    packed.append((tuple(inside), tuple(announced)))
                    if len(packed) >= self._config.max_datagrams:
                        return packed
                    inside, announced, room = [], [], whole
                room -= size
                if large:
                    ids = EventRange(part.stream, part.first, part.last)
                    announced.append(Announcement(run.age, ids))
                else:
                    inside.append(Notification(run.age, part))
                events.count_repetition(part.stream, part.first, part.last)
        packed.append((tuple(inside), tuple(announced)))
        return packed


def _size(batch: EventBatch) -> int:
    return notification_bytes(batch.wire_size())
