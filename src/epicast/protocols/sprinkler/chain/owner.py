"""Streams that change hands, where who owns them is a chain: the chain has to agree."""

from __future__ import annotations

from abc import abstractmethod

from epicast.core import Effects, NodeId
from epicast.protocols.sprinkler.chain.configuration import MOST_TENURES
from epicast.protocols.sprinkler.chain.keeper import Keeper
from epicast.protocols.sprinkler.chain.links import ChainLinks
from epicast.protocols.sprinkler.moving.handover import Handover
from epicast.protocols.sprinkler.moving.messages import MoveOutcome
from epicast.protocols.sprinkler.moving.proxy import MovableProxy
from epicast.protocols.sprinkler.moving.tenure import Tenure
from epicast.protocols.sprinkler.states import StreamState


class ChainedOwner(MovableProxy):
    _keeper: Keeper
    _links: ChainLinks
    _wanted: dict[int, Tenure]
    """What the chain is to agree on, by stream."""

    @abstractmethod
    def _number_from_here(self, state: StreamState, epoch: int) -> None:
        """This replica, head since `epoch` of the chain, gives out what follows."""

    @abstractmethod
    def _save_lineages(self, fx: Effects) -> None: ...

    def _issue(self, now: int, tenure: Tenure, fx: Effects) -> None:
        """It is decided once it is part of the configuration: so every later head knows."""
        self._wanted.setdefault(tenure.stream, tenure)
        self._propose_tenures(now, fx)

    def _objection_to_move(self, source: NodeId, state: StreamState, target: int) -> str:
        moved = {tenure.stream for tenure in self._keeper.chain.tenures}
        if len(moved) >= MOST_TENURES and state.id not in moved:
            return f"a region that is a chain moves {MOST_TENURES} different streams at most"
        return super()._objection_to_move(source, state, target)

    def _propose_tenures(self, now: int, fx: Effects) -> None:
        for stream, tenure in list(self._wanted.items()):
            if not self._ledger.is_news(tenure):
                del self._wanted[stream]
            elif self._is_head and not self._keeper.proposes:
                self._keeper.propose(now, self._keeper.chain.with_tenure(tenure), fx)

    def _adopt_tenures(self, now: int, fx: Effects) -> None:
        """What the chain has agreed on."""
        for tenure in self._keeper.chain.tenures:
            known = self._ledger.tenures.get(tenure.stream)
            heard_of = known == tenure and not self._ledger.remembers(tenure)
            if tenure.stream in self._states and (self._ledger.is_news(tenure) or heard_of):
                self._adopt(now, tenure, fx, remembered=True)

    def _begin_to_own(self, now: int, state: StreamState, tenure: Tenure, fx: Effects) -> None:
        super()._begin_to_own(now, state, tenure, fx)
        if self._is_head and self._links.is_head:
            self._number_from_here(state, self._keeper.chain.epoch)
            self._save_lineages(fx)

    def _relabel(self, state: StreamState, epoch: int, fx: Effects) -> None:
        super()._relabel(state, epoch, fx)
        self._links.epoch_changed(state, fx)

    def _give_up(self, now: int, handover: Handover, fx: Effects) -> None:
        wanted = self._wanted.get(handover.stream)
        if wanted is not None and self._ledger.is_news(wanted):
            if self._keeper.proposes:
                return  # it may be decided already
            del self._wanted[handover.stream]
            self._stop_handover(handover, "the coordination service does not answer", fx)
            self._call_publishers(fx)
        else:
            super()._give_up(now, handover, fx)

    def _leave_moves_to_others(self, fx: Effects) -> None:
        self._wanted.clear()
        for handover in list(self._handovers.values()):
            detail = "another replica is the head now; `epicast status` shows who owns it"
            self._stop_handover(handover, detail, fx)
        for stream, asker in self._askers.items():
            detail = "another replica is the head now: ask again"
            self._answer(asker, stream, detail, fx, MoveOutcome.ELSEWHERE)
        self._askers.clear()
