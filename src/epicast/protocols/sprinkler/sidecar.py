"""An agent that others attach to as if it were the proxy: one per machine, for all applications."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from epicast.core import (
    DATA,
    ConfigError,
    Effects,
    EventBatch,
    NodeId,
    Peer,
    Recovered,
    handles,
)
from epicast.deployment.access import Action
from epicast.protocols.sprinkler.agent import Agent, MakeBuffer
from epicast.protocols.sprinkler.alarms import Alarm, Watch
from epicast.protocols.sprinkler.config import AgentConfig
from epicast.protocols.sprinkler.messages import (
    Advertisement,
    Attach,
    Consumed,
    Counter,
    Events,
    Forbidden,
    Poll,
    Publish,
    Published,
    RefusalCode,
    Refused,
    Restart,
    SendAgain,
    StatusReply,
    StatusRequest,
    Subscribe,
    Unsubscribe,
    Welcome,
)
from epicast.protocols.sprinkler.notices import NoSuchStream, NotAllowed, Restarted
from epicast.protocols.sprinkler.permits import IsAgent, Permit, all_agents, permit_all
from epicast.protocols.sprinkler.relays import Relays, refusal
from epicast.protocols.sprinkler.rooms import Rooms
from epicast.protocols.sprinkler.standing import CLIENT, TO_SIDECARS, Part
from epicast.protocols.sprinkler.subscriptions import LOCAL, Subscription

_MAX_HOPS = 1
"""A client's publications come from the client."""
_THE_PROXY = 0
"""In alarms: whichever it is at the moment."""
_FIRST_NUMBER = 1 << 32
"""Subscriptions of clients are numbered from here, those of an application below."""


class Sidecar(Agent):
    may_say = TO_SIDECARS

    def __init__(
        self,
        node: Peer,
        config: AgentConfig,
        rng: Random,
        *,
        make_buffer: MakeBuffer | None = None,
        status: Callable[[], bytes] = bytes,
        permit: Permit = permit_all,
        is_agent: IsAgent = all_agents,
    ) -> None:
        """`permit` is asked about clients; the proxy asks about this node itself, which therefore
        can do no more for its clients than it may do."""
        super().__init__(node, config, rng, make_buffer=make_buffer, is_agent=is_agent)
        self._status = status
        self._watch = Watch(config.alarm_after_ns, self._followed)
        self._permit = permit
        self._clients: dict[NodeId, dict[int, Subscription]] = {}
        self._relays = Relays(_MAX_HOPS)
        self._next_number = _FIRST_NUMBER
        self._rooms = Rooms()
        self._stalled: dict[Subscription, None] = {}
        """Served by the proxy until the way to their client was full."""
        self._expected: dict[NodeId, Peer] = {}
        """Who came before this node was attached itself."""

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        self._watch.start(now, (_THE_PROXY,))
        super().on_start(now, contacts, recovered, fx)

    def _part_of(self, peer: NodeId) -> Part:
        return CLIENT if peer in self._clients else super()._part_of(peer)

    @handles(Attach)
    def _handle_attach(self, now: int, source: NodeId, message: Attach, fx: Effects) -> None:
        if message.node.id != source:
            fx.drop("attached under another name", source)
            return
        if source not in self._clients:
            self._clients[source] = {}
            fx.connect(message.node)
        self._expected[source] = message.node
        self._welcome(fx)

    def _welcome(self, fx: Effects) -> None:
        if not self._attached:
            return
        expected, self._expected = self._expected, {}
        for peer in expected:
            fx.send(
                peer,
                Welcome(
                    self._region, self.node, tuple(self.streams.values()),
                    tuple(self.heads.values()), self._heartbeat_ns, True,
                ),
            )  # fmt: skip

    @handles(Welcome)
    def _handle_welcome(self, now: int, source: NodeId, message: Welcome, fx: Effects) -> None:
        super()._handle_welcome(now, source, message, fx)
        self._watch.heard(now, _THE_PROXY, message.counters)
        self._welcome(fx)

    @handles(Advertisement)
    def _handle_advertisement(
        self, now: int, source: NodeId, message: Advertisement, fx: Effects
    ) -> None:
        super()._handle_advertisement(now, source, message, fx)
        self._watch.heard(now, _THE_PROXY, message.counters)

    @handles(Poll)
    def _handle_poll(self, now: int, source: NodeId, message: Poll, fx: Effects) -> None:
        """Only while the proxy answers, too: a client must not believe itself up to date."""
        if self._attached:
            fx.send(source, Advertisement(tuple(self.heads.values()), message.asked_at))

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        for subscription in self._clients.pop(peer, {}).values():
            self._stalled.pop(subscription, None)
            self.unsubscribe(subscription.number)
        self._expected.pop(peer, None)
        super().on_peer_down(now, peer, fx)

    # -- subscriptions of clients ----------------------------------------------------------------

    @handles(Subscribe)
    def _handle_subscribe(self, now: int, source: NodeId, message: Subscribe, fx: Effects) -> None:
        theirs = self._clients[source]
        refused = self._objection(source, Action.SUBSCRIBE, message.stream)
        if refused:
            fx.drop("subscription without the right", source, message.stream)
            fx.send(source, Forbidden(message.number, message.stream, refused))
            return
        self._end(theirs, message.number)
        self._next_number += 1
        window = max(1, min(message.window, self.config.max_window_bytes))
        subscription = Subscription(
            self._next_number, message.stream, message.epoch, message.after, window
        )
        subscription.peer, subscription.remote_number = source, message.number
        try:
            self._add(subscription)
        except ConfigError:
            fx.drop("too many subscriptions", source, message.stream)
            return
        theirs[message.number] = subscription

    def _objection(self, source: NodeId, action: Action, stream: int) -> str:
        info = self.streams.get(stream)
        return "" if info is None else self._permit(source, action, info)

    @handles(Unsubscribe)
    def _handle_unsubscribe(
        self, now: int, source: NodeId, message: Unsubscribe, fx: Effects
    ) -> None:
        self._end(self._clients[source], message.number)

    def _end(self, theirs: dict[int, Subscription], number: int) -> None:
        subscription = theirs.pop(number, None)
        if subscription is not None:
            self._stalled.pop(subscription, None)
            self.unsubscribe(subscription.number)

    @handles(Consumed)
    def _handle_consumed(self, now: int, source: NodeId, message: Consumed, fx: Effects) -> None:
        subscription = self._clients[source].get(message.number)
        if subscription is not None and message.epoch == subscription.epoch:
            subscription.had(message.seq)
            self._touch(subscription)

    def _has_room(self, subscription: Subscription, batch: EventBatch, fx: Effects) -> bool:
        peer = subscription.peer
        if peer == LOCAL:
            return True
        return bool(self._rooms.fitting(peer, (batch,), self._rooms.left(peer, fx)))

    def _deliver(self, subscription: Subscription, batch: EventBatch, fx: Effects) -> None:
        """From the proxy. What the way to the client has no room for is asked for again later."""
        if self._has_room(subscription, batch, fx):
            super()._deliver(subscription, batch, fx)
        elif subscription not in self._stalled and self._proxy is not None:
            self._stalled[subscription] = None
            fx.send(self._proxy.id, Unsubscribe(subscription.number))

    def on_ready(self, now: int, peer: NodeId, room: int, fx: Effects) -> None:
        super().on_ready(now, peer, room, fx)
        self._serve_client(now, peer, fx)

    def _poll(self, now: int, fx: Effects) -> None:
        super()._poll(now, fx)
        for peer in self._rooms.take_held_up():
            self._serve_client(now, peer, fx)

    def _serve_client(self, now: int, peer: NodeId, fx: Effects) -> None:
        for subscription in list(self._clients.get(peer, {}).values()):
            following = self._followed.get(subscription.stream)
            if subscription.live and following is not None:
                self._serve(subscription, following, fx)
            elif subscription in self._stalled and self._attached:
                del self._stalled[subscription]
                self._resume(now, subscription, fx)

    def _hand_over(self, subscription: Subscription, batch: EventBatch, fx: Effects) -> None:
        if subscription.peer == LOCAL:
            super()._hand_over(subscription, batch, fx)
        else:
            fx.send(subscription.peer, Events(subscription.remote_number, (batch,)), DATA)

    def _tell(
        self, subscription: Subscription, value: Restarted | NoSuchStream | NotAllowed, fx: Effects
    ) -> None:
        if subscription.peer == LOCAL:
            super()._tell(subscription, value, fx)
            return
        if isinstance(value, NotAllowed):
            detail = f"the sidecar's own rights: {value.detail}"
            forbidden = Forbidden(subscription.remote_number, subscription.stream, detail)
            fx.send(subscription.peer, forbidden, DATA)
            return
        epoch, seq = (value.epoch, value.seq) if isinstance(value, Restarted) else (0, 0)
        number = subscription.remote_number
        fx.send(subscription.peer, Restart(number, subscription.stream, epoch, seq), DATA)

    # -- publications of clients -----------------------------------------------------------------

    @handles(Publish)
    def _handle_publish(self, now: int, source: NodeId, message: Publish, fx: Effects) -> None:
        refused = self._objection(source, Action.PUBLISH, message.stream)
        if refused:
            fx.drop("publication without the right", source, message.stream)
            fx.send(source, refusal(message, RefusalCode.FORBIDDEN, refused))
            return
        assert self._proxy is not None
        towards = (self._proxy.id,) if self._attached else ()
        self._relays.forward(source, message, towards, fx)

    @handles(Published)
    def _handle_published(self, now: int, source: NodeId, message: Published, fx: Effects) -> None:
        if message.path:
            self._relays.back(message, fx)
        else:
            super()._handle_published(now, source, message, fx)

    @handles(Refused)
    def _handle_refused(self, now: int, source: NodeId, message: Refused, fx: Effects) -> None:
        if message.path:
            self._relays.back(message, fx)
        else:
            super()._handle_refused(now, source, message, fx)

    @handles(SendAgain)
    def _handle_send_again(self, now: int, source: NodeId, message: SendAgain, fx: Effects) -> None:
        super()._handle_send_again(now, source, message, fx)
        self._relays.call_back(list(self._clients), fx)

    # -- looking inside --------------------------------------------------------------------------

    @handles(StatusRequest)
    def _handle_status(self, now: int, source: NodeId, message: StatusRequest, fx: Effects) -> None:
        refused = self._permit(source, Action.ADMIN, None)
        fx.send(source, StatusReply(b"", refused) if refused else StatusReply(self._status()))

    @property
    def clients(self) -> int:
        return len(self._clients)

    def progress(self) -> dict[str, Counter]:
        """By name of the stream: how far it is here."""
        return {following.info.name: following.counter for following in self._followed.values()}

    def alarms(self, now: int) -> list[Alarm]:
        return self._watch.alarms(now)
