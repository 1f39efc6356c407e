"""What agents and plain clients have in common: attached to a proxy, on behalf of an application.

The application calls `subscribe`, `consumed` and `unsubscribe` between steps and wakes the driver;
events come as deliveries to the subscription's number, everything else as notices. A connection
that is lost is made again, and every subscription goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

from epicast.core import (
    NEVER,
    ConfigError,
    Effects,
    EventBatch,
    NodeId,
    Peer,
    Publication,
    Recovered,
    handles,
)
from epicast.core.ranges import MAX_EPOCH, MAX_SEQ
from epicast.protocols.sprinkler.chain.messages import Dismissed
from epicast.protocols.sprinkler.config import EdgeConfig
from epicast.protocols.sprinkler.messages import (
    Advertisement,
    Attach,
    Counter,
    Events,
    Forbidden,
    Poll,
    Published,
    Refused,
    Restart,
    SendAgain,
    StreamInfo,
    Tail,
    Unsubscribe,
    Welcome,
)
from epicast.protocols.sprinkler.notices import (
    Attached,
    Detached,
    Heads,
    NoSuchStream,
    NotAllowed,
    Restarted,
)
from epicast.protocols.sprinkler.outbox import Outbox
from epicast.protocols.sprinkler.standing import PROXY, REPLICA, STRANGER, TO_EDGES, Guarded, Part
from epicast.protocols.sprinkler.subscriptions import Subscription

_NOW = 0
EdgeConfigT = TypeVar("EdgeConfigT", bound=EdgeConfig)


class Edge(Guarded[EdgeConfigT]):
    may_say = TO_EDGES
    listens = False

    def __init__(self, node: Peer, config: EdgeConfigT, rng: Random) -> None:
        super().__init__(node, config, rng)
        self.streams: dict[int, StreamInfo] = {}
        self.heads: dict[int, Counter] = {}
        """How far the proxy was when it was last heard of."""
        self._proxies: list[Peer] = []
        self._proxy: Peer | None = None
        """The one we are attached to, or trying."""
        self._attached = False
        self._region = ""
        self._heartbeat_ns = 0
        self._heard_at = 0
        self._subscriptions: dict[int, Subscription] = {}
        self._by_stream: dict[int, list[Subscription]] = {}
        self._changes: dict[Subscription, None] = {}
        """What the application has touched since the last step."""
        self._outbox = Outbox(config)
        self._reconnections = 0
        self._tried = 0
        """Proxies that could not be attached to since the last pause."""

    # -- what the application calls --------------------------------------------------------------

    def subscribe(
        self, number: int, stream: int, epoch: int, after: int, window_bytes: int
    ) -> None:
        """Deliver what follows a watermark to `number`. `epoch` 0: whatever epoch there is."""
        if number < 1 or number in self._subscriptions:
            raise ConfigError(f"subscription {number}: not a new number from 1 on")
        if not (0 <= after <= MAX_SEQ and 0 <= epoch <= MAX_EPOCH and 1 <= window_bytes <= MAX_SEQ):
            raise ConfigError(
                f"subscription {number}: after {after} of epoch {epoch}, window {window_bytes}"
            )
        self._add(Subscription(number, stream, epoch, after, window_bytes))

    def consumed(self, number: int, seq: int) -> None:
        """The application has taken everything up to `seq` of a subscription."""
        subscription = self._subscriptions.get(number)
        if subscription is not None:
            subscription.consumed(seq)
            self._touch(subscription)

    def unsubscribe(self, number: int) -> None:
        subscription = self._subscriptions.pop(number, None)
        if subscription is not None:
            self._by_stream[subscription.stream].remove(subscription)
            self._touch(subscription)

    def ask(self) -> None:
        """Find out how far the streams are now, instead of at the next heartbeat."""
        if self._attached:
            self.timers.set("poll", _NOW)

    def _add(self, subscription: Subscription) -> None:
        if len(self._subscriptions) >= self.config.max_subscriptions:
            raise ConfigError(
                f"{len(self._subscriptions)} subscriptions already; end one, or raise "
                "max_subscriptions"
            )
        self._subscriptions[subscription.number] = subscription
        self._by_stream.setdefault(subscription.stream, []).append(subscription)
        self._touch(subscription)

    def _touch(self, subscription: Subscription) -> None:
        self._changes[subscription] = None
        self.timers.set("changes", _NOW)

    # -- life ------------------------------------------------------------------------------------

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        if not contacts:
            raise ConfigError("an agent or client needs the address of a proxy")
        self._proxies = list(contacts)
        self._connect(fx)

    def on_stop(self, now: int, fx: Effects) -> None:
        self.timers.clear()
        if self._attached and self._proxy is not None:
            for subscription in self._subscriptions.values():
                if not subscription.live:
                    fx.send(self._proxy.id, Unsubscribe(subscription.number))

    def _connect(self, fx: Effects) -> None:
        """Try the proxies in turn."""
        self._proxy = self._proxies[self._reconnections % len(self._proxies)]
        fx.connect(self._proxy)

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        if self._proxy is not None and peer == self._proxy.id:
            self._heard_at = now
            fx.send(peer, Attach(self.node, self.listens))

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        if self._proxy is not None and peer == self._proxy.id:
            self._detach(now, "the connection was lost", fx)

    @handles(Dismissed)
    def _handle_dismissed(self, now: int, source: NodeId, message: Dismissed, fx: Effects) -> None:
        fx.disconnect(source)
        self._detach(now, message.reason, fx)

    def _detach(self, now: int, reason: str, fx: Effects) -> None:
        if self._attached:
            self._attached = False
            self.timers.cancel("poll")
        fx.notice(0, Detached(reason))
        self._reconnections += 1
        self._tried += 1
        wait = self.config.reconnect_every_ns
        if self._tried < len(self._proxies):
            wait //= 50  # there is another one, and no reason to believe that it is gone as well
        else:
            self._tried = 0
        self.timers.set("connect", now + wait + int(self.rng.random() * wait / 2))

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        if name == "changes":
            self._carry_out_changes(now, fx)
        elif name == "connect":
            self._connect(fx)
        elif name == "poll":
            self._poll(now, fx)
        elif name == "retry":
            self._outbox.unblock()
            if self._attached and self._proxy is not None:
                self._outbox.send(self._proxy.id, fx)

    def _poll(self, now: int, fx: Effects) -> None:
        """Ask how far things are. Whoever does not answer for long is left."""
        assert self._proxy is not None
        if now - self._heard_at > self.config.silence * self._heartbeat_ns:
            fx.disconnect(self._proxy.id)
            self._detach(now, "the proxy does not answer", fx)
            return
        fx.send(self._proxy.id, Poll(now))
        self.timers.set("poll", now + self._heartbeat_ns)
        for subscription in self._subscriptions.values():
            if not subscription.live and not subscription.fresh:
                # Who sends may wait for it: what it sent can be larger than what was new of it.
                subscription.report(self._proxy.id, fx, trifles=True)
        self._outbox.repeat_overdue(now)
        self._outbox.send(self._proxy.id, fx)

    # -- attached --------------------------------------------------------------------------------

    @handles(Welcome)
    def _handle_welcome(self, now: int, source: NodeId, message: Welcome, fx: Effects) -> None:
        self._attached = True
        self._tried = 0
        self._heard_at = now
        known = {peer.id for peer in self._proxies}
        self._proxies += [peer for peer in message.proxies if peer.id not in known]
        self._region = message.region
        self._heartbeat_ns = max(1, message.heartbeat_ns)
        self.streams = {info.id: info for info in message.streams}
        self._take_heads(message.counters)
        fx.notice(
            0,
            Attached(
                message.region,
                message.streams,
                message.counters,
                self._heartbeat_ns,
                message.is_sidecar,
            ),
        )
        self.timers.set("poll", now + self._heartbeat_ns)
        for subscription in list(self._subscriptions.values()):
            self._resume(now, subscription, fx)
        self._outbox.send_again(now)
        self._outbox.send(source, fx)

    @handles(Advertisement)
    def _handle_advertisement(
        self, now: int, source: NodeId, message: Advertisement, fx: Effects
    ) -> None:
        if not self._attached:
            return
        self._heard_at = now
        self._take_heads(message.counters)
        fx.notice(0, Heads(message.counters, min(message.asked_at, now)))

    def _take_heads(self, counters: Sequence[Counter]) -> None:
        self.heads = {counter.stream: counter for counter in counters}

    def on_ready(self, now: int, peer: NodeId, room: int, fx: Effects) -> None:
        if self._attached and self._proxy is not None and peer == self._proxy.id:
            self._outbox.send(peer, fx)

    # -- subscriptions ---------------------------------------------------------------------------

    def _carry_out_changes(self, now: int, fx: Effects) -> None:
        changes, self._changes = self._changes, {}
        for subscription in changes:
            if self._subscriptions.get(subscription.number) is not subscription:
                if self._attached and self._proxy is not None and not subscription.live:
                    fx.send(self._proxy.id, Unsubscribe(subscription.number))
            elif subscription.fresh:
                if self._attached:
                    self._resume(now, subscription, fx)
            else:
                self._on_consumed(now, subscription, fx)

    def _resume(self, now: int, subscription: Subscription, fx: Effects) -> None:
        """(Re)start a subscription at the proxy, once the application has room for a window more:
        or every reconnection would bring one to an application that takes nothing."""
        subscription.fresh = subscription.in_flight >= subscription.window
        if subscription.fresh:
            return
        if subscription.stream not in self.streams:
            self._tell(subscription, NoSuchStream(subscription.stream), fx)
            return
        assert self._proxy is not None
        fx.send(self._proxy.id, subscription.wanted())

    def _on_consumed(self, now: int, subscription: Subscription, fx: Effects) -> None:
        if self._attached and self._proxy is not None:
            subscription.report(self._proxy.id, fx)

    @handles(Tail)
    def _handle_tail(self, now: int, source: NodeId, message: Tail, fx: Effects) -> None:
        for batch in message.batches:
            for subscription in self._by_stream.get(batch.stream, ()):
                if not subscription.live and not subscription.fresh:
                    self._deliver(subscription, batch, fx)

    @handles(Events)
    def _handle_events(self, now: int, source: NodeId, message: Events, fx: Effects) -> None:
        subscription = self._subscriptions.get(message.number)
        if subscription is None or subscription.live:
            return
        for batch in message.batches:
            if batch.stream == subscription.stream:
                self._deliver(subscription, batch, fx)

    @handles(Restart)
    def _handle_restart(self, now: int, source: NodeId, message: Restart, fx: Effects) -> None:
        subscription = self._subscriptions.get(message.number)
        if subscription is None or subscription.live:
            return
        if message.epoch == 0:
            self._tell(subscription, NoSuchStream(subscription.stream), fx)
        elif (message.epoch, message.seq) >= (subscription.epoch, subscription.next):
            self._restart(subscription, message.epoch, message.seq, fx)
        # Otherwise it answers what was asked before an earlier restart came.

    @handles(Forbidden)
    def _handle_forbidden(self, now: int, source: NodeId, message: Forbidden, fx: Effects) -> None:
        subscription = self._subscriptions.get(message.number)
        if subscription is not None and not subscription.live:
            self._tell(subscription, NotAllowed(subscription.stream, message.detail), fx)

    def _restart(self, subscription: Subscription, epoch: int, seq: int, fx: Effects) -> None:
        subscription.restart(epoch, seq)
        self._tell(subscription, Restarted(subscription.stream, epoch, seq), fx)

    def _deliver(self, subscription: Subscription, batch: EventBatch, fx: Effects) -> None:
        part = subscription.take(batch)
        if part is not None:
            self._hand_over(subscription, part, fx)
        elif self._attached and self._proxy is not None and not subscription.live:
            subscription.report(self._proxy.id, fx)

    def _hand_over(self, subscription: Subscription, batch: EventBatch, fx: Effects) -> None:
        fx.deliver_to(subscription.number, batch)

    def _tell(
        self, subscription: Subscription, value: Restarted | NoSuchStream | NotAllowed, fx: Effects
    ) -> None:
        fx.notice(subscription.number, value)

    def _is_proxy(self, peer: NodeId) -> bool:
        return self._proxy is not None and peer == self._proxy.id

    def _part_of(self, peer: NodeId) -> Part:
        if self._is_proxy(peer):
            return PROXY
        return REPLICA if any(peer == proxy.id for proxy in self._proxies) else STRANGER

    # -- publishing ------------------------------------------------------------------------------

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        self._outbox.add(now, publications)
        if self._attached and self._proxy is not None:
            self._outbox.send(self._proxy.id, fx)

    def publish_room(self) -> int:
        return self._outbox.room

    @handles(Published)
    def _handle_published(self, now: int, source: NodeId, message: Published, fx: Effects) -> None:
        more = self._outbox.handle_published(now, message, fx)
        if more and self._attached and self._proxy is not None:
            self._outbox.send(self._proxy.id, fx)

    @handles(Refused)
    def _handle_refused(self, now: int, source: NodeId, message: Refused, fx: Effects) -> None:
        if self._outbox.handle_refused(now, message, fx):
            if self.timers.deadline("retry") == NEVER:
                self.timers.set("retry", now + self.config.retry_every_ns)
        elif self._attached and self._proxy is not None:
            self._outbox.send(self._proxy.id, fx)

    @handles(SendAgain)
    def _handle_send_again(self, now: int, source: NodeId, message: SendAgain, fx: Effects) -> None:
        if self._attached:
            self._outbox.send_again(now)
            self._outbox.send(source, fx)

    # -- looking inside --------------------------------------------------------------------------

    def statistics(self) -> Mapping[str, int | float]:
        return {
            "subscriptions": len(self._subscriptions),
            "attached": int(self._attached),
            "reconnections": self._reconnections,
            "unacknowledged": self._outbox.unanswered,
            "resent": self._outbox.resent,
        }
