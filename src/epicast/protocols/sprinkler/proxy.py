from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random

from epicast.core import (
    AnyMessage,
    ConfigError,
    Effects,
    EventBatch,
    NodeId,
    Peer,
    Publication,
    Recovered,
    handles,
)
from epicast.deployment.access import Action
from epicast.protocols.sprinkler.alarms import Alarm, Watch
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.cursors import Cursors
from epicast.protocols.sprinkler.gossiping import GossipingProxy
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
    Request,
    Restart,
    StatusReply,
    StatusRequest,
    StreamInfo,
    Subscribe,
    Tail,
    Unsubscribe,
    Welcome,
)
from epicast.protocols.sprinkler.permits import IsAgent, Permit, all_agents, permit_all
from epicast.protocols.sprinkler.plans import ProxyPlan, Status
from epicast.protocols.sprinkler.publications import Admission, AdmitAll, Publications
from epicast.protocols.sprinkler.relays import Relays, refusal
from epicast.protocols.sprinkler.requests import Requests
from epicast.protocols.sprinkler.sources import Sources
from epicast.protocols.sprinkler.speakers import Speakers
from epicast.protocols.sprinkler.standing import AGENT, CLIENT, PROXY, STRANGER, TO_PROXIES, Part
from epicast.protocols.sprinkler.states import StreamState


class Proxy(GossipingProxy):
    """A region's service: numbers its own streams, stores all, serves whoever asks."""

    may_say = TO_PROXIES

    def __init__(
        self,
        node: Peer,
        config: ProxyConfig,
        rng: Random,
        *,
        plan: ProxyPlan,
        admit: Admission | None = None,
        permit: Permit = permit_all,
        status: Status = bytes,
        is_agent: IsAgent = all_agents,
    ) -> None:
        super().__init__(node, config, rng)
        if len({info.id for info in plan.streams}) < len(plan.streams):
            raise ConfigError("two streams with one id")
        self._plan = plan
        self._region_id = plan.region_id or node.id
        self._permit = permit
        self._status = status
        self._is_agent = is_agent
        self._others = {peer.id: peer for peer in plan.proxies if peer.id != node.id}
        self._connected: dict[NodeId, None] = {}
        """Of the other proxies, those that can be reached."""
        self._speakers = Speakers(plan.region_ids)
        self._region_of = self._speakers.region_of
        self._is_head = True
        """Numbers the region's streams and follows those of others: does what only one may do."""
        self._states: dict[int, StreamState] = {}
        other_regions = set(map(self._region_of, self._others))
        self._admit = admit or AdmitAll()
        self._publications = Publications(node.id, config, len(other_regions), self._admit)
        self._relays = Relays(config.max_hops)
        self._attached: dict[NodeId, Part] = {}
        self._consumed: dict[int, int] = {}
        """By subscription of ours: bytes stored since we told its source."""
        self._cursors = Cursors(config, self._states)
        self._requests = Requests(config, self._states)
        self._sources = self._new_sources()
        self._watch = Watch(config.alarm_after_ns, self._states)

    # -- life ------------------------------------------------------------------------------------

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        config = self.config
        for info in self._present_infos(recovered):
            owned = info.owner == self._region_id
            epoch = recovered.epochs.get(info.id, self._first_epoch(recovered) if owned else 0)
            end = recovered.log_ends.get(info.id, 0)
            state = self._states[info.id] = StreamState(info, epoch, end, config.recent_bytes)
            if owned:
                publishers = dict(recovered.publishers.get(info.id, {}))
                self._publications.own(state, publishers)
        self._cursors = Cursors(config, self._states)
        self._sources = self._new_sources()
        regions = dict.fromkeys(map(self._region_of, self._others))
        self._watch.start(now, regions, filter(self._publications.owns, self._states))
        for peer in self._others.values():
            fx.connect(peer)
        self.timers.set("advertise", now + int(self.rng.random() * config.advertise_every_ns))
        self.timers.set("gossip", now + int(self.rng.random() * config.gossip_every_ns))

    def _present_infos(self, recovered: Recovered) -> Sequence[StreamInfo]:
        """Of all streams, with their owner as far as is known here."""
        return self._plan.streams

    def _first_epoch(self, recovered: Recovered) -> int:
        """Of a stream numbered here. Nothing of it is known elsewhere under epoch 0."""
        return recovered.incarnation % 2**32

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
            self._advertise(list(self._connected), fx)
        elif name == "gossip":
            self.timers.set("gossip", now + config.gossip_every_ns)
            self._gossip(fx)
        elif name == "connect":
            for peer_id, peer in self._others.items():
                if peer_id not in self._connected:
                    fx.connect(peer)
        elif name == "read":
            self._cursors.retry_reads(fx)
        elif name == "sources":
            self._sources.check(now, fx)
            self._watch_sources()

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        if peer in self._others:
            self._connected[peer] = None
            self._advertise([peer], fx)
            self._relays.call_back(list(self._attached), fx)

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        self._cursors.forget(peer)
        self._requests.forget(peer)
        self._view.remove(peer)
        self._notifier.remove(peer)
        self._attached.pop(peer, None)
        if peer in self._others:
            self._connected.pop(peer, None)
            self._sources.forget(now, peer, fx)
            self._watch_sources()
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
        self._keep(message, fx)
        infos = tuple(state.info for state in self._states.values())
        fx.send(
            source,
            Welcome(
                self._plan.region, self.node, infos, self._counters(),
                self.config.heartbeat_every_ns, proxies=self._plan.replicas,
            ),
        )  # fmt: skip

    def _keep(self, message: Attach, fx: Effects) -> None:
        """Take an interest in somebody who came by itself, to notice when it is gone."""
        peer = message.node
        if peer.id in self._others:
            return
        if peer.id not in self._attached:
            fx.connect(peer)
        is_agent = message.listens and self._is_agent(peer.id)
        self._attached[peer.id] = AGENT if is_agent else CLIENT

    def _part_of(self, peer: NodeId) -> Part:
        return PROXY if peer in self._others else self._attached.get(peer, STRANGER)

    @handles(Poll)
    def _handle_poll(self, now: int, source: NodeId, message: Poll, fx: Effects) -> None:
        fx.send(source, Advertisement(self._counters(), message.asked_at))

    @handles(Subscribe)
    def _handle_subscribe(self, now: int, source: NodeId, message: Subscribe, fx: Effects) -> None:
        if refused := self._objection(source, Action.SUBSCRIBE, message.stream):
            fx.drop("subscription without the right", source, message.stream)
            fx.send(source, Forbidden(message.number, message.stream, refused))
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
            self._publications.heard_of_region(self._region_of(source), stream, message.seq, fx)

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
        elif refused := self._objection(source, Action.PUBLISH, message.stream):
            fx.drop("publication without the right", source, message.stream)
            fx.send(source, refusal(message, RefusalCode.FORBIDDEN, refused))
        elif self._publications.owns(message.stream) and self._is_head:
            self._publications.take(now, source, message, fx)
        else:
            self._relays.forward(source, message, self._ways_to_owner(state), fx)

    def _ways_to_owner(self, state: StreamState) -> Iterable[NodeId]:
        """Whom to give a publication to, the best first."""
        owner = state.info.owner
        theirs = (node for node in self._connected if self._region_of(node) == owner)
        followed = self._sources.source_of(state.id)
        ways = (self._speakers.speaker_of(owner), *theirs, followed, *self._connected)
        return (node for node in ways if node in self._connected)

    def _objection(self, source: NodeId, action: Action, stream: int) -> str:
        """Other proxies have asked before they pass on what their clients want."""
        if source in self._are_no_agents():
            return ""
        state = self._states.get(stream)
        return "" if state is None else self._permit(source, action, state.info)

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        """Of the service itself: events that expire. Nobody waits for an answer."""
        for publication in publications:
            batch = publication.batch
            first = publication.first
            message = Publish(batch.stream, publication.publisher, first, first - 1, "", (), batch)
            if self._publications.owns(batch.stream) and self._is_head:
                self._publications.take(now, self.node.id, message, fx)
            else:
                fx.refuse(publication, f"stream {batch.stream} is not numbered here")
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
        self._watch.stored(stream)
        stored = state.store(seq)
        if stored:
            self._on_stored(now, state, stored, fx)

    def _on_stored(
        self, now: int, state: StreamState, stored: Sequence[EventBatch], fx: Effects
    ) -> None:
        """Alone, what is stored may be shown."""
        self._show(now, state, state.stored, fx)

    def _show(self, now: int, state: StreamState, seq: int, fx: Effects) -> None:
        """Everything up to `seq` is as safe as the stream promises."""
        shown = state.show(seq)
        if not shown:
            return
        self._on_shown(state, shown)
        self._cursors.exposed(state, shown, fx)  # subscribers first: they are who waits
        if self._publications.owns(state.id):
            self._publications.stabilise(state.id, state.end, fx)
        else:
            self._report_consumed(state, shown, fx)
        if self._view and state.info.spreads:
            self._notifier.add(state.id, shown)
            self.timers.set("notify", now)

    def _on_shown(self, state: StreamState, shown: Sequence[EventBatch]) -> None:
        """Nobody has been told yet."""

    def on_append_failed(self, now: int, stream: int, first: int, reason: str, fx: Effects) -> None:
        state = self._states.get(stream)
        if state is None:
            return
        state.fail(first)
        self._watch.not_stored(now, stream, reason)
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
        is_new, former = self._speakers.heard(source, message.chain)
        if is_new:
            self._relays.call_back(list(self._attached), fx)
        if former:
            self._sources.forget(now, former, fx)
        region = self._region_of(source)
        self._watch.heard(now, region, message.counters)
        for counter in message.counters:
            # Only of who is connected would we be told that a subscription was lost on the way.
            if source in self._connected and self._is_head:
                self._sources.heard(now, source, counter, fx, answers=message.asked_at > 0)
            state = self._states.get(counter.stream)
            if state is not None and counter.epoch == state.epoch:
                self._publications.heard_of_region(region, counter.stream, counter.seq, fx)
        self._watch_sources()

    def _are_no_agents(self) -> Mapping[NodeId, Peer]:
        return self._others

    def _new_sources(self) -> Sources:
        return Sources(self._region_id, self.config, self._states, self._connected, self._region_of)

    def _source_of(self, stream: int) -> NodeId:
        """Whose events of a stream are taken."""
        return self._sources.source_of(stream)

    def _advertise(self, to: list[NodeId], fx: Effects) -> None:
        if to:
            fx.send(to, Advertisement(self._counters()))

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
            state = self._states.get(stream := batch.stream)
            if state is None or not source or self._source_of(stream) != source:
                continue  # from a source we left, or one we never had
            if self._is_head:
                self._sources.delivered(now, stream)
            news = state.news_in(batch)
            if news is None:
                continue
            if problem := self._admit.storable(state.info, news):
                fx.drop("events no history can store", source, stream, news.first, news.last)
                self._have_from_others(now, stream, problem, fx)
                continue
            if news.epoch != state.epoch:
                self._begin_epoch(state, news.epoch, fx)
            if news.first > state.taken + 1:
                fx.drop("gap", source, stream, state.taken + 1, news.first - 1)
                self._ask_again(stream, fx)
                continue
            state.take(news)
            fx.append(news)
            self._on_taken(news)
        self._watch_sources()

    def _have_from_others(self, now: int, stream: int, problem: str, fx: Effects) -> None:
        """Leave the source of a stream, which sends events that cannot be stored."""
        self._watch.not_stored(now, stream, problem)
        self._sources.leave(now, stream, fx, shuns=True)

    def _watch_sources(self) -> None:
        if self._sources.check_at < self.timers.deadline("sources"):
            self.timers.set("sources", self._sources.check_at)

    def _ask_again(self, stream: int, fx: Effects) -> None:
        """Something is missing between what is here and what came."""
        self._sources.resubscribe(stream, fx)

    def _on_taken(self, batch: EventBatch) -> None:
        """A batch of somebody else's numbering was handed to the store."""

    @handles(Restart)
    def _handle_restart(self, now: int, source: NodeId, message: Restart, fx: Effects) -> None:
        """What comes next is gone at the source: go on where it goes on."""
        state = self._states.get(message.stream)
        if state is None or self._source_of(message.stream) != source:
            return
        if message.epoch > state.epoch:
            self._begin_epoch(state, message.epoch, fx)
        if message.epoch == state.epoch and message.seq > state.taken:
            fx.append(state.bury(message.seq))

    def _begin_epoch(self, state: StreamState, epoch: int, fx: Effects) -> None:
        state.restart(epoch)
        self._cursors.epoch_changed(state, fx)

    # -- the region (RLP) ------------------------------------------------------------------------

    @handles(Request)
    def _handle_request(self, now: int, source: NodeId, message: Request, fx: Effects) -> None:
        if self._objection(source, Action.SUBSCRIBE, message.stream):
            fx.drop("request without the right", source, message.stream)
            return
        self._requests.handle(source, message, fx)

    # -- looking inside --------------------------------------------------------------------------

    @handles(StatusRequest)
    def _handle_status(self, now: int, source: NodeId, message: StatusRequest, fx: Effects) -> None:
        refused = "" if source in self._others else self._permit(source, Action.ADMIN, None)
        fx.send(source, StatusReply(b"", refused) if refused else StatusReply(self._status()))

    def _counter(self, stream: int) -> Counter:
        return self._states[stream].counter

    def _counters(self) -> tuple[Counter, ...]:
        return tuple(state.counter for state in self._states.values())

    def alarms(self, now: int) -> list[Alarm]:
        return self._watch.alarms(now)

    def check_invariants(self) -> None:
        for state in self._states.values():
            state.check_invariants()

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
