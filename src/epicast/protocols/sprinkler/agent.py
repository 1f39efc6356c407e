"""A peer inside a region: it follows streams with its neighbours' help, and helps them (RLP).

What an application subscribes to behind the newest events, or falls behind in, comes from the
proxy's history; from then on it is served from here. Plain clients may attach to an agent as they
attach to a proxy: then it is their sidecar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from epicast.core import (
    DATA,
    DATAGRAM,
    Effects,
    EventBatch,
    InvariantViolation,
    NodeId,
    Peer,
    Recovered,
    handles,
)
from epicast.protocols.reinforcement.messages import ViewExchange
from epicast.protocols.reinforcement.view import ReinforcedView
from epicast.protocols.sprinkler.config import AgentConfig
from epicast.protocols.sprinkler.edge import Edge
from epicast.protocols.sprinkler.following import Following, Outstanding
from epicast.protocols.sprinkler.messages import (
    Advertisement,
    Answer,
    Counter,
    Notify,
    Request,
    StreamInfo,
    Tail,
    Unsubscribe,
    Welcome,
)
from epicast.protocols.sprinkler.notifier import Notifier
from epicast.protocols.sprinkler.permits import IsAgent, all_agents
from epicast.protocols.sprinkler.recent import EventBuffer, RecentBatches
from epicast.protocols.sprinkler.standing import AGENT, STRANGER, Part
from epicast.protocols.sprinkler.subscriptions import Subscription

MakeBuffer = Callable[[StreamInfo], EventBuffer]
_PROXY_PATIENCE = 20
_MANY_PEERS = 30
"""More addresses than this may not fit a datagram."""


class Agent(Edge[AgentConfig]):
    listens = True

    def __init__(
        self,
        node: Peer,
        config: AgentConfig,
        rng: Random,
        *,
        make_buffer: MakeBuffer | None = None,
        is_agent: IsAgent = all_agents,
    ) -> None:
        super().__init__(node, config, rng)
        self._is_agent = is_agent
        self._make_buffer = make_buffer or (lambda _: RecentBatches(config.buffer_bytes))
        self._view = ReinforcedView(node.id, config.view_size, rng)
        self._notifier = Notifier(config, self._view, connects=True)
        self._followed: dict[int, Following] = {}
        self._mentioned: dict[int, Counter] = {}
        """How far the proxy was at its last heartbeat."""
        self._exchanges = 0
        self._fallbacks = 0
        self._received = 0
        self._duplicates = 0

    # -- life ------------------------------------------------------------------------------------

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        super().on_start(now, contacts, recovered, fx)
        assert self._proxy is not None
        self._view.add(self._proxy)
        self.timers.set("gossip", now + int(self.rng.random() * self.config.gossip_every_ns))

    def _connect(self, fx: Effects) -> None:
        super()._connect(fx)
        assert self._proxy is not None
        self._notifier.leave_out(self._proxy.id)

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        if name == "notify":
            self._notifier.flush(now, self._counter, fx)
        elif name == "gossip":
            self.timers.set("gossip", now + self.config.gossip_every_ns)
            self._gossip(fx)
        elif name == "overdue":
            self._ask_proxy_instead(now, fx)
        else:
            super().on_deadline(now, name, fx)

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        self._notifier.remove(peer)
        self._view.remove(peer)
        for following in self._followed.values():
            following.give_up(peer)
        if any(following.outstanding for following in self._followed.values()):
            self.timers.set("overdue", now)
        super().on_peer_down(now, peer, fx)

    @handles(Welcome)
    def _handle_welcome(self, now: int, source: NodeId, message: Welcome, fx: Effects) -> None:
        for info in message.streams:
            if not info.spreads:  # any more: neighbours are not given it from now on
                self._followed.pop(info.id, None)
                self._notifier.forget(info.id)
        super()._handle_welcome(now, source, message, fx)
        assert self._proxy is not None
        self._exchange_views(self._proxy, True, fx)  # to be told of news from now on
        for following in self._followed.values():
            following.ask_anew()
        self._compare(now, message.counters, fx)

    def _part_of(self, peer: NodeId) -> Part:
        part = super()._part_of(peer)
        return AGENT if part == STRANGER and self._is_agent(peer) else part

    # -- membership ------------------------------------------------------------------------------

    def _gossip(self, fx: Effects) -> None:
        """With a neighbour and, now and then, with the proxy in any case."""
        if self._proxy is None:
            return
        if len(self._view) < self.config.view_size and self._proxy.id not in self._view:
            self._view.add(self._proxy)
        self._exchanges += 1
        every = self.config.proxy_gossip
        partner = self._proxy if every and self._exchanges % every == 0 else None
        partner = partner or self._view.random_member()
        if partner is not None:
            self._exchange_views(partner, True, fx)

    @handles(ViewExchange)
    def _handle_views(self, now: int, source: NodeId, message: ViewExchange, fx: Effects) -> None:
        if message.sender.id != source:
            fx.drop("view under another name", source)
            return
        self._view.merge(message.sender, message.view)
        if message.wants_answer:
            self._exchange_views(message.sender, False, fx)

    def _exchange_views(self, peer: Peer, wants_answer: bool, fx: Effects) -> None:
        fx.know(peer)
        message = ViewExchange(self.node, self._view.members(), wants_answer)
        if len(message.view) <= _MANY_PEERS:
            fx.send(peer.id, message, DATAGRAM)
        else:
            fx.send(peer.id, message)

    # -- following streams -----------------------------------------------------------------------

    def _follow(self, stream: int) -> Following | None:
        """Take part in spreading a stream from where the proxy is now."""
        following = self._followed.get(stream)
        info = self.streams.get(stream)
        if following is None and info is not None and info.spreads and stream in self.heads:
            following = self._followed[stream] = Following(
                info, self.heads[stream], self._make_buffer(info), self.config.early_bytes
            )
        return following

    def _take_heads(self, counters: Sequence[Counter]) -> None:
        super()._take_heads(counters)
        if self.config.follow_all:
            for counter in counters:
                self._follow(counter.stream)

    @handles(Notify)
    def _handle_notify(self, now: int, source: NodeId, message: Notify, fx: Effects) -> None:
        for batch in message.batches:
            self._arrived(now, batch, fx)
        for counter in message.counters:
            following = self._followed.get(counter.stream)
            if following is None:
                continue
            if counter.epoch == following.epoch:
                if counter.seq > following.asked and not following.crowded:
                    self._ask(now, following, source, following.asked + 1, counter.seq, fx)
                    following.asked = counter.seq
            elif counter.epoch > following.epoch and self._attached:
                self.timers.set("poll", now)  # the proxy knows

    def _ask(
        self,
        now: int,
        following: Following,
        peer: NodeId,
        first: int,
        last: int,
        fx: Effects,
    ) -> None:
        # The proxy has everything: it is slow or gone, and the connection tells if it is gone.
        patience = _PROXY_PATIENCE if self._is_proxy(peer) else 1
        deadline = now + patience * self.config.request_timeout_ns
        self._expect(deadline, following, peer, first, last)
        fx.send(peer, Request(following.info.id, following.epoch, first, last))

    def _expect(
        self, deadline: int, following: Following, peer: NodeId, first: int, last: int
    ) -> None:
        following.outstanding.append(Outstanding(peer, first, last, deadline))
        if self.timers.deadline("overdue") > deadline:
            self.timers.set("overdue", deadline)

    @handles(Request)
    def _handle_request(self, now: int, source: NodeId, message: Request, fx: Effects) -> None:
        following = self._followed.get(message.stream)
        if following is None or not 1 <= message.first <= message.last:
            fx.drop("request that makes no sense", source, message.stream)
            return
        batches: list[EventBatch] = []
        if message.epoch == following.epoch:
            room = fx.room(source)
            most = min(self.config.answer_bytes, room)
            batches = following.buffer.read(message.first, message.last, most)
            if batches and batches[0].wire_size() > room:
                batches = []  # the proxy will help
        # A gap at the beginning is a hole; what the answer has no room for is not.
        cut = batches and batches[-1].last < min(message.last, following.end)
        last = batches[-1].last if cut else message.last
        answer = Answer(following.counter, message.first, last, tuple(batches))
        fx.send(source, answer, DATA)

    @handles(Answer)
    def _handle_answer(self, now: int, source: NodeId, message: Answer, fx: Effects) -> None:
        following = self._followed.get(message.counter.stream)
        if following is None:
            return
        if not following.was_asked(source, message.first, message.last):
            fx.drop("answer to nothing that was asked", source, message.counter.stream)
            return
        rest = following.settle(source, message.first, message.last)
        for batch in message.batches:
            within = message.first <= batch.first and batch.last <= message.last
            if batch.stream == following.info.id and within:
                self._arrived(now, batch, fx)
        if message.counter.epoch != following.epoch:
            return
        holes = following.holes(message)
        if self._is_proxy(source):  # it could not read its history: again, but not at once
            for first, last in holes:
                self._expect(now + self.config.request_timeout_ns, following, source, first, last)
        elif holes:
            self._catch_up(now, following, message.last, fx)
        if following.crowded:
            self._catch_up(now, following, following.asked, fx)
        elif rest is not None:
            self._ask(now, following, source, *rest, fx)

    def _arrived(self, now: int, batch: EventBatch, fx: Effects) -> None:
        following = self._followed.get(batch.stream)
        if following is None:
            return
        self._received += 1
        delivered = following.arrive(batch)
        if not delivered:
            self._duplicates += batch.last <= following.end
            return
        for subscription in self._by_stream.get(batch.stream, ()):
            if not subscription.live:
                continue
            if subscription.next == delivered[0].first:
                for part in delivered:
                    if subscription.in_flight >= subscription.window:
                        break
                    if not self._has_room(subscription, part, fx):
                        break
                    super()._deliver(subscription, part, fx)
            else:
                self._serve(subscription, following, fx)
        self._notifier.add(batch.stream, delivered)
        self.timers.set("notify", now)

    def _catch_up(self, now: int, following: Following, last: int, fx: Effects) -> None:
        """Ask the proxy for whatever is missing up to `last` and asked of nobody. Where there is no
        room for what comes early, only for what comes next: the answer leads to the next request.
        """
        if not self._attached or self._proxy is None:
            return
        for first, end in following.unasked(last):
            if following.crowded and first > following.end + 1:
                break
            self._fallbacks += 1
            self._ask(now, following, self._proxy.id, first, end, fx)

    def _ask_proxy_instead(self, now: int, fx: Effects) -> None:
        for following in self._followed.values():
            late = following.overdue(now)
            if late:
                self._catch_up(now, following, max(entry.last for entry in late), fx)
        deadlines = [entry.deadline for f in self._followed.values() for entry in f.outstanding]
        if deadlines:
            self.timers.set("overdue", max(now + 1, min(deadlines)))

    @handles(Advertisement)
    def _handle_advertisement(
        self, now: int, source: NodeId, message: Advertisement, fx: Effects
    ) -> None:
        """The proxy's heartbeat: what it had at the one before and nobody has mentioned since is
        asked of it."""
        super()._handle_advertisement(now, source, message, fx)
        if self._attached:
            self._compare(now, message.counters, fx)

    def _compare(self, now: int, counters: Sequence[Counter], fx: Effects) -> None:
        before, self._mentioned = self._mentioned, {c.stream: c for c in counters}
        for counter in counters:
            following = self._followed.get(counter.stream)
            if following is None:
                continue
            if counter.epoch > following.epoch:
                self._begin_epoch(now, following, counter, fx)
                continue
            earlier = before.get(counter.stream, counter)
            if earlier.epoch == following.epoch and earlier.seq > following.end:
                self._catch_up(now, following, earlier.seq, fx)
                following.asked = max(following.asked, earlier.seq)

    def _begin_epoch(self, now: int, following: Following, counter: Counter, fx: Effects) -> None:
        following.restart(counter, self._make_buffer(following.info))
        for subscription in list(self._by_stream.get(counter.stream, ())):
            if subscription.live:
                self._go_to_proxy(subscription, fx)

    # -- subscriptions ---------------------------------------------------------------------------

    def _resume(self, now: int, subscription: Subscription, fx: Effects) -> None:
        following = self._follow(subscription.stream)
        if following is not None and self._within_reach(subscription, following):
            subscription.fresh = False
            subscription.live = True
            self._serve(subscription, following, fx)
        else:
            subscription.live = False
            super()._resume(now, subscription, fx)

    def _within_reach(self, subscription: Subscription, following: Following) -> bool:
        """Whether what comes next is here, or about to be."""
        if subscription.epoch and subscription.epoch != following.epoch:
            return False
        oldest = following.buffer.first or following.end + 1
        return oldest <= subscription.next <= following.end + 1

    def _serve(self, subscription: Subscription, following: Following, fx: Effects) -> None:
        """Deliver from here; history is the proxy's."""
        while subscription.next <= following.end and subscription.in_flight < subscription.window:
            room = subscription.window - subscription.in_flight
            batches = following.buffer.read(subscription.next, following.end, room)
            if not batches or batches[0].first != subscription.next:
                self._go_to_proxy(subscription, fx)
                return
            for batch in batches:
                if not self._has_room(subscription, batch, fx):
                    return
                super()._deliver(subscription, batch, fx)

    def _has_room(self, subscription: Subscription, batch: EventBatch, fx: Effects) -> bool:
        """Whether the way to the subscriber takes a batch: it does where that is on this node."""
        return True

    def _go_to_proxy(self, subscription: Subscription, fx: Effects) -> None:
        subscription.live = False
        if self._attached and self._proxy is not None:
            fx.send(self._proxy.id, subscription.wanted())

    def _on_consumed(self, now: int, subscription: Subscription, fx: Effects) -> None:
        if subscription.live:
            following = self._followed.get(subscription.stream)
            if following is not None:
                self._serve(subscription, following, fx)
        else:
            super()._on_consumed(now, subscription, fx)

    def _deliver(self, subscription: Subscription, batch: EventBatch, fx: Effects) -> None:
        """From the proxy: until what comes next is here, too."""
        super()._deliver(subscription, batch, fx)
        following = self._followed.get(subscription.stream)
        if (
            following is not None
            and not subscription.live
            and subscription.epoch == following.epoch
            and self._within_reach(subscription, following)
            and self._proxy is not None
        ):
            fx.send(self._proxy.id, Unsubscribe(subscription.number))
            subscription.live = True
            self._serve(subscription, following, fx)

    @handles(Tail)
    def _handle_tail(self, now: int, source: NodeId, message: Tail, fx: Effects) -> None:
        # In this order: a subscription that the proxy serves is served from here from the moment on
        # when what it has is here, too. The other way round it would always be a batch ahead.
        for batch in message.batches:
            self._arrived(now, batch, fx)
        super()._handle_tail(now, source, message, fx)

    # -- looking inside --------------------------------------------------------------------------

    def _counter(self, stream: int) -> Counter:
        return self._followed[stream].counter

    def neighbors(self) -> list[NodeId]:
        return self._view.ids()

    def check_invariants(self) -> None:
        for following in self._followed.values():
            if following.buffer.last and following.buffer.last != following.end:
                raise InvariantViolation(
                    f"stream {following.info.name}: {following.buffer.last} is buffered, "
                    f"{following.end} has arrived"
                )
            if following.asked < following.end:
                raise InvariantViolation(
                    f"stream {following.info.name}: asked for {following.asked}, "
                    f"{following.end} has arrived"
                )

    def statistics(self) -> Mapping[str, int | float]:
        return {
            **super().statistics(),
            "view": len(self._view),
            "followed": len(self._followed),
            "received": self._received,
            "duplicates": self._duplicates,
            "fallbacks": self._fallbacks,
            "notified": self._notifier.sent,
        }
