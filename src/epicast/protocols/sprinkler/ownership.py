"""Numbering the events of a stream this proxy owns: each publication exactly once, in order.

A publisher numbers its own events of a stream. What it sends again is recognised and only
acknowledged again; a gap is refused, because what is missing may still come. Nothing is
acknowledged before it is stored the way the stream promises.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from epicast.core import EventBatch, NodeId, Run
from epicast.protocols.sprinkler.messages import Publish, RefusalCode
from epicast.protocols.sprinkler.states import StreamState


class Pending(Struct, gc=False):
    """A publication that waits for its acknowledgement."""

    peer: NodeId
    """Whom it came from, which may have relayed it."""
    publisher: int
    first: int
    last: int
    seq: int
    regions: int
    """How many other regions must have it."""


class Refusal(Struct, frozen=True):
    code: RefusalCode
    detail: str


class Ownership:
    def __init__(self, state: StreamState, publishers: dict[int, int], max_publishers: int) -> None:
        self._state = state
        self._max_publishers = max_publishers
        self._accepted = dict(publishers)
        """The last number taken of each publisher, least recent first."""
        self._stable = dict(publishers)
        """The same, of what is stored."""
        self._unstable: deque[Pending] = deque()

    def take(
        self, wall: int, peer: NodeId, message: Publish, regions: int
    ) -> EventBatch | Pending | Refusal | None:
        """The numbered batch to store; or, if there is nothing new in it, what to acknowledge:
        nothing yet while it is being stored."""
        batch, publisher = message.batch, message.publisher
        first, last = message.first, message.first + batch.last - batch.first
        known = self._accepted.get(publisher)
        if known is not None:
            if first > known + 1:
                return Refusal(RefusalCode.GAP, f"{known + 1} is expected next, not {first}")
            if last <= known:
                return self._again(peer, publisher, first, last, regions)
            if first <= known:
                batch = batch.slice(batch.first + known + 1 - first, batch.last)
                first = known + 1
        state = self._state
        numbered = batch.renumbered(
            state.id, state.epoch, state.taken + 1, wall,
            (Run(publisher, first, last - first + 1),),
        )  # fmt: skip
        if known is not None:
            del self._accepted[publisher]  # to be the most recent one
        self._accepted[publisher] = last
        self._unstable.append(Pending(peer, publisher, first, last, numbered.last, regions))
        return numbered

    def _again(
        self, peer: NodeId, publisher: int, first: int, last: int, regions: int
    ) -> Pending | None:
        for pending in self._unstable:
            if pending.publisher == publisher and pending.last >= last:
                pending.peer = peer  # the answer goes where it was asked for last
                return None
        return Pending(peer, publisher, first, last, self._state.end, regions)

    def stabilise(self, seq: int) -> list[Pending]:
        """Everything up to `seq` is stored: what to acknowledge, as far as this region goes."""
        done: list[Pending] = []
        unstable, stable = self._unstable, self._stable
        while unstable and unstable[0].seq <= seq:
            pending = unstable.popleft()
            stable.pop(pending.publisher, None)
            stable[pending.publisher] = pending.last
            done.append(pending)
        while len(stable) > self._max_publishers:
            forgotten = next(iter(stable))
            del stable[forgotten]
            if self._accepted.get(forgotten) is not None and not any(
                pending.publisher == forgotten for pending in unstable
            ):
                del self._accepted[forgotten]
        return done

    def fail(self, first: int) -> list[Pending]:
        """Nothing from `first` on was stored: what to refuse. Its numbers are used again."""
        failed: list[Pending] = []
        while self._unstable and self._unstable[-1].seq >= first:
            failed.append(self._unstable.pop())
        for pending in failed:
            if pending.publisher in self._stable:
                self._accepted[pending.publisher] = self._stable[pending.publisher]
            else:
                self._accepted.pop(pending.publisher, None)
        for pending in self._unstable:  # of the same publishers, stored soon
            self._accepted[pending.publisher] = pending.last
        failed.reverse()
        return failed
