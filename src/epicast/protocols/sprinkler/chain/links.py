"""Events down the chain, and word of what is stored back up.

A successor is a subscriber that may see what is stored, not only what may be shown; so what it has
missed comes again by itself. It introduces itself with how far it is, and is told from where on it
is sent events, or that what it has is not what the chain has.

Who wants to join is a subscriber of the tail, too. Once everything was sent to it, the tail shows
only what the newcomer has as well; once the newcomer has all that was ever shown, the tail proposes
the chain with the newcomer at its end. So there is no moment in which something is shown that a
member does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from epicast.core import DATA, Effects, EventBatch, NodeId
from epicast.protocols.sprinkler.chain.lineage import VOID, Lineage, common_end
from epicast.protocols.sprinkler.chain.messages import Link, Linked, Place, Progress
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.cursors import Cursors
from epicast.protocols.sprinkler.messages import Consumed, Counter, Subscribe
from epicast.protocols.sprinkler.states import StreamState, stored_end

READS = 2
"""Tokens of reads for successors, modulo 4."""


class Downstream:
    """The successor, or who wants to be it: how far it is, by stream."""

    __slots__ = ("ahead", "incarnation", "peer", "shown", "stored")

    def __init__(self, peer: NodeId, incarnation: int) -> None:
        self.peer = peer
        self.incarnation = incarnation
        self.stored: dict[int, int] = {}
        self.shown: dict[int, int] = {}
        self.ahead: dict[int, Counter] = {}
        """Of streams of which it knows a newer epoch than this replica."""


class ChainLinks:
    def __init__(self, region: int, config: ProxyConfig, states: Mapping[int, StreamState]) -> None:
        self._region = region
        self._config = config
        self._states = states
        self._numbers = {stream: at for at, stream in enumerate(states, 1)}
        self.cursors = Cursors(config, states, stored_end, READS)
        self.lineages: dict[int, Lineage] = {}
        """Of the region's own streams: who has numbered what."""
        self.epoch = 0
        self.predecessor: NodeId = 0
        """Whom events come from: in the chain, or, to join it, from its tail."""
        self.linked = False
        """The predecessor has answered."""
        self.successor: NodeId = 0
        self.is_member = False
        self.below: Downstream | None = None
        """The successor, or, where there is none, who wants to join; once it has introduced
        itself."""
        self.hands_over_since: int | None = None
        self._waiting: tuple[NodeId, Link] | None = None
        self._unreported: dict[int, int] = {}
        """Bytes stored since the predecessor was told, by stream."""

    # -- places in the chain ---------------------------------------------------------------------

    def rearrange(
        self, epoch: int, predecessor: NodeId, successor: NodeId, *, is_member: bool
    ) -> None:
        """The chain has changed: everybody introduces themselves anew."""
        if self.below is not None:
            self.cursors.forget(self.below.peer)
        self.epoch, self.is_member = epoch, is_member
        self.predecessor, self.successor = predecessor, successor
        self.linked = False
        self.below = None
        self.hands_over_since = None
        self._waiting = None
        self._unreported.clear()

    @property
    def is_head(self) -> bool:
        return self.is_member and not self.predecessor

    @property
    def is_tail(self) -> bool:
        return self.is_member and not self.successor

    def reach(self, state: StreamState) -> int:
        """How far a stream may be shown, as far as the rest of the chain goes."""
        below = self.below
        if not self.is_member:
            return state.end
        if self.successor:
            return below.shown.get(state.id, 0) if below is not None else state.end
        if below is not None and self.hands_over_since is not None:
            return below.stored.get(state.id, 0)
        return state.stored

    def lost(self, peer: NodeId) -> None:
        """The connection to a replica broke."""
        self.cursors.forget(peer)
        if peer == self.predecessor:
            self.linked = False
        if self._waiting is not None and self._waiting[0] == peer:
            self._waiting = None
        if self.below is not None and self.below.peer == peer and self.successor:
            self.below = None  # who wants to join may have been proposed: the caller knows

    # -- to the predecessor ----------------------------------------------------------------------

    def introduce(self, incarnation: int, fx: Effects) -> None:
        """Ask the predecessor for what follows, unless it has answered."""
        if not self.predecessor or self.linked:
            return
        if any(state.stored < state.taken for state in self._states.values()):
            return  # until it is known how far this history is
        places = tuple(map(self.place, self._states.values()))
        fx.send(self.predecessor, Link(self.epoch, incarnation, places), DATA)

    def place(self, state: StreamState, *, doubtful: bool = False) -> Place:
        """How far a history is here."""
        lineage = self.lineages.get(state.id, ())
        return Place(state.id, state.epoch, state.stored, lineage, doubtful)

    def own_from(self, state: StreamState, there: Place) -> int:
        """The first number of which this history has an event of its own, where another one takes
        its place: it may be the only one who has it. 0: there is none."""
        lineage = self.lineages.get(state.id, ())
        common = common_end(lineage, state.stored, there.lineage, state.stored)
        return common + 1 if lineage != VOID and common < state.stored else 0

    def accept(self, source: NodeId, message: Linked) -> Iterable[Place]:
        """The predecessor's answer: what it says of streams known here."""
        if source != self.predecessor or message.epoch != self.epoch or self.linked:
            return ()
        self.linked = True
        return [place for place in message.places if place.stream in self._states]

    def report_stored(self, state: StreamState, batches: Sequence[EventBatch], fx: Effects) -> None:
        """Make room for more. Where there is a successor, that can wait until there is news of
        what may be shown."""
        if not self.predecessor or not self.linked:
            return
        size = self._unreported.get(state.id, 0) + sum(batch.wire_size() for batch in batches)
        self._unreported[state.id] = size
        if not self.successor or size >= self._config.window_bytes // 8:
            self.report([state], fx)

    def report(self, states: Sequence[StreamState], fx: Effects) -> None:
        if self.predecessor and self.linked:
            for state in states:
                self._unreported[state.id] = 0
            stored = tuple(Counter(s.id, s.epoch, s.stored) for s in states)
            shown = tuple(s.counter for s in states) if self.is_member else ()
            fx.send(self.predecessor, Progress(self.epoch, stored, shown))

    # -- to the successor ------------------------------------------------------------------------

    def meet(self, source: NodeId, message: Link, fx: Effects) -> None:
        """The successor introduces itself, or somebody who wants to be it."""
        if source != self.successor and not self._may_join(source):
            return
        if self.predecessor and not self.linked:
            self._waiting = (source, message)  # what the predecessor says may change the answer
            return
        if self.below is not None:
            self.cursors.forget(self.below.peer)
        self.below = Downstream(source, message.incarnation)
        for place in message.places:
            self._note_ahead(Counter(place.stream, place.epoch, place.end))
        self.hands_over_since = None
        answers = [
            self._answer(self._states[place.stream], place)
            for place in message.places
            if place.stream in self._states
        ]
        fx.send(source, Linked(self.epoch, tuple(answers)), DATA)
        for place in answers:
            wanted = Subscribe(
                self._numbers[place.stream], place.stream, place.epoch, place.end,
                self._config.window_bytes,
            )  # fmt: skip
            self.cursors.subscribe(source, wanted, fx)

    def has_strayed(self, source: NodeId, message: Link) -> bool:
        """Whether a member would have to forget what it has."""
        return source == self.successor and any(
            place.epoch == self._states[place.stream].epoch
            and self._answer(self._states[place.stream], place).afresh
            for place in message.places
            if place.stream in self._states
        )

    def _may_join(self, source: NodeId) -> bool:
        if not self.is_tail:
            return False
        return self.below is None or self.below.peer == source

    def meet_waiting(self, fx: Effects) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self.meet(*waiting, fx)

    def _answer(self, state: StreamState, place: Place) -> Place:
        lineage = self.lineages.get(state.id, ())
        if place.epoch > state.epoch:
            return Place(state.id, place.epoch, place.end, lineage)  # this chain will hear of it
        same = place.epoch == state.epoch
        if same and state.info.owner == self._region:
            same = place.end <= common_end(lineage, state.stored, place.lineage, place.end)
        afresh = not same and (place.end > 0 or place.epoch != state.epoch)
        return Place(state.id, state.epoch, place.end if same else 0, lineage, afresh)

    def send_stored(self, state: StreamState, batches: Sequence[EventBatch], fx: Effects) -> None:
        if self.below is not None:
            self.cursors.exposed(state, batches, fx)

    def heed(self, source: NodeId, message: Progress, fx: Effects) -> list[StreamState]:
        """Word from below: the streams of which more may be shown now."""
        below = self.below
        if below is None or below.peer != source or message.epoch != self.epoch:
            return []
        touched: dict[int, StreamState] = {}
        for counter in message.stored:
            state = self._of_this_epoch(counter)
            if state is not None:
                below.stored[state.id] = counter.seq
                touched[state.id] = state
                number = self._numbers[state.id]
                self.cursors.handle_consumed(
                    source, Consumed(number, counter.epoch, counter.seq), fx
                )
            else:
                self._note_ahead(counter)
        for counter in message.shown:
            state = self._of_this_epoch(counter)
            if state is not None:
                below.shown[state.id] = counter.seq
                touched[state.id] = state
        return list(touched.values())

    def _of_this_epoch(self, counter: Counter) -> StreamState | None:
        state = self._states.get(counter.stream)
        return state if state is not None and state.epoch == counter.epoch else None

    def _note_ahead(self, counter: Counter) -> None:
        state = self._states.get(counter.stream)
        if self.below is not None and state is not None and counter.epoch > state.epoch:
            self.below.ahead[counter.stream] = counter

    def epoch_changed(self, state: StreamState, fx: Effects) -> None:
        if self.below is not None:
            self.below.stored.pop(state.id, None)
            self.below.shown.pop(state.id, None)
            there = self.below.ahead.get(state.id)
            if there is not None and there.epoch <= state.epoch:
                del self.below.ahead[state.id]
                if there.epoch == state.epoch:
                    self.below.stored[state.id] = there.seq
        self.cursors.epoch_changed(state, fx)

    # -- handing over ----------------------------------------------------------------------------

    def newcomer(self, now: int) -> Downstream | None:
        """Who has all that was ever shown here, and ought to be at the end of the chain. Of other
        regions' streams it may have more, or know a newer epoch: a tail must not show what those
        before it lack."""
        below = self.below
        if not self.is_tail or below is None:
            return None
        if self.hands_over_since is None:
            if not self.cursors.is_at_end(below.peer):
                return None
            self.hands_over_since = now
        has_all = not below.ahead and all(
            state.end <= below.stored.get(state.id, 0) <= state.stored
            for state in self._states.values()
        )
        return below if has_all else None

    def give_up_newcomer(self) -> None:
        """It takes too long; it may introduce itself again."""
        if self.below is not None and not self.successor:
            self.cursors.forget(self.below.peer)
            self.below = None
            self.hands_over_since = None
