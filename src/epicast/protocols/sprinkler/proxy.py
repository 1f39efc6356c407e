from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from msgspec import Struct

from epicast.core import (
    CONTROL,
    DATAGRAM,
    AnyMessage,
    ConfigError,
    Effects,
    EventBatch,
    InvariantViolation,
    NodeId,
    Peer,
    Protocol,
    Publication,
    Recovered,
    handles,
)
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.cursors import Cursors
from epicast.protocols.sprinkler.messages import (
    Advertisement,
    Attach,
    Consumed,
    Counter,
    Events,
    Notify,
    Poll,
    Publish,
    Published,
    RefusalCode,
    Refused,
    Request,
    Restart,
    StatusReply,
    StatusRequest,
    StreamInfo,
    Subscribe,
    Tail,
    Unsubscribe,
    ViewExchange,
    Welcome,
)
from epicast.protocols.sprinkler.notifier import Notifier
from epicast.protocols.sprinkler.publications import Admit, Publications
from epicast.protocols.sprinkler.relays import Relays, refusal
from epicast.protocols.sprinkler.requests import Requests
from epicast.protocols.sprinkler.sources import Sources
from epicast.protocols.sprinkler.states import StreamState
from epicast.protocols.sprinkler.views import ReinforcedView

Status = Callable[[], bytes]
"""What to tell those who ask how things are."""


class ProxyPlan(Struct, frozen=True):
    """A proxy's place in the geoplex."""

    region: str
    streams: tuple[StreamInfo, ...]
    proxies: tuple[Peer, ...]
    """Of the other regions."""


class Proxy(Protocol[ProxyConfig]):
    """A region's service: numbers its own streams, stores all, serves whoever asks."""

    def __init__(
        self,
        node: Peer,
        config: ProxyConfig,
        rng: Random,
        *,
        plan: ProxyPlan,
        admit: Admit | None = None,
        status: Status = bytes,
    ) -> None:
        super().__init__(node, config, rng)
        if len({info.id for info in plan.streams}) < len(plan.streams):
            raise ConfigError("two streams with one id")
        self._plan = plan
        self._status = status
        self._others = {peer.id: peer for peer in plan.proxies if peer.id != node.id}
        self._connected: dict[NodeId, None] = {}
        """Of the other proxies, those that can be reached."""
        self._states: dict[int, StreamState] = {}
        self._publications = Publications(node.id, config, len(self._others), admit)
        self._relays = Relays(config.max_hops)
        self._view = ReinforcedView(node.id, config.view_size, rng)
        self._notifier = Notifier(config, self._view, connects=False)
        self._attached: dict[NodeId, None] = {}
        self._consumed: dict[int, int] = {}
        """By subscription of ours: bytes stored since we told its source."""
        self._cursors = Cursors(config, self._states)
        self._requests = Requests(config, self._states)
        self._sources = Sources(node.id, config, self._states)

    # -- life ------------------------------------------------------------------------------------

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        config = self.config
        for info in self._plan.streams:
            owned = info.owner == self.node.id
            # Nothing of a stream that is numbered here is known elsewhere under epoch 0.
            epoch = recovered.epochs.get(info.id, recovered.incarnation % 2**32 if owned else 0)
            end = recovered.log_ends.get(info.id, 0)
            state = self._states[info.id] = StreamState(info, epoch, end, config.recent_bytes)
            if owned:
                publishers = dict(recovered.publishers.get(info.id, {}))
                self._publications.own(state, publishers)
        self._cursors = Cursors(config, self._states)
        self._sources = Sources(self.node.id, config, self._states)
        for peer in self._others.values():
            fx.connect(peer)
        self.timers.set("advertise", now + int(self.rng.random() * config.advertise_every_ns))
        self.timers.set("gossip", now + int(self.rng.random() * config.gossip_every_ns))

    def on_stop(self, now: int, fx: Effects) -> None:
        self.timers.clear()

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        config = self.config
        if name == "notify":
            self._notifier.flush(now, self._counter, fx)
        elif name == "advertise":
            self.timers.set("advertise", now + config.advertise_every_ns)
            self._sources.forget_silent(now, fx)
            self._requests.retry(fx)
            self._cursors.retry(fx)
            if self._connected:
                fx.send(list(self._connected), Advertisement(self._counters()))
        elif name == "gossip":
            self.timers.set("gossip", now + config.gossip_every_ns)
            partner = self._view.random_member()
            if partner is not None:
                fx.know(partner)
                self._exchange_views(partner.id, True, fx)
        elif name == "connect":
            for peer_id, peer in self._others.items():
                if peer_id not in self._connected:
                    fx.connect(peer)
        elif name == "read":
            self._cursors.retry_reads(fx)

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        if peer in self._others:
            self._connected[peer] = None
            fx.send(peer, Advertisement(self._counters()))

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        self._cursors.forget(peer)
        self._requests.forget(peer)
        self._view.remove(peer)
        self._notifier.remove(peer)
        self._attached.pop(peer, None)
        if peer in self._others:
            self._connected.pop(peer, None)
            self._sources.forget(now, peer)
            wait = self.config.reconnect_every_ns
            self.timers.set("connect", now + wait // 2 + int(self.rng.random() * wait))

    def on_ready(self, now: int, peer: NodeId, room: int, fx: Effects) -> None:
        self._requests.ready(peer, fx)
        self._cursors.ready(peer, fx)

    # -- those who are attached ------------------------------------------------------------------

    @handles(Attach)
    def _handle_attach(self, now: int, source: NodeId, message: Attach, fx: Effects) -> None:
        if message.node.id != source:
            fx.drop("attached under another name", source)
            return
        self._keep(message.node, fx)
        fx.send(
            source,
            Welcome(
                self._plan.region, self.node, self._plan.streams, self._counters(),
                self.config.heartbeat_every_ns,
            ),
        )  # fmt: skip

    def _keep(self, peer: Peer, fx: Effects) -> None:
        """Take an interest in somebody who came by itself, to notice when it is gone."""
        if peer.id not in self._attached and peer.id not in self._others:
            self._attached[peer.id] = None
            fx.connect(peer)

    @handles(Poll)
    def _handle_poll(self, now: int, source: NodeId, message: Poll, fx: Effects) -> None:
        fx.send(source, Advertisement(self._counters(), message.asked_at))

    @handles(Subscribe)
    def _handle_subscribe(self, now: int, source: NodeId, message: Subscribe, fx: Effects) -> None:
        if source not in self._attached and source not in self._others:
            fx.drop("subscription of a stranger", source)
        elif not self._cursors.subscribe(source, message, fx):
            fx.send(source, Restart(message.number, message.stream, 0, 0))

    @handles(Unsubscribe)
    def _handle_unsubscribe(
        self, now: int, source: NodeId, message: Unsubscribe, fx: Effects
    ) -> None:
        self._cursors.unsubscribe(source, message.number)

    @handles(Consumed)
    def _handle_consumed(self, now: int, source: NodeId, message: Consumed, fx: Effects) -> None:
        stream = self._cursors.handle_consumed(source, message, fx)
        if stream and source in self._others:
            self._publications.heard_of_region(source, stream, message.seq, fx)

    def on_read(self, now: int, token: int, batches: Sequence[EventBatch], fx: Effects) -> None:
        if token % 2:
            self._requests.on_read(token, batches, fx)
        elif not self._cursors.on_read(token, batches, fx):
            self.timers.set("read", now + self.config.read_retry_ns)

    # -- publishing ------------------------------------------------------------------------------

    @handles(Publish)
    def _handle_publish(self, now: int, source: NodeId, message: Publish, fx: Effects) -> None:
        state = self._states.get(message.stream)
        if state is None:
            detail = f"there is no stream {message.stream} here"
            fx.send(source, refusal(message, RefusalCode.UNKNOWN_STREAM, detail))
        elif self._publications.owns(message.stream):
            self._publications.take(now, source, message, fx)
        else:
            owner, followed = state.info.owner, self._sources.source_of(state.id)
            towards = (n for n in (owner, followed, *self._connected) if n in self._connected)
            self._relays.forward(source, message, towards, fx)

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        """Of the service itself: events that expire. Nobody waits for an answer."""
        for publication in publications:
            batch = publication.batch
            first = publication.first
            message = Publish(batch.stream, publication.publisher, first, first - 1, "", (), batch)
            if self._publications.owns(batch.stream):
                self._publications.take(now, self.node.id, message, fx)
            else:
                fx.refuse(publication, f"stream {batch.stream} is not owned here")
        self._publications.store(fx)

    def on_messages(
        self, now: int, source: NodeId, messages: Sequence[AnyMessage], fx: Effects
    ) -> None:
        super().on_messages(now, source, messages, fx)
        self._publications.store(fx)

    @handles(Published)
    def _handle_published(self, now: int, source: NodeId, message: Published, fx: Effects) -> None:
        self._relays.back(message, fx)

    @handles(Refused)
    def _handle_refused(self, now: int, source: NodeId, message: Refused, fx: Effects) -> None:
        self._relays.back(message, fx)

    # -- storing ---------------------------------------------------------------------------------

    def on_appended(self, now: int, stream: int, seq: int, fx: Effects) -> None:
        state = self._states.get(stream)
        if state is None:
            return
        shown = state.stabilise(seq)
        if not shown:
            return
        self._cursors.exposed(state, shown, fx)  # subscribers first: they are who waits
        if self._publications.owns(stream):
            self._publications.stabilise(stream, seq, fx)
        else:
            self._report_consumed(state, shown, fx)
        if self._view:
            self._notifier.add(stream, shown)
            self.timers.set("notify", now)

    def on_append_failed(self, now: int, stream: int, first: int, reason: str, fx: Effects) -> None:
        state = self._states.get(stream)
        if state is None:
            return
        state.fail(first)
        if self._publications.owns(stream):
            self._publications.fail(stream, first, reason, fx)
        else:
            self._sources.leave(now, stream, fx)

    def _report_consumed(
        self, state: StreamState, shown: Sequence[EventBatch], fx: Effects
    ) -> None:
        number = self._sources.number_of(state.id)
        total = self._consumed.get(number, 0) + sum(batch.wire_size() for batch in shown)
        source = self._sources.source_of(state.id)
        if source and (total >= self.config.window_bytes // 8 or state.end == state.taken):
            fx.send(source, Consumed(number, state.epoch, state.end))
            total = 0
        self._consumed[number] = total

    # -- other proxies (PLP) ---------------------------------------------------------------------

    @handles(Advertisement)
    def _handle_advertisement(
        self, now: int, source: NodeId, message: Advertisement, fx: Effects
    ) -> None:
        if source not in self._others:
            fx.drop("advertisement of a stranger", source)
            return
        for counter in message.counters:
            # Only of who is connected would we be told that a subscription was lost on the way.
            if source in self._connected:
                self._sources.heard(now, source, counter, fx)
            state = self._states.get(counter.stream)
            if state is not None and counter.epoch == state.epoch:
                self._publications.heard_of_region(source, counter.stream, counter.seq, fx)

    @handles(Tail)
    def _handle_tail(self, now: int, source: NodeId, message: Tail, fx: Effects) -> None:
        self._take_events(now, source, message.batches, fx)

    @handles(Events)
    def _handle_events(self, now: int, source: NodeId, message: Events, fx: Effects) -> None:
        self._take_events(now, source, message.batches, fx)

    def _take_events(
        self, now: int, source: NodeId, batches: Sequence[EventBatch], fx: Effects
    ) -> None:
        for batch in batches:
            stream = batch.stream
            if not source or self._sources.source_of(stream) != source:
                continue  # from a source we left, or one we never had
            state = self._states[stream]
            if batch.epoch != state.epoch:
                if batch.epoch < state.epoch or batch.first != 1:
                    continue
                self._begin_epoch(state, batch.epoch, fx)
            if batch.last <= state.taken:
                continue
            if batch.first > state.taken + 1:
                fx.drop("gap", source, stream, state.taken + 1, batch.first - 1)
                self._sources.resubscribe(stream, fx)
                continue
            if batch.first <= state.taken:
                batch = batch.slice(state.taken + 1, batch.last)
            state.take(batch)
            fx.append(batch)

    @handles(Restart)
    def _handle_restart(self, now: int, source: NodeId, message: Restart, fx: Effects) -> None:
        """What comes next is gone at the source: go on where it goes on."""
        state = self._states.get(message.stream)
        if state is None or self._sources.source_of(message.stream) != source:
            return
        if message.epoch > state.epoch:
            self._begin_epoch(state, message.epoch, fx)
        if message.epoch == state.epoch and message.seq > state.taken:
            self._skip(state, message.seq, fx)

    def _skip(self, state: StreamState, seq: int, fx: Effects) -> None:
        """Retention at the source dropped what this proxy has never seen: bury it here as well."""
        gap = EventBatch.build(state.id, state.taken + 1, [], seqs=[], last=seq, epoch=state.epoch)
        state.take(gap)
        fx.append(gap)

    def _begin_epoch(self, state: StreamState, epoch: int, fx: Effects) -> None:
        state.restart(epoch)
        self._cursors.epoch_changed(state, fx)

    # -- the region (RLP) ------------------------------------------------------------------------

    @handles(Request)
    def _handle_request(self, now: int, source: NodeId, message: Request, fx: Effects) -> None:
        self._requests.handle(source, message, fx)

    @handles(Notify)
    def _handle_notify(self, now: int, source: NodeId, message: Notify, fx: Effects) -> None:
        """A proxy gets nothing from agents: it is who they have it from."""

    @handles(ViewExchange)
    def _handle_views(self, now: int, source: NodeId, message: ViewExchange, fx: Effects) -> None:
        if message.sender.id != source or source in self._others:
            fx.drop("view of a stranger", source)
            return
        self._view.merge(message.sender, message.view)
        for peer in self._others:
            self._view.remove(peer)
        if message.wants_answer:
            fx.know(message.sender)
            self._exchange_views(source, False, fx)

    def _exchange_views(self, peer: NodeId, wants_answer: bool, fx: Effects) -> None:
        message = ViewExchange(self.node, self._view.members(), wants_answer)
        fx.send(peer, message, DATAGRAM if len(message.view) <= 30 else CONTROL)

    # -- looking inside --------------------------------------------------------------------------

    @handles(StatusRequest)
    def _handle_status(self, now: int, source: NodeId, message: StatusRequest, fx: Effects) -> None:
        fx.send(source, StatusReply(self._status()))

    def _counter(self, stream: int) -> Counter:
        return self._states[stream].counter

    def _counters(self) -> tuple[Counter, ...]:
        return tuple(state.counter for state in self._states.values())

    def neighbors(self) -> list[NodeId]:
        return self._view.ids()

    def check_invariants(self) -> None:
        for state in self._states.values():
            if state.end > state.taken:
                raise InvariantViolation(
                    f"stream {state.info.name}: {state.end} is shown, {state.taken} was taken"
                )
            if state.recent.last and state.recent.last != state.end:
                raise InvariantViolation(
                    f"stream {state.info.name}: {state.recent.last} at hand, {state.end} shown"
                )

    def statistics(self) -> Mapping[str, int | float]:
        return {
            "subscriptions": self._cursors.count,
            "attached": len(self._attached),
            "proxies": len(self._connected),
            "relayed": self._relays.relayed,
            "source_switches": self._sources.switches,
            "notified": self._notifier.sent,
        }

    def progress(self) -> dict[str, tuple[Counter, NodeId]]:
        """By name of the stream: how far it is here, and where it comes from (0: from here)."""
        return {
            state.info.name: (state.counter, self._sources.source_of(state.id))
            for state in self._states.values()
        }
