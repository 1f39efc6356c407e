"""Numbering the events of a stream this proxy owns: each publication exactly once, in order.

A publisher numbers its own events of a stream. What it sends again is recognised and only
acknowledged again; a gap is refused, because what is missing may still come. Nothing is
acknowledged before it is stored the way the stream promises, and, because an acknowledgement speaks
for everything before it, nothing before that came here, too: it may have asked for more.

Numbers that a publisher has left out, as it does with those of refused events, are not used again:
whatever comes under one later is refused, since to acknowledge it would be a lie.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from epicast.core import EventBatch, NodeId, Run
from epicast.protocols.sprinkler.messages import Publish, RefusalCode
from epicast.protocols.sprinkler.states import StreamState

_MOST_SKIPPED = 256


class Pending(Struct, gc=False):
    """A publication that waits for its acknowledgement."""

    peer: NodeId
    """Whom it came from, which may have relayed it; 0: nobody who waits."""
    path: tuple[NodeId, ...]
    """Whom that one had it from."""
    publisher: int
    first: int
    last: int
    seq: int
    regions: int
    """How many other regions must have it."""
    first_seq: int = 0
    """Where in the stream it begins, or something that it is stored with."""
    before: int = 0
    """The last number of its publisher that was known before it."""


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
        self._seen: dict[int, int] = {}
        """By publisher: up to where all it has no answer to has come here, whether it was stored
        before or not."""
        self._skipped: deque[tuple[int, int, int]] = deque(maxlen=_MOST_SKIPPED)
        """Publisher, first and last of the numbers left out most recently."""

    def take(
        self, wall: int, peer: NodeId, message: Publish, regions: int
    ) -> EventBatch | Pending | Refusal | None:
        """The numbered batch to store; or, if there is nothing new in it, what to acknowledge:
        nothing yet while it is being stored."""
        batch, publisher = message.batch, message.publisher
        first, last = message.first, message.first + batch.last - batch.first
        known = self._accepted.get(publisher)
        # Of a publisher that is not known, or had something refused, its own word counts: what it
        # has no answer to will come again, and must not come behind what it has published later.
        expected = message.settled + 1 if known is None else max(known, message.settled) + 1
        seen = max(self._seen.get(publisher, 0), message.settled)
        expected = min(expected, seen + 1)
        if first > expected:
            return Refusal(RefusalCode.GAP, f"{expected} is expected next, not {first}")
        self._seen[publisher] = max(seen, last)
        if known is not None:
            if first <= known and (skipped := self._skipped_among(publisher, first, last)):
                detail = (
                    f"number {skipped} of publisher {publisher} was left out, as that of a refused "
                    f"event is, and numbers up to {known} were stored since: publish the event "
                    f"under a new number, from {known + 1} on"
                )
                return Refusal(RefusalCode.INVALID, detail)
            if first > known + 1:
                self._skipped.append((publisher, known + 1, first - 1))
            if last <= known:
                return self._again(peer, message, last, regions)
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
        self._unstable.append(
            Pending(
                peer, message.path, publisher, first, last, numbered.last, regions,
                numbered.first, first - 1,
            )
        )  # fmt: skip
        return numbered

    def _skipped_among(self, publisher: int, first: int, last: int) -> int:
        """The lowest number in a range that its publisher has left out; 0 if there is none."""
        found = [
            max(first, begin)
            for who, begin, end in self._skipped
            if who == publisher and begin <= last and end >= first
        ]
        return min(found, default=0)

    def observe(self, batch: EventBatch) -> None:
        """Somebody else has numbered these: whoever publishes them again is to be recognised, and
        answered once they are as safe as the stream promises."""
        for run in batch.runs:
            if not run.publisher:
                continue  # not known any more: it has published since
            last = run.first + run.count - 1
            known = self._accepted.get(run.publisher, 0)
            if last > known:
                self._accepted.pop(run.publisher, None)  # to be the most recent one
                self._accepted[run.publisher] = last
                # What was put together from history names the last number only. It may stand for
                # others, which must be forgotten with it if it cannot be stored.
                self._unstable.append(
                    Pending(
                        0, (), run.publisher, run.first, last, batch.last, 0, batch.first, known
                    )
                )

    def start_over(self) -> None:
        """Everything of the stream is void."""
        self._accepted, self._stable, self._seen = {}, {}, {}
        self._unstable.clear()
        self._skipped.clear()

    def accepted(self) -> dict[int, int]:
        """The last number taken of each publisher, least recent first."""
        return dict(self._accepted)

    def retire(self) -> list[Pending]:
        """Others number the stream from now on: who waits for an answer has to ask them."""
        self._seen.clear()
        waiting = []
        for pending in self._unstable:
            if pending.peer:
                waiting.append(replace(pending))
                pending.peer, pending.path = 0, ()
        return waiting

    def _again(self, peer: NodeId, message: Publish, last: int, regions: int) -> Pending | None:
        """What to acknowledge once more. Where it is in the stream is not known any more, only
        where it is not: behind the end."""
        for pending in self._unstable:
            if pending.publisher == message.publisher and pending.last >= last:
                # The answer goes where it was asked for last.
                pending.peer, pending.path = peer, message.path
                # Of what another head has numbered it is not known here what was asked for.
                pending.regions = max(pending.regions, regions)
                return None
        end = self._state.end
        return Pending(peer, message.path, message.publisher, message.first, last, end, regions)

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
                self._seen.pop(forgotten, None)
        return done

    def fail(self, first: int) -> list[Pending]:
        """Nothing from `first` on was stored: what to refuse. All of these numbers, the stream's
        and the publishers', may come again: only a publisher knows what copies are under way."""
        failed: list[Pending] = []
        # By where a publication begins: behind what failed, something longer may be stored already.
        while self._unstable and self._unstable[-1].first_seq >= first:
            pending = self._unstable.pop()
            self._accepted[pending.publisher] = pending.before
            failed.append(pending)
        failed.reverse()
        return failed
