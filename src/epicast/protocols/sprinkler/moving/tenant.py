"""A proxy that knows whose each stream is.

**Given.** A stream that was given to this region is taken as soon as that is heard, from whomever,
and everything of it is here; the stream goes on in the same epoch.

**By force.** A region that takes a stream by itself begins a new epoch with what it has. Whoever
hears of that follows it there. The old owner does as well, as soon as it hears of it, and says what
it has numbered that is not part of the stream any more.

**Fences.** What a proxy says of a stream counts only while it knows the same tenure. So a region
that comes back and does not know yet is not followed by anybody, however far it says to be.

A region that owns a stream and does not remember it has lost its disk. It fetches what others have,
and goes on from there in a new epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from msgspec.structs import replace

from epicast.core import Effects, EventBatch, NodeId, Peer, Publication, Recovered, handles
from epicast.core.effects import BeginEpoch
from epicast.core.epochs import forced_epoch
from epicast.protocols.sprinkler.alarms import Alarm, AlarmKind
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.messages import (
    Advertisement,
    Counter,
    Publish,
    RefusalCode,
    SendAgain,
    StreamInfo,
)
from epicast.protocols.sprinkler.moving.ledger import Ledger
from epicast.protocols.sprinkler.moving.messages import Ownerships
from epicast.protocols.sprinkler.moving.publishers import KnownPublishers
from epicast.protocols.sprinkler.moving.tenure import Tenure, lost_by
from epicast.protocols.sprinkler.permits import IsAgent, Permit, all_agents, permit_all
from epicast.protocols.sprinkler.plans import ProxyPlan, Status
from epicast.protocols.sprinkler.proxy import Proxy
from epicast.protocols.sprinkler.publications import Admission
from epicast.protocols.sprinkler.relays import refusal
from epicast.protocols.sprinkler.states import StreamState

_HEARS_WITHIN = 2
"""Times `reconnect_every_ns`: how long an owner that was started again waits for others to say
whether it is the owner."""
_ENOUGH = 3
"""Advertisements: what was to be said when two met has been said by then."""


class TenantProxy(Proxy):
    """Knows whose each stream is, takes what it is given, and can take what it is not."""

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
        super().__init__(
            node, config, rng, plan=plan, admit=admit, permit=permit, status=status,
            is_agent=is_agent,
        )  # fmt: skip
        self._ledger = Ledger(self._region_id)
        self._known = KnownPublishers(config.max_publishers)
        self._unremembered: dict[int, int] = {}
        """Streams that are owned here, but of which too little is: since when that is known."""
        self._asks_until = 0
        """Until then, or until all were heard, nothing is numbered; 0: that is over."""
        self._heard_of: dict[int, int] = {}
        """By region, how often that was."""
        self._lost_at: dict[int, int] = {}

    # -- life ------------------------------------------------------------------------------------

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        super().on_start(now, contacts, recovered, fx)
        self._lost_at = {loss.stream: now for loss in self._ledger.losses}
        self._asks_until = 0
        self._heard_of.clear()
        for stream in self._states:
            if not self._publications.owns(stream):
                self._known.replace(stream, dict(recovered.publishers.get(stream, {})))
            if self._is_unremembered(stream):
                self._unremembered[stream] = now
            self._begin_epoch_of_tenure(self._states[stream], fx)
            if self._others and self._publications.owns(stream) and self._states[stream].end:
                self._asks_until = now + _HEARS_WITHIN * self.config.reconnect_every_ns

    def _hear_while_asking(self, source: NodeId, said_all: bool, fx: Effects) -> None:
        """An owner that was away may not be the owner any more: it numbers nothing before others
        had a chance to say so. Who has advertised several times and said nothing knows nothing."""
        region = self._region_of(source)
        heard = _ENOUGH if said_all else self._heard_of.get(region, 0) + 1
        self._heard_of[region] = heard
        regions = map(self._region_of, self._others)
        if all(self._heard_of.get(each, 0) >= _ENOUGH for each in regions):
            self._stop_asking(fx)

    def _stop_asking(self, fx: Effects) -> None:
        self._asks_until = 0
        self._call_publishers(fx)

    def _begin_epoch_of_tenure(self, state: StreamState, fx: Effects) -> None:
        """If that was decided, but not written."""
        tenure = self._ledger.tenures.get(state.id)
        owned = self._publications.owns(state.id) and self._is_head
        if owned and tenure is not None and state.epoch < tenure.epoch:
            self._relabel(state, tenure.epoch, fx)

    def _present_infos(self, recovered: Recovered) -> Sequence[StreamInfo]:
        self._ledger = Ledger(self._region_id, recovered.saved)
        return [self._present(info) for info in self._plan.streams]

    def _present(self, declared: StreamInfo) -> StreamInfo:
        owner = self._ledger.owner_of(declared.id, declared.owner)
        facts = self._plan.regions.get(owner or self._region_id)
        if owner == declared.owner or facts is None:
            return declared
        return replace(declared, owner=owner, region=facts.name)

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        super().on_deadline(now, name, fx)
        if name == "advertise":
            stuck = [state for state in self._states.values() if state.is_stuck]
            for state in stuck:
                state.begin_again(fx)
            if stuck:
                # A commit that fails saves nothing: the tenures may have been in it.
                self._ledger.save(fx)
        if name == "advertise" and 0 < self._asks_until <= now:
            self._stop_asking(fx)
        if name == "advertise" and self._ledger.tenures:
            for stream in list(self._ledger.tenures):
                if stream in self._states:
                    self._take_what_was_given(now, self._states[stream], fx)
            self._go_on_with_what_others_have(now, fx)
        elif name == "gossip":
            self._ledger.spread(list(self._connected), fx)

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        super().on_peer_up(now, peer, fx)
        if peer in self._others:
            self._ledger.spread([peer], fx)

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        super().on_peer_down(now, peer, fx)
        self._ledger.forget(peer)

    # -- what may be done meanwhile --------------------------------------------------------------

    def _handle_publish(self, now: int, source: NodeId, message: Publish, fx: Effects) -> None:
        held_up = self._held_up(message.stream)
        if held_up:
            fx.send(source, refusal(message, RefusalCode.BUSY, held_up))
        else:
            super()._handle_publish(now, source, message, fx)

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        for publication in publications:
            held_up = self._held_up(publication.batch.stream)
            if held_up:
                fx.refuse(publication, held_up)
        super().on_publish(now, [p for p in publications if not self._held_up(p.batch.stream)], fx)

    def _held_up(self, stream: int) -> str:
        """Why nothing is numbered now; empty if that is not so."""
        if self._asks_until and self._is_head and self._publications.owns(stream):
            return "its owner has just been started, and asks whether it still is"
        if self._publications.owns(stream) and self._states[stream].is_stuck:
            return "its owner cannot write that a new epoch has begun"
        return self._ledger.waits(stream)

    def _on_taken(self, batch: EventBatch) -> None:
        if not self._publications.owns(batch.stream):
            self._known.observe(batch)

    def _show(self, now: int, state: StreamState, seq: int, fx: Effects) -> None:
        tenure = self._ledger.tenures.get(state.id)
        if tenure is None or state.epoch >= tenure.epoch:  # or it is not part of the stream
            super()._show(now, state, seq, fx)

    def _begin_epoch(self, state: StreamState, epoch: int, fx: Effects, aside: int = 0) -> None:
        self._known.forget(state.id)
        super()._begin_epoch(state, epoch, fx, aside)

    def on_appended(self, now: int, stream: int, seq: int, fx: Effects) -> None:
        super().on_appended(now, stream, seq, fx)
        if stream in self._ledger.tenures:
            self._take_what_was_given(now, self._states[stream], fx)

    def on_epoch_failed(self, now: int, order: BeginEpoch, reason: str, fx: Effects) -> None:
        state = self._states.get(order.stream)
        if state is None:
            return
        state.not_begun(order)
        self._watch.not_stored(now, order.stream, reason)
        if not self._publications.owns(order.stream):
            self._sources.leave(now, order.stream, fx)

    # -- what others say -------------------------------------------------------------------------

    @handles(Ownerships)
    def _handle_ownerships(
        self, now: int, source: NodeId, message: Ownerships, fx: Effects
    ) -> None:
        self._ledger.heard(source, message.tenures)
        for tenure in message.tenures:
            if tenure.stream in self._states and self._ledger.is_news(tenure):
                self._adopt(now, tenure, fx, remembered=False)
        if self._asks_until:
            self._hear_while_asking(source, True, fx)

    def _handle_advertisement(
        self, now: int, source: NodeId, message: Advertisement, fx: Effects
    ) -> None:
        counters = self._ledger.heeded(source, message.counters)
        message = Advertisement(tuple(counters), message.asked_at, message.chain)
        super()._handle_advertisement(now, source, message, fx)
        if self._asks_until:
            self._hear_while_asking(source, False, fx)
        self._heed(now, self._region_of(source), counters, fx)

    def _heed(self, now: int, region: int, counters: Sequence[Counter], fx: Effects) -> None:
        """Another region is so far."""
        for counter in counters:
            if counter.stream in self._ledger.tenures and counter.stream in self._states:
                self._outgrow(now, counter, fx)

    # -- tenures ---------------------------------------------------------------------------------

    def _issue(self, now: int, tenure: Tenure, fx: Effects) -> None:
        """Decide, for this region, on a tenure. A proxy that is alone need not ask anybody."""
        self._adopt(now, tenure, fx, remembered=True)

    def _adopt(self, now: int, tenure: Tenure, fx: Effects, *, remembered: bool) -> None:
        """`remembered`: it is this region's own decision, and nobody else's word."""
        state = self._states[tenure.stream]
        owned = self._publications.owns(state.id)
        self._note_loss(now, state, tenure)
        self._ledger.keep(tenure, remembered=remembered)
        state.info = self._present(self._declared(state.id))
        mine = state.info.owner == self._region_id
        if mine:
            self._begin_to_own(now, state, tenure, fx)
        elif owned:
            self._known.replace(state.id, self._publications.disown(state.id, fx))
            self._sources.begin(now, state)
            self._watch.own(state.id, False)
        else:
            self._sources.leave(now, state.id, fx)  # to follow somebody who knows of this
        self._unremembered.pop(state.id, None)
        if self._is_unremembered(state.id):
            self._unremembered[state.id] = now
        self._ledger.save(fx)
        self._ledger.spread(list(self._connected), fx)
        self._on_tenure(now, tenure, fx)
        self._call_publishers(fx)
        self._take_what_was_given(now, state, fx)

    def _on_tenure(self, now: int, tenure: Tenure, fx: Effects) -> None:
        """There is a new one."""

    def _declared(self, stream: int) -> StreamInfo:
        return next(info for info in self._plan.streams if info.id == stream)

    def _begin_to_own(self, now: int, state: StreamState, tenure: Tenure, fx: Effects) -> None:
        if state.epoch < tenure.epoch and (self._is_head or state.epoch == tenure.before):
            self._relabel(state, tenure.epoch, fx)
        if not self._publications.owns(state.id):
            self._sources.end(now, state.id, fx)
            self._publications.own(state, self._known.numbers(state.id))
            self._known.forget(state.id)
            self._watch.own(state.id, True)

    def _relabel(self, state: StreamState, epoch: int, fx: Effects) -> None:
        """What is here goes on in a new epoch: subscribers are told."""
        state.begin_epoch(epoch, fx, keeps=state.taken > 0)
        state.relabel(epoch)
        self._cursors.epoch_changed(state, fx)

    def _note_loss(self, now: int, state: StreamState, tenure: Tenure) -> None:
        owned = self._publications.owns(state.id) and tenure.owner != self._region_id
        loss = lost_by(tenure, state.epoch, state.end, owned=owned)
        if loss is not None and tenure.owner != self._region_id:
            self._ledger.lose(loss)
            self._lost_at[state.id] = now

    def _call_publishers(self, fx: Effects) -> None:
        """What was refused meanwhile need not wait any longer."""
        if self._attached:
            fx.send(list(self._attached), SendAgain())

    def _take_what_was_given(self, now: int, state: StreamState, fx: Effects) -> None:
        """Begin to own a stream that was handed over, once everything of it is here."""
        tenure = self._ledger.tenures.get(state.id)
        if tenure is None or tenure.taken or tenure.owner != self._region_id or not self._is_head:
            return
        whole = state.epoch == tenure.epoch and state.end >= tenure.since
        if whole or not (tenure.since or state.taken):
            self._issue(now, replace(tenure, taken=True), fx)

    def _is_unremembered(self, stream: int) -> bool:
        tenure = self._ledger.tenures.get(stream)
        return (
            tenure is not None
            and tenure.taken
            and tenure.owner == self._region_id
            and not self._ledger.remembers(tenure)
        )

    def _go_on_with_what_others_have(self, now: int, fx: Effects) -> None:
        """Of streams that are owned here although nothing is remembered of it."""
        patience = 2 * self.config.silence * self.config.advertise_every_ns
        for stream, since in list(self._unremembered.items()):
            state = self._states[stream]
            furthest = self._watch.furthest(stream)
            level = (state.epoch, state.end) >= furthest and state.end == state.taken
            waited = now - since > patience and self._watch.has_heard_of(stream)
            if self._is_head and waited and level:
                self._take_by_force(now, state, fx)

    def _outgrow(self, now: int, counter: Counter, fx: Effects) -> None:
        """Somebody who did not know yet has begun an epoch of its own: no subscriber may stay
        behind in it."""
        state = self._states[counter.stream]
        owned = self._publications.owns(state.id) and self._is_head
        if owned and counter.epoch > state.epoch:
            self._take_by_force(now, state, fx, counter.epoch)

    def _take_by_force(self, now: int, state: StreamState, fx: Effects, void: int = 0) -> None:
        known = self._ledger.tenures.get(state.id)
        term, epoch = (0, 0) if known is None else (known.term, known.epoch)
        heard, _ = self._watch.furthest(state.id)
        place = sorted(self._plan.regions).index(self._region_id)
        latest = max(state.epoch, epoch, heard, void)
        epoch = forced_epoch(now + fx.wall_offset, latest, place)
        tenure = Tenure(
            state.id, term + 1, self._region_id, epoch, state.epoch, state.taken, taken=True
        )
        if not self._publications.owns(state.id):
            self._sources.leave(now, state.id, fx)
        self._issue(now, tenure, fx)

    # -- looking inside --------------------------------------------------------------------------

    def owner_of(self, stream: int) -> tuple[str, int]:
        """The region that owns a stream, or will as soon as it has begun, and in which term."""
        tenure = self._ledger.tenures.get(stream)
        if tenure is None:
            return self._declared(stream).region, 0
        facts = self._plan.regions.get(tenure.owner)
        return facts.name if facts is not None else "", tenure.term

    def owns(self, stream: int) -> bool:
        """Whether this region numbers a stream."""
        return self._publications.owns(stream)

    def furthest(self, stream: int) -> tuple[int, int]:
        """Epoch and number up to which anybody has said to have a stream."""
        state = self._states[stream]
        return max((state.epoch, state.end), self._watch.furthest(stream))

    def alarms(self, now: int) -> list[Alarm]:
        lost = [
            Alarm(
                kind=AlarmKind.LOST, since=self._lost_at.get(loss.stream, now), stream=loss.stream,
                peer=loss.owner, behind=loss.count,
                detail=f"{loss.first} to {loss.last} of epoch {loss.epoch}",
            )
            for loss in self._ledger.losses
        ]  # fmt: skip
        return [*super().alarms(now), *lost]
