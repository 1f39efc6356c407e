"""An agent's part in spreading one stream: Figure 3 of the paper, corrected.

`end` is as far as everything has arrived (the paper's cnt), `asked` as far as it was asked for
(next - 1). What arrives out of order waits, within bounds. What a neighbour was asked for and does
not send, or does not have, is asked of the proxy: on a timeout or when an answer has holes, not, as
printed, as soon as anything is outstanding; and of the proxy for any stream, not only its own.
"""

from __future__ import annotations

from bisect import insort
from collections import deque

from msgspec import Struct

from epicast.core import EventBatch, IntervalSet, NodeId
from epicast.protocols.sprinkler.messages import Answer, Counter, StreamInfo
from epicast.protocols.sprinkler.recent import EventBuffer

_LATE = 256
"""Overdue requests that are remembered."""


class Outstanding(Struct):
    """Asked of somebody, and not answered."""

    peer: NodeId
    first: int
    last: int
    deadline: int


class Following:
    __slots__ = ("_early", "_early_bytes", "_early_firsts", "_late", "_max_early_bytes", "asked",
                 "buffer", "crowded", "end", "epoch", "info", "outstanding")  # fmt: skip

    def __init__(
        self, info: StreamInfo, start: Counter, buffer: EventBuffer, max_early_bytes: int
    ) -> None:
        self.info = info
        self.epoch = start.epoch
        self.end = self.asked = start.seq
        self.buffer = buffer
        self.crowded = False
        """Something came early and found no room, and what takes the room is still there."""
        self.outstanding: list[Outstanding] = []
        self._late: deque[Outstanding] = deque(maxlen=_LATE)
        """Requests that were overdue: their answers may still come."""
        self._early: dict[int, EventBatch] = {}
        self._early_firsts: list[int] = []
        """The keys of `_early`, ascending."""
        self._early_bytes = 0
        self._max_early_bytes = max_early_bytes

    @property
    def counter(self) -> Counter:
        return Counter(self.info.id, self.epoch, self.end)

    def arrive(self, batch: EventBatch) -> list[EventBatch]:
        """Take what came, in any order; what can be delivered now."""
        delivered: list[EventBatch] = []
        if batch.epoch != self.epoch or batch.last <= self.end:
            return delivered
        if batch.first > self.end + 1:
            self._keep_early(batch)
            return delivered
        self._advance(batch, delivered)
        while self._early_firsts and self._early_firsts[0] <= self.end + 1:
            following = self._early.pop(self._early_firsts.pop(0))
            self._early_bytes -= following.wire_size()
            if following.last > self.end:
                self._advance(following, delivered)
        self.asked = max(self.asked, self.end)
        self.crowded &= bool(self._early)
        return delivered

    def _advance(self, batch: EventBatch, delivered: list[EventBatch]) -> None:
        if batch.first <= self.end:
            batch = batch.slice(self.end + 1, batch.last)
        self.end = batch.last
        self.buffer.add(batch)
        delivered.append(batch)

    def _keep_early(self, batch: EventBatch) -> None:
        known = self._early.get(batch.first)
        size = batch.wire_size()
        if known is not None and known.last >= batch.last:
            return
        if self._early_bytes + size > self._max_early_bytes:
            self.crowded = True  # it will have to be asked for again
            return
        if known is not None:
            self._early_bytes -= known.wire_size()
        else:
            insort(self._early_firsts, batch.first)
        self._early[batch.first] = batch
        self._early_bytes += size

    def missing(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of a range that have not arrived, in order or early."""
        gaps: list[tuple[int, int]] = []
        wanted = max(first, self.end + 1)
        for early in self._early_firsts:
            if early > last:
                break
            if early > wanted:
                gaps.append((wanted, early - 1))
            wanted = max(wanted, self._early[early].last + 1)
        if wanted <= last:
            gaps.append((wanted, last))
        return gaps

    def holes(self, answer: Answer) -> list[tuple[int, int]]:
        """What is missing because an answer does not have it."""
        had = IntervalSet((batch.first, batch.last) for batch in answer.batches)
        return [
            part
            for first, last in self.missing(answer.first, answer.last)
            for part in had.missing(first, last)
        ]

    def unasked(self, last: int) -> list[tuple[int, int]]:
        """What is missing up to `last` and nobody has been asked for: an answer had holes, there
        was nobody to ask, or what came early found no room."""
        asked = IntervalSet((entry.first, entry.last) for entry in self.outstanding)
        return [
            part
            for first, end in self.missing(self.end + 1, last)
            for part in asked.missing(first, end)
        ]

    def was_asked(self, peer: NodeId, first: int, last: int) -> bool:
        """Whether an answer for first..last is one that `peer` may give."""
        return any(
            entry.peer == peer and entry.first <= first <= last <= entry.last
            for entry in (*self.outstanding, *self._late)
        )

    def settle(self, peer: NodeId, first: int, last: int) -> tuple[int, int] | None:
        """`peer` has answered for first..last: it is not outstanding there any more. The rest of
        what it was asked for, if its answer was cut short."""
        kept: list[Outstanding] = []
        rest = None
        for entry in self.outstanding:
            if entry.peer != peer or entry.last < first or entry.first > last:
                kept.append(entry)
                continue
            if entry.first < first:
                kept.append(Outstanding(peer, entry.first, first - 1, entry.deadline))
            if entry.last > last:
                rest = (last + 1, entry.last)
        self.outstanding = kept
        return rest

    def overdue(self, now: int) -> list[Outstanding]:
        """Take out what was asked for too long ago, or of somebody who is gone."""
        late = [entry for entry in self.outstanding if entry.deadline <= now]
        if late:
            self._late += late
            self.outstanding = [
                e for e in self.outstanding if e.deadline > now and e.last > self.end
            ]
        return late

    def give_up(self, peer: NodeId) -> None:
        """A peer is gone: everything it was asked for is overdue."""
        for entry in self.outstanding:
            if entry.peer == peer:
                entry.deadline = 0

    def ask_anew(self) -> None:
        """Nobody may remember what they were asked for."""
        self._late += self.outstanding
        self.outstanding = []
        self.asked = self.end

    def restart(self, start: Counter, buffer: EventBuffer) -> None:
        self.epoch = start.epoch
        self.end = self.asked = start.seq
        self.buffer = buffer
        self.crowded = False
        self.outstanding = []
        self._late.clear()
        self._early = {}
        self._early_firsts = []
        self._early_bytes = 0
