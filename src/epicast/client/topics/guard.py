"""A topic with rights: who takes part in it, and whose events are taken.

What a neighbour may do is asked of the same rights as with streams. To take part in a topic is to
subscribe to it: messages of others are dropped, and nothing is sent to them. Who a neighbour is
turns out when it is connected to; until then what is meant for it waits here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from epicast.core import (
    AnyMessage,
    Effects,
    NodeId,
    Peer,
    Protocol,
    Publication,
    Recovered,
)
from epicast.core.effects import Channel, Destination, Send
from epicast.core.message import Layered
from epicast.core.tagged import TaggedEffects
from epicast.deployment import Action
from epicast.protocols.epto.entries import signed
from epicast.protocols.epto.messages import Ball
from epicast.protocols.lpbcast.messages import Gossip, Notification, Retrieved
from epicast.runtime.gate import Rights

MAX_WAITING = 64
"""Messages to one neighbour while it is found out who it is."""
MAX_STRANGERS = 256
"""Neighbours of whom that is found out at a time."""
PAUSE_NS = 2_000_000_000
"""After somebody could not be reached, until it is tried again."""


class GuardedEffects(TaggedEffects):
    """Effects of a topic, whose sends are looked at before they go out."""

    __slots__ = ("_release",)

    def __init__(self, outer: TaggedEffects, release: Callable[[list[Send]], None]) -> None:
        super().__init__(outer.tag, outer)
        self._enclosing = outer._enclosing
        self.sends: list[Send] = []
        self._release = release

    @property
    def room(self) -> Callable[[NodeId], int]:  # type: ignore[override]
        self.let_go()  # what was sent so far takes room
        return self._outer.room

    def let_go(self) -> None:
        sends = self.sends[:]
        self.sends.clear()
        self._release(sends)

    def save(self, name: str, value: bytes) -> None:
        self._outer.save(name, value)

    def read(self, stream: int, first: int, max_bytes: int, token: int) -> None:
        self._outer.read(stream, first, max_bytes, token)

    def connect(self, peer: Peer) -> None:
        raise RuntimeError("connect: the connections of a topic with rights are its guard's")

    def send_after_append(self, to: Destination, message: AnyMessage, channel: Channel = 0) -> None:
        raise RuntimeError("send_after_append: topics keep nothing")


class GuardedTopic(Protocol[None]):
    """`inner`, the topic's protocol, among those who may take part in the topic."""

    __slots__ = ("_effects", "_name", "_not_before", "_now", "_outer", "_rights", "_waiting",
                 "inner")  # fmt: skip

    def __init__(self, inner: Protocol[Any], name: str, rights: Rights) -> None:
        super().__init__(inner.node, None, inner.rng)
        self.inner = inner
        self.timers = inner.timers
        self._name = name
        self._rights = rights
        self._now = 0
        self._outer: Effects | None = None
        self._effects: GuardedEffects
        self._waiting: dict[NodeId, list[tuple[AnyMessage, Channel]]] = {}
        """For those of whom it is being found out who they are."""
        self._not_before: dict[NodeId, int] = {}
        """When those who could not be reached are tried again."""

    def _may(self, peer: NodeId, action: Action) -> bool:
        return not self._rights.permit(peer, action, self._name, "topic")

    # -- what comes ------------------------------------------------------------------------------

    def on_messages(
        self, now: int, source: NodeId, messages: Sequence[AnyMessage], fx: Effects
    ) -> None:
        if not self._may(source, Action.SUBSCRIBE):
            fx.drop("not a member of the topic", source)
            return
        guarded = self._bind(now, fx)
        may_publish = self._may(source, Action.PUBLISH)
        for message in messages:
            taken = message if may_publish else without_own(message, source)
            if taken is not message:
                fx.drop("published without the right", source)
            if taken is not None:
                self.inner.on_messages(now, source, (taken,), guarded)
        guarded.let_go()

    # -- what goes out ---------------------------------------------------------------------------

    def _release(self, sends: list[Send]) -> None:
        assert self._outer is not None
        fx = self._outer
        for to, message, channel in sends:
            targets = (to,) if isinstance(to, int) else to
            assert isinstance(targets, Sequence), "multicast is not used with security"
            members = []
            for peer in targets:
                if self._rights.identity_of(peer) is None:
                    self._find_out(peer, message, channel, fx)
                elif self._may(peer, Action.SUBSCRIBE):
                    members.append(peer)
                else:
                    fx.drop("not sent to who may not subscribe", peer)
            if members:
                fx.sends.append((members, message, channel))  # which has its tag already

    def _find_out(self, peer: NodeId, message: AnyMessage, channel: Channel, fx: Effects) -> None:
        waiting = self._waiting.get(peer)
        if waiting is None:
            is_paused = self._not_before.get(peer, 0) > self._now
            if is_paused or len(self._waiting) >= MAX_STRANGERS:
                fx.drop("unknown neighbour", peer)
                return
            waiting = self._waiting[peer] = []
            fx.connect(Peer(peer))
        if len(waiting) < MAX_WAITING:
            waiting.append((message, channel))
        else:
            fx.drop("unknown neighbour", peer)

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        guarded = self._bind(now, fx)
        self._not_before.pop(peer, None)
        waiting = self._waiting.pop(peer, [])
        if self._rights.identity_of(peer) is None:
            fx.drop("unknown neighbour", peer)
        else:
            guarded.sends.extend((peer, message, channel) for message, channel in waiting)
            guarded.let_go()
        fx.disconnect(peer)  # an idle connection may be closed again

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        if self._waiting.pop(peer, None) is None:
            return
        fx.drop("unknown neighbour", peer)
        if len(self._not_before) >= MAX_STRANGERS:
            over = {each: at for each, at in self._not_before.items() if at > now}
            self._not_before = over if len(over) < MAX_STRANGERS else {}
        self._not_before[peer] = now + PAUSE_NS

    def _bind(self, now: int, fx: Effects) -> GuardedEffects:
        self._now = now
        if fx is not self._outer:
            assert isinstance(fx, TaggedEffects), "a topic runs in a host"
            self._outer = fx
            self._effects = GuardedEffects(fx, self._release)
        return self._effects

    # -- everything else is the protocol's -------------------------------------------------------

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        guarded = self._bind(now, fx)
        self.inner.on_start(now, contacts, recovered, guarded)
        guarded.let_go()

    def on_stop(self, now: int, fx: Effects) -> None:
        guarded = self._bind(now, fx)
        self.inner.on_stop(now, guarded)
        guarded.let_go()

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        guarded = self._bind(now, fx)
        self.inner.on_publish(now, publications, guarded)
        guarded.let_go()

    def on_ready(self, now: int, peer: NodeId, room: int, fx: Effects) -> None:
        guarded = self._bind(now, fx)
        self.inner.on_ready(now, peer, room, guarded)
        guarded.let_go()

    def on_timer(self, now: int, fx: Effects) -> None:
        guarded = self._bind(now, fx)
        self.inner.on_timer(now, guarded)
        guarded.let_go()

    def publish_room(self) -> int:
        return self.inner.publish_room()

    def neighbors(self) -> list[NodeId]:
        return self.inner.neighbors()

    def check_invariants(self) -> None:
        self.inner.check_invariants()

    def statistics(self) -> Mapping[str, int | float]:
        return self.inner.statistics()


def without_own(message: AnyMessage, sender: NodeId) -> AnyMessage | None:
    """A message without the events its sender has published itself; None if nothing is left that
    could be taken, the same message if there are none."""
    if isinstance(message, Layered):
        inner = without_own(message.message, sender)
        if inner is None or inner is message.message:
            return None if inner is None else message
        return Layered(message.layer, inner)
    if isinstance(message, Gossip):
        events = _of_others(message.events, sender)
        announced = tuple(each for each in message.announced if each.events.source != sender)
        digest = tuple(each for each in message.digest if each.source != sender)
        left = len(events) + len(announced) + len(digest)
        if left < len(message.events) + len(message.announced) + len(message.digest):
            return replace(message, events=events, announced=announced, digest=digest)
    elif isinstance(message, Retrieved):
        events = _of_others(message.events, sender)
        if len(events) < len(message.events):
            return Retrieved(events)
    elif isinstance(message, Ball) and (message.published or _holds_own(message, sender)):
        return None
    return message


def _of_others(events: Sequence[Notification], sender: NodeId) -> tuple[Notification, ...]:
    return tuple(each for each in events if each.batch.stream != sender)


def _holds_own(ball: Ball, sender: NodeId) -> bool:
    """What is no ball is for the protocol to drop."""
    count = ball.entries
    if count <= 0 or len(ball.columns) < 16 * count:
        return False
    sources = np.frombuffer(ball.columns, "<i8", count, 8 * count)
    return bool((sources == signed(sender)).any())
