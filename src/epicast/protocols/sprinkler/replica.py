"""A proxy that is one of several replicas, in a chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

import msgspec

from epicast.core import COORDINATION_ID, Effects, EventBatch, NodeId, Peer, Recovered, handles
from epicast.core.epochs import new_epoch
from epicast.protocols.coordination import PutAnswer, View
from epicast.protocols.sprinkler.alarms import Alarm
from epicast.protocols.sprinkler.chain.configuration import ChainConfig, ChainPlan, Member
from epicast.protocols.sprinkler.chain.keeper import Keeper
from epicast.protocols.sprinkler.chain.lineage import VOID, Lineage, begun
from epicast.protocols.sprinkler.chain.links import READS, ChainLinks
from epicast.protocols.sprinkler.chain.messages import (
    Beat,
    Dismissed,
    Link,
    Linked,
    Place,
    Progress,
)
from epicast.protocols.sprinkler.chain.owner import ChainedOwner
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.messages import (
    Advertisement,
    Attach,
    Poll,
    Request,
    Subscribe,
)
from epicast.protocols.sprinkler.permits import IsAgent, Permit, all_agents, permit_all
from epicast.protocols.sprinkler.plans import ProxyPlan, Status
from epicast.protocols.sprinkler.publications import Admission
from epicast.protocols.sprinkler.standing import COORDINATION, REPLICA, Part
from epicast.protocols.sprinkler.states import StreamState

_LINEAGES = "lineages"
_DOUBTS = "doubts"

Witness = Callable[[int, int, Sequence[EventBatch], bool], None]
"""Told of a stream of the region, before anybody else is, how far it may be shown from now on; the
batches that may be since the last time, as far as they are at hand; and whether this is news, which
it is at the tail, or it heard of it from others."""


def nobody(stream: int, end: int, shown: Sequence[EventBatch], news: bool) -> None:
    """Where there is no witness."""


class ReplicaProxy(ChainedOwner):
    """Does a proxy's work together with the other replicas of its region.

    The head numbers publications and follows other regions, the tail speaks to them; whoever is in
    the chain serves those attached to it, as far as the chain lets it see.
    """

    def __init__(
        self,
        node: Peer,
        config: ProxyConfig,
        rng: Random,
        *,
        plan: ProxyPlan,
        chain: ChainPlan,
        admit: Admission | None = None,
        permit: Permit = permit_all,
        status: Status = bytes,
        is_agent: IsAgent = all_agents,
        witness: Witness = nobody,
    ) -> None:
        super().__init__(
            node, config, rng, plan=plan, admit=admit, permit=permit, status=status,
            is_agent=is_agent,
        )  # fmt: skip
        self._witness = witness
        self._replicas = {peer.id: peer for peer in chain.replicas if peer.id != node.id}
        self._no_agents = self._others | self._replicas
        self._keeper = Keeper(node, config, chain)
        self._links = ChainLinks(self._region_id, config, self._states)
        self._wanted = {}
        self._is_head = False
        self._doubtful: dict[int, int] = {}
        """Streams of which this replica may have lost what others had seen, and in which epoch."""
        self._forgetting: set[int] = set()
        """Streams whose history is being replaced. That may fail, or end half done: until something
        is stored again, nothing is known of it."""

    # -- life ------------------------------------------------------------------------------------

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        super().on_start(now, contacts, recovered, fx)
        self._links = ChainLinks(self._region_id, self.config, self._states)
        self._recall_doubts(recovered, fx)
        if _LINEAGES in recovered.saved:
            saved = msgspec.msgpack.decode(recovered.saved[_LINEAGES], type=dict[int, Lineage])
            self._links.lineages = saved
        for peer in self._replicas.values():
            fx.connect(peer)
        self._keeper.start(now, recovered, fx)
        self.timers.set("beat", now + int(self.rng.random() * self.config.beat_every_ns))

    def _recall_doubts(self, recovered: Recovered, fx: Effects) -> None:
        """Of what was lost once, files that are opened a second time say nothing any more. Where
        another epoch has begun since, there is nothing to doubt."""
        saved = recovered.saved.get(_DOUBTS)
        noted = msgspec.msgpack.decode(saved, type=dict[int, int]) if saved is not None else {}
        epochs = recovered.epochs
        self._doubtful = {s: epoch for s, epoch in noted.items() if epochs.get(s, 0) <= epoch}
        self._keep_doubts(self._doubtful | {s: epochs[s] for s in recovered.doubtful}, fx)

    def _keep_doubts(self, doubtful: dict[int, int], fx: Effects) -> None:
        if doubtful != self._doubtful:
            self._doubtful = doubtful
            fx.save(_DOUBTS, msgspec.msgpack.encode(doubtful))

    def _first_epoch(self, recovered: Recovered) -> int:
        return 0  # the head will say

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        if name == "beat":
            self.timers.set("beat", now + self.config.beat_every_ns)
            self._keeper.tick(now, fx)
            self._links.introduce(self._keeper.incarnation, fx)
            self._links.cursors.retry(fx)
            self._admit_newcomer(now, fx)
            self._propose_tenures(now, fx)
        elif name == "decide":
            self._keeper.tick(now, fx)
        elif name == "meet":
            for peer in self._replicas.values():
                if not self._keeper.is_up(peer.id):
                    fx.connect(peer)
        elif name == "read":
            self._links.cursors.retry_reads(fx)
            super().on_deadline(now, name, fx)
        else:
            super().on_deadline(now, name, fx)

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        if peer in self._replicas:
            self._keeper.peer_up(peer)
            self._links.introduce(self._keeper.incarnation, fx)
        else:
            super().on_peer_up(now, peer, fx)

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        super().on_peer_down(now, peer, fx)
        if peer in self._replicas:
            self._keeper.peer_down(now, peer)
            self._links.lost(peer)
            below = self._links.below
            if below is not None and below.peer == peer and not self._keeper.proposes:
                self._links.give_up_newcomer()
            self.timers.set("meet", now + self.config.beat_every_ns)
            self.timers.set("decide", now + self.config.broken_after_ns + 1)

    def on_ready(self, now: int, peer: NodeId, room: int, fx: Effects) -> None:
        super().on_ready(now, peer, room, fx)
        self._links.cursors.ready(peer, fx)

    def on_read(self, now: int, token: int, batches: Sequence[EventBatch], fx: Effects) -> None:
        if token % 4 != READS:
            super().on_read(now, token, batches, fx)
        elif not self._links.cursors.on_read(token, batches, fx):
            self.timers.set("read", now + self.config.read_retry_ns)

    # -- the chain -------------------------------------------------------------------------------

    @handles(View)
    def _handle_view(self, now: int, source: NodeId, message: View, fx: Effects) -> None:
        if self._keeper.on_view(now, message, fx):
            self._rearrange(now, fx)

    @handles(PutAnswer)
    def _handle_put(self, now: int, source: NodeId, message: PutAnswer, fx: Effects) -> None:
        if self._keeper.on_put(now, message, fx):
            self._rearrange(now, fx)

    @handles(Beat)
    def _handle_beat(self, now: int, source: NodeId, message: Beat, fx: Effects) -> None:
        self._keeper.heard(now, source, message, fx)

    def _rearrange(self, now: int, fx: Effects) -> None:
        """The chain has changed: take up this replica's place in it."""
        chain, place = self._keeper.chain, self._keeper.place
        before = successor = 0
        if place is not None:
            before = chain.members[place - 1].id if place else 0
            successor = chain.members[place + 1].id if place + 1 < len(chain.members) else 0
        elif chain.place_of(self.node.id) is None:
            before = chain.tail  # who is still listed may have to go on alone, and must not forget
        self._links.rearrange(chain.epoch, before, successor, is_member=place is not None)
        self._publications.is_alone = len(chain.members) == 1
        if place is not None and not self._is_alone():
            self._keep_doubts({}, fx)  # it was let in with all that was ever shown
        self._adopt_tenures(now, fx)
        if self._links.is_head and not self._is_head:
            self._become_head(now, chain.epoch, fx)
        elif self._is_head and not self._links.is_head:
            self._stop_being_head(now, fx)
        if place is None:
            self._dismiss(fx)
        else:
            self._relays.call_back(list(self._attached), fx)
            self._vouch()
        self._links.introduce(self._keeper.incarnation, fx)
        for state in self._states.values():
            self._show(now, state, self._links.reach(state), fx)
        self._advertise(list(self._connected), fx)

    def _vouch(self) -> None:
        """What a replica had when it was started may be shown once it is a member."""
        for state in self._states.values():
            self._on_shown(state, ())

    def _on_shown(self, state: StreamState, shown: Sequence[EventBatch]) -> None:
        if state.info.owner == self._region_id:
            self._witness(state.id, state.end, shown, self._links.is_tail)

    def _become_head(self, now: int, epoch: int, fx: Effects) -> None:
        self._is_head = True
        for state in self._states.values():
            if state.info.owner != self._region_id:
                continue
            self._begin_epoch_of_tenure(state, fx)
            if state.epoch == 0 or (state.id in self._doubtful and self._is_alone()):
                self._raise_epoch(now, state, fx)
            self._number_from_here(state, epoch)
        # The note of those that go on in a new epoch is void once that is on the disk.
        owned = self._publications.owns
        self._keep_doubts({s: epoch for s, epoch in self._doubtful.items() if owned(s)}, fx)
        self._doubtful = {}
        self._save_lineages(fx)

    def _number_from_here(self, state: StreamState, epoch: int) -> None:
        before = self._links.lineages.get(state.id, ())
        self._links.lineages[state.id] = begun(before, epoch, state.taken + 1)

    def _is_alone(self) -> bool:
        """What this replica has lost, nobody has."""
        return len(self._keeper.chain.members) == 1

    def _raise_epoch(self, now: int, state: StreamState, fx: Effects) -> None:
        """An epoch that no head before has used."""
        by_the_clock = new_epoch(now + fx.wall_offset)
        state.epoch = max(state.epoch + 1, by_the_clock, self._keeper.chain.epoch)
        fx.begin_epoch(state.id, state.epoch, keeps=True)
        self._publications.begin_epoch(state.id)
        state.recent.clear()
        self._cursors.epoch_changed(state, fx)

    def _stop_being_head(self, now: int, fx: Effects) -> None:
        self._is_head = False
        self._leave_moves_to_others(fx)
        self._publications.retire(fx)
        for stream, state in self._states.items():
            if state.info.owner != self._region_id:
                self._sources.leave(now, stream, fx)

    def _save_lineages(self, fx: Effects) -> None:
        lineages = {
            stream: VOID if stream in self._forgetting else lineage
            for stream, lineage in self._links.lineages.items()
        }
        fx.save(_LINEAGES, msgspec.msgpack.encode(lineages))

    # -- neighbours in the chain -----------------------------------------------------------------

    def _is_of_now(self, now: int, source: NodeId, epoch: int, fx: Effects) -> bool:
        """Whether a replica speaks of the same chain."""
        if epoch != self._keeper.chain.epoch:
            self._keeper.outdated(now, source, epoch, fx)
            return False
        return True

    @handles(Link)
    def _handle_link(self, now: int, source: NodeId, message: Link, fx: Effects) -> None:
        if not self._is_of_now(now, source, message.epoch, fx):
            return
        if self._keeper.proposes and source != self._links.successor:
            return  # the newcomer proposed must not be taken for one that begins anew
        if self._links.has_strayed(source, message):
            # It may be the only one who has what was shown: it stays as it is, but not a member.
            fx.drop("a successor with another history", source)
            self._keeper.propose(now, self._keeper.chain.without(source), fx)
        else:
            self._links.meet(source, message, fx)

    @handles(Linked)
    def _handle_linked(self, now: int, source: NodeId, message: Linked, fx: Effects) -> None:
        if not self._is_of_now(now, source, message.epoch, fx):
            return
        for place in self._links.accept(source, message):
            self._take_place(place, fx)
        if self._links.linked:
            self._save_lineages(fx)
            self._links.report(list(self._states.values()), fx)
            self._links.meet_waiting(fx)

    def _take_place(self, place: Place, fx: Effects) -> None:
        state = self._states[place.stream]
        owned = state.info.owner == self._region_id
        if place.afresh or state.id in self._forgetting:
            fx.begin_epoch(state.id, place.epoch, keeps=False)
            self._begin_epoch(state, place.epoch, fx)
            if owned:
                self._publications.start_over(state.id)
            self._forgetting.add(state.id)
        if owned:
            self._links.lineages[state.id] = place.lineage

    @handles(Progress)
    def _handle_progress(self, now: int, source: NodeId, message: Progress, fx: Effects) -> None:
        if not self._is_of_now(now, source, message.epoch, fx):
            return
        for state in self._links.heed(source, message, fx):
            self._show_and_tell(now, state, fx)
        self._admit_newcomer(now, fx)

    def _show_and_tell(self, now: int, state: StreamState, fx: Effects) -> bool:
        before = state.end
        self._show(now, state, self._links.reach(state), fx)
        if state.end > before:
            self._links.report([state], fx)
        return state.end > before

    def _admit_newcomer(self, now: int, fx: Effects) -> None:
        """Make who has caught up a member."""
        since = self._links.hands_over_since
        if self._keeper.proposes:
            return
        if since is not None and now - since > self.config.handover_within_ns:
            assert self._links.below is not None
            fx.send(self._links.below.peer, Dismissed("it takes too long to catch up"))
            self._links.give_up_newcomer()
            for state in self._states.values():
                self._show_and_tell(now, state, fx)
            return
        newcomer = self._links.newcomer(now)
        if newcomer is not None:
            chain = self._keeper.chain
            member = Member(newcomer.peer, newcomer.incarnation)
            self._keeper.propose(now, chain.changed((*chain.members, member)), fx)

    # -- what a proxy does, as far as the chain lets it ------------------------------------------

    def _on_stored(
        self, now: int, state: StreamState, stored: Sequence[EventBatch], fx: Effects
    ) -> None:
        self._keeper.ailing = False
        if state.id in self._forgetting:
            self._forgetting.discard(state.id)
            self._save_lineages(fx)
        self._links.send_stored(state, stored, fx)
        if not self._links.is_member:
            state.forget_hidden(self.config.window_bytes)  # who catches up may get everything
        if not self._show_and_tell(now, state, fx):
            self._links.report_stored(state, stored, fx)

    def _show(self, now: int, state: StreamState, seq: int, fx: Effects) -> None:
        """What is shown will stay, so it may collect what it does. What is not may be lost with the
        head, and must not have collected anything then. A replica that is not in the chain shows
        all it has when it is let in, or forgets all of it."""
        super()._show(now, state, seq, fx)
        fx.release(state.id, state.end if self._links.is_member else state.stored)

    def _source_of(self, stream: int) -> NodeId:
        if self._links.predecessor:
            return self._links.predecessor if self._links.linked else 0
        return super()._source_of(stream)

    def _part_of(self, peer: NodeId) -> Part:
        if peer in self._replicas:
            return REPLICA
        return COORDINATION if peer == COORDINATION_ID else super()._part_of(peer)

    def _are_no_agents(self) -> Mapping[NodeId, Peer]:
        return self._no_agents

    def _ask_again(self, stream: int, fx: Effects) -> None:
        if self._links.predecessor:
            self._links.linked = False
            self._links.introduce(self._keeper.incarnation, fx)
        else:
            super()._ask_again(stream, fx)

    def _have_from_others(self, now: int, stream: int, problem: str, fx: Effects) -> None:
        if self._links.predecessor:
            self._links.linked = False  # to be sent it again, when the next beat is due
            self._watch.not_stored(now, stream, problem)
        else:
            super()._have_from_others(now, stream, problem, fx)

    def _on_taken(self, batch: EventBatch) -> None:
        super()._on_taken(batch)
        if self._publications.owns(batch.stream):
            self._publications.observe(batch)

    def _begin_epoch(self, state: StreamState, epoch: int, fx: Effects) -> None:
        super()._begin_epoch(state, epoch, fx)
        self._links.epoch_changed(state, fx)

    def on_append_failed(self, now: int, stream: int, first: int, reason: str, fx: Effects) -> None:
        super().on_append_failed(now, stream, first, reason, fx)
        if self._links.predecessor:
            self._links.linked = False  # to be sent it again
        self._keeper.ailing = True

    def _report_consumed(
        self, state: StreamState, shown: Sequence[EventBatch], fx: Effects
    ) -> None:
        if self._is_head:
            super()._report_consumed(state, shown, fx)

    def _ways_to_owner(self, state: StreamState) -> Iterable[NodeId]:
        if state.info.owner == self._region_id:
            head = self._keeper.chain.head
            return (head,) if self._keeper.is_up(head) else ()
        return super()._ways_to_owner(state)

    def _advertise(self, to: list[NodeId], fx: Effects) -> None:
        if to and self._links.is_tail:
            fx.send(to, Advertisement(self._counters(), chain=self._keeper.chain.epoch))

    @handles(Dismissed)
    def _handle_dismissed(self, now: int, source: NodeId, message: Dismissed, fx: Effects) -> None:
        """The tail cannot wait any longer for this replica to catch up."""
        if source == self._links.predecessor and not self._links.is_member:
            self._links.linked = False

    def _handle_poll(self, now: int, source: NodeId, message: Poll, fx: Effects) -> None:
        if source not in self._others:
            super()._handle_poll(now, source, message, fx)
        elif self._links.is_tail:
            chain = self._keeper.chain.epoch
            fx.send(source, Advertisement(self._counters(), message.asked_at, chain))

    # -- those who are attached ------------------------------------------------------------------

    def _handle_attach(self, now: int, source: NodeId, message: Attach, fx: Effects) -> None:
        if self._links.is_member:
            super()._handle_attach(now, source, message, fx)
        else:
            fx.send(source, Dismissed("this replica is not in the chain at the moment"))

    def _handle_subscribe(self, now: int, source: NodeId, message: Subscribe, fx: Effects) -> None:
        # Outside the chain it is not known what of this history may be shown.
        if self._links.is_member:
            super()._handle_subscribe(now, source, message, fx)

    def _handle_request(self, now: int, source: NodeId, message: Request, fx: Effects) -> None:
        if self._links.is_member:
            super()._handle_request(now, source, message, fx)

    def _dismiss(self, fx: Effects) -> None:
        """Those attached find a replica that is in the chain."""
        for peer in self._attached:
            fx.send(peer, Dismissed("this replica has left the chain"))

    # -- looking inside --------------------------------------------------------------------------

    @property
    def is_member(self) -> bool:
        return self._links.is_member

    @property
    def proposed_chain(self) -> ChainConfig | None:
        """What it has asked for, and has no answer yet."""
        return self._keeper.proposed

    def alarms(self, now: int) -> list[Alarm]:
        return [*super().alarms(now), *self._keeper.alarms(now)]

    def statistics(self) -> Mapping[str, int | float]:
        return {
            **super().statistics(),
            "chain_epoch": self._keeper.chain.epoch,
            "chain_length": len(self._keeper.chain.members),
            "chain_place": -1 if self._keeper.place is None else self._keeper.place,
        }
