"""A proxy whose streams can be moved to another region: what people ask it for.

Asked to give a stream away, the owner waits until the other region is near, stops numbering, waits
until it has everything, and decides: a tenure of the other region, which counts from the moment it
is remembered here. It is told to everybody, and the other region takes the stream. Both end where
they were if either is started again. Publishers are told meanwhile that there is no room, and send
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from epicast.core import Effects, NodeId, Peer, handles
from epicast.deployment.access import Action
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.messages import Counter, Poll
from epicast.protocols.sprinkler.moving.handover import Handover, Stage
from epicast.protocols.sprinkler.moving.messages import (
    AcceptLoss,
    MoveOutcome,
    MoveReply,
    MoveRequest,
)
from epicast.protocols.sprinkler.moving.tenant import TenantProxy
from epicast.protocols.sprinkler.moving.tenure import Tenure
from epicast.protocols.sprinkler.permits import IsAgent, Permit, all_agents, permit_all
from epicast.protocols.sprinkler.plans import ProxyPlan, Status
from epicast.protocols.sprinkler.publications import Admission
from epicast.protocols.sprinkler.states import StreamState

_NEARS_WITHIN = 5
"""Times `handover_within_ns`: how long a region may take to catch up before the owner stops."""
_ASKS = 100
"""How often, in `handover_within_ns`, it is asked how far it is while the owner has stopped."""


class MovableProxy(TenantProxy):
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
        self._handovers: dict[int, Handover] = {}
        self._askers: dict[int, NodeId] = {}
        """Who waits for this region to own a stream."""

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        if name == "moving":
            self._tend(now, fx)
        else:
            super().on_deadline(now, name, fx)

    def on_appended(self, now: int, stream: int, seq: int, fx: Effects) -> None:
        super().on_appended(now, stream, seq, fx)
        if stream in self._handovers:
            self._tend(now, fx)

    def _heed(self, now: int, region: int, counters: Sequence[Counter], fx: Effects) -> None:
        super()._heed(now, region, counters, fx)
        if not self._handovers:
            return
        for counter in counters:
            handover = self._handovers.get(counter.stream)
            if handover is not None and handover.target == region:
                handover.heard = True
                if counter.epoch == self._states[counter.stream].epoch:
                    handover.reached = max(handover.reached, counter.seq)
        self._tend(now, fx)

    def _held_up(self, stream: int) -> str:
        handover = self._handovers.get(stream)
        if handover is not None and handover.stage is not Stage.NEARS:
            return "it is being handed over to another region"
        return super()._held_up(stream)

    def _on_tenure(self, now: int, tenure: Tenure, fx: Effects) -> None:
        self._end_handover(now, tenure, fx)
        self._answer_asker(tenure, fx)

    # -- what people ask for ---------------------------------------------------------------------

    @handles(MoveRequest)
    def _handle_move(self, now: int, source: NodeId, message: MoveRequest, fx: Effects) -> None:
        state = self._states.get(message.stream)
        if state is None:
            self._answer(source, message.stream, "there is no such stream here", fx)
            return
        target = self._region_named(message.region)
        refused = self._objection_to_move(source, state, target)
        if refused:
            self._answer(source, message.stream, refused, fx)
        elif message.force:
            self._force(now, source, state, target, fx)
        else:
            self._hand_over(now, source, state, target, fx)

    def _objection_to_move(self, source: NodeId, state: StreamState, target: int) -> str:
        refused = self._permit(source, Action.ADMIN, state.info)
        facts, level = self._plan.regions.get(target), state.info.level
        if refused:
            return refused
        if facts is None:
            return "there is no such region"
        if level != "memory" and not facts.durable:
            return (
                f"{state.info.name} promises {level!r}, and {facts.name} keeps nothing on disk: "
                "give that region a data folder first"
            )
        return ""

    def _region_named(self, name: str) -> int:
        return next((id for id, facts in self._plan.regions.items() if facts.name == name), 0)

    def _answer(
        self,
        to: NodeId,
        stream: int,
        detail: str,
        fx: Effects,
        outcome: MoveOutcome = MoveOutcome.REFUSED,
        tenure: Tenure | None = None,
    ) -> None:
        place = (0, 0) if tenure is None else (tenure.epoch, tenure.since)
        fx.send_after_append(to, MoveReply(stream, outcome, detail, *place))

    def _force(self, now: int, asker: NodeId, state: StreamState, target: int, fx: Effects) -> None:
        if target != self._region_id or not self._is_head:
            detail = "the region that is to have the stream has to be asked, at its head"
            self._answer(asker, state.id, detail, fx, MoveOutcome.ELSEWHERE)
        elif self._publications.owns(state.id):
            self._answer(asker, state.id, f"{state.info.region} owns it already", fx)
        else:
            self._askers[state.id] = asker
            self._take_by_force(now, state, fx)

    @handles(AcceptLoss)
    def _handle_accept_loss(
        self, now: int, source: NodeId, message: AcceptLoss, fx: Effects
    ) -> None:
        state = self._states.get(message.stream)
        refused = "there is no such stream here"
        if state is not None:
            refused = self._permit(source, Action.ADMIN, state.info)
        if not refused and self._ledger.accept_losses(message.stream):
            self._ledger.save(fx)
        outcome = MoveOutcome.REFUSED if refused else MoveOutcome.DONE
        self._answer(source, message.stream, refused, fx, outcome)

    def _answer_asker(self, tenure: Tenure, fx: Effects) -> None:
        asker = self._askers.pop(tenure.stream, 0)
        if asker and tenure.owner == self._region_id:
            self._answer(asker, tenure.stream, "", fx, MoveOutcome.DONE, tenure)
        elif asker:
            self._answer(asker, tenure.stream, "another region was faster", fx)

    # -- handing over ----------------------------------------------------------------------------

    def _hand_over(
        self, now: int, asker: NodeId, state: StreamState, target: int, fx: Effects
    ) -> None:
        stream, there = state.id, self._plan.regions[target].name
        if target == self._region_id and self._publications.owns(stream):
            self._answer(asker, stream, f"{there} owns it already", fx)
        elif not self._publications.owns(stream) or not self._is_head:
            detail = f"{state.info.region} owns it: ask there, at the head"
            if self._ledger.waits(stream):
                detail = self._ledger.waits(stream)
            self._answer(asker, stream, detail, fx, MoveOutcome.ELSEWHERE)
        elif stream in self._handovers:
            self._answer(asker, stream, "it is being handed over already", fx)
        elif not self._nodes_of(target):
            detail = f"{there} cannot be reached from {self._plan.region} at the moment"
            self._answer(asker, stream, detail, fx)
        else:
            deadline = now + _NEARS_WITHIN * self.config.handover_within_ns
            self._handovers[stream] = Handover(stream, target, asker, state.end, deadline)
            fx.send(self._nodes_of(target), Poll(now))
            self._tend(now, fx)

    def _nodes_of(self, region: int) -> list[NodeId]:
        return [node for node in self._connected if self._region_of(node) == region]

    def _tend(self, now: int, fx: Effects) -> None:
        """See how far the handovers are."""
        for handover in list(self._handovers.values()):
            state = self._states[handover.stream]
            if handover.stage is Stage.NEARS and handover.has(handover.mark):
                handover.advance(Stage.STOPPED, now + self.config.handover_within_ns)
            if handover.stage is Stage.STOPPED:
                if state.end == state.taken and handover.has(state.end):
                    self._give(now, handover, state, fx)
                elif now <= handover.deadline and self._nodes_of(handover.target):
                    fx.send(self._nodes_of(handover.target), Poll(now))
            if now > handover.deadline:
                self._give_up(now, handover, fx)
        if self._handovers:
            self.timers.set("moving", now + max(1, self.config.handover_within_ns // _ASKS))

    def _give(self, now: int, handover: Handover, state: StreamState, fx: Effects) -> None:
        known = self._ledger.tenures.get(state.id)
        tenure = Tenure(
            state.id, 1 if known is None else known.term + 1, handover.target, state.epoch,
            state.epoch, state.end, taken=False, giver=self._region_id,
        )  # fmt: skip
        handover.advance(Stage.GIVEN, now + self.config.handover_within_ns)
        self._issue(now, tenure, fx)

    def _give_up(self, now: int, handover: Handover, fx: Effects) -> None:
        """The other region takes too long."""
        state = self._states[handover.stream]
        there = self._plan.regions[handover.target].name
        tenure = self._ledger.tenures.get(handover.stream)
        if handover.stage is Stage.GIVEN:
            if tenure is None or tenure.giver != self._region_id:
                return  # it is not known yet whether it was decided
            detail = (
                f"{there} has everything and was given the stream, but does not answer; it takes "
                "it as soon as it hears of that, and publications wait until then"
            )
            self._stop_handover(handover, detail, fx, MoveOutcome.GIVEN)
            return
        behind = max(0, state.end - handover.reached)
        detail = (
            f"{there} does not answer"
            if not handover.heard
            else f"{there} is {behind} events behind and does not catch up: wait until it is near"
        )
        self._stop_handover(handover, f"{detail}. {self._plan.region} still owns it", fx)
        self._call_publishers(fx)

    def _stop_handover(
        self,
        handover: Handover,
        detail: str,
        fx: Effects,
        outcome: MoveOutcome = MoveOutcome.REFUSED,
    ) -> None:
        del self._handovers[handover.stream]
        tenure = self._ledger.tenures.get(handover.stream)
        self._answer(handover.asker, handover.stream, detail, fx, outcome, tenure)

    def _end_handover(self, now: int, tenure: Tenure, fx: Effects) -> None:
        """There is a new tenure: the one that was wanted, or another."""
        handover = self._handovers.get(tenure.stream)
        if handover is None or (tenure.giver == self._region_id and not tenure.taken):
            return
        if tenure.giver == self._region_id and tenure.owner == handover.target:
            self._stop_handover(handover, "", fx, MoveOutcome.DONE)
        else:
            self._stop_handover(handover, "another region has taken it by force", fx)
