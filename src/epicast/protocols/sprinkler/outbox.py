"""The publisher's side: nothing is forgotten before it is answered, nothing arrives twice.

Publications of one publisher to one stream form a lane: numbered by the publisher, sent in order,
sent again from the oldest unanswered one after a reconnection, a refusal for lack of room, or a
long silence. Each says up to where everything has been answered. So the owner, which takes nothing
behind a gap, knows that what was refused for good will not come any more. No number is used twice,
whatever copies of a publication are still under way; and what was sent more than once is not given
up because one copy could not be stored.

A refused publication leaves a gap in its lane. What lies behind the gap is sent once everything
before it has been answered: the owner would refuse it sooner. What was sent behind the gap before
that was known is refused as well, which says nothing about later copies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from epicast.core import DATA, Effects, NodeId, Publication
from epicast.protocols.sprinkler.config import EdgeConfig
from epicast.protocols.sprinkler.messages import Publish, Published, RefusalCode, Refused
from epicast.protocols.sprinkler.rooms import MESSAGE_BYTES, Rooms

_UNLIMITED = 1 << 30


class _Waiting(Struct, gc=False):
    publication: Publication
    first: int
    last: int
    size: int
    copies: int = 0
    """How often it was sent,"""
    unstored: int = 0
    """and how often the answer was that it could not be stored."""
    gaps: int = 0
    """Copies that are lost, or were refused because something before them was missing."""


class _Lane:
    __slots__ = ("allowance", "answered_at", "blocked", "next", "publisher", "stream", "to_send",
                 "waiting")  # fmt: skip

    def __init__(self, stream: int, publisher: int) -> None:
        self.stream = stream
        self.publisher = publisher
        self.next = 1
        """The lowest number that was not used here."""
        self.waiting: deque[_Waiting] = deque()
        self.answered_at = 0
        self.to_send = 0
        """How many at the end of `waiting` have not been sent on the present connection."""
        self.allowance = _UNLIMITED
        """How many may be on their way at once: few after a refusal for lack of room, twice as many
        with every round of answers."""
        self.blocked = False
        """There was no room a moment ago."""

    @property
    def first_to_send(self) -> int:
        """The lowest number that is not under way."""
        return self.waiting[-self.to_send].first if self.to_send else self.next


class Outbox:
    def __init__(self, config: EdgeConfig) -> None:
        self._config = config
        self._lanes: dict[tuple[int, int], _Lane] = {}
        self._events = 0
        self._bytes = 0
        self._rooms = Rooms()
        self.resent = 0

    @property
    def room(self) -> int:
        """Events that may still be published."""
        if self._bytes >= self._config.max_unacknowledged_bytes:
            return 0
        return max(0, self._config.max_unacknowledged_events - self._events)

    @property
    def unanswered(self) -> int:
        return self._events

    def add(self, now: int, publications: Sequence[Publication]) -> None:
        for publication in publications:
            batch = publication.batch
            key = (batch.stream, publication.publisher)
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = _Lane(*key)
            count, size = batch.last - batch.first + 1, batch.wire_size()
            if not lane.waiting:
                lane.answered_at = now
            # Numbers may be left out, as a publisher that was started again leaves out those of
            # refused events. None is used twice.
            first = max(lane.next, publication.first)
            lane.next = first + count
            lane.waiting.append(_Waiting(publication, first, first + count - 1, size))
            lane.to_send += 1
            self._events += count
            self._bytes += size

    def send(self, proxy: NodeId, fx: Effects) -> None:
        """Send what was not sent yet, as far as the link has room."""
        room = self._rooms.left(proxy, fx)
        for lane in self._lanes.values():
            while lane.to_send and not lane.blocked:
                under_way = len(lane.waiting) - lane.to_send
                if under_way >= lane.allowance:
                    break
                entry = lane.waiting[under_way]
                if under_way and entry.first > lane.waiting[under_way - 1].last + 1:
                    break
                if not self._rooms.fitting(proxy, (entry.publication.batch,), room):
                    return
                room -= entry.size + MESSAGE_BYTES
                publication, settled = entry.publication, lane.waiting[0].first - 1
                message = Publish(
                    lane.stream, lane.publisher, entry.first, settled, publication.level, (),
                    publication.batch,
                )  # fmt: skip
                fx.send(proxy, message, DATA)
                entry.copies += 1
                lane.to_send -= 1

    def send_again(self, now: int) -> None:
        """Whatever was sent may be lost: everything unanswered is to be sent once more."""
        for lane in self._lanes.values():
            self._repeat_lane(now, lane)
            lane.blocked = False

    def repeat_overdue(self, now: int) -> None:
        """Have sent once more what an answer should have come to by now."""
        oldest = now - self._config.acknowledge_within_ns
        overdue = [
            lane
            for lane in self._lanes.values()
            if lane.to_send < len(lane.waiting) and lane.answered_at <= oldest
        ]
        for lane in overdue:
            self._repeat_lane(now, lane)

    def unblock(self) -> None:
        """Some time has passed: there may be room again."""
        for lane in self._lanes.values():
            lane.blocked = False

    def handle_published(self, now: int, message: Published, fx: Effects) -> bool:
        """Whether more may be sent now."""
        lane = self._lanes.get((message.stream, message.publisher))
        if lane is None or not message.acks:
            return False
        lane.answered_at = now
        numbers = dict(message.acks)
        newest, newest_seq = message.acks[-1]
        while lane.waiting and lane.waiting[0].last <= newest:
            entry = lane.waiting.popleft()
            self._forget(lane, entry)
            seq = numbers.get(entry.last, newest_seq)
            fx.acknowledge(entry.publication, entry.publication.level, seq)
            lane.allowance += 1
        return lane.to_send > 0

    def handle_refused(self, now: int, message: Refused, fx: Effects) -> bool:
        """Whether to try again later."""
        lane = self._lanes.get((message.stream, message.publisher))
        if lane is None or not lane.waiting or message.last < lane.waiting[0].first:
            return False
        refused = next((w for w in lane.waiting if w.first <= message.first <= w.last), None)
        if refused is not None and message.code == RefusalCode.GAP:
            refused.gaps += 1
            if refused.gaps < refused.copies or refused.first >= lane.first_to_send:
                return False  # another copy is under way, or will be
        if message.code in (RefusalCode.BUSY, RefusalCode.GAP):
            if lane.to_send < len(lane.waiting):  # else it is one refusal of many
                self._send_lane_again(now, lane)
                lane.allowance = 1
                lane.blocked = True
            return True
        if refused is not None and message.code == RefusalCode.STORAGE:
            refused.unstored += 1
            if refused.unstored < refused.copies:
                return False  # another copy may still be stored, by an owner started again
        if refused is not None:
            lane.waiting.remove(refused)
            self._forget(lane, refused)
            fx.refuse(refused.publication, f"{message.code.name}: {message.detail}")
            self._send_lane_again(now, lane)  # what is behind it was not taken
        return False

    def _repeat_lane(self, now: int, lane: _Lane) -> None:
        """Send everything again: the copies sent before are lost."""
        for entry in lane.waiting:
            entry.gaps = entry.copies
        self._send_lane_again(now, lane)

    def _send_lane_again(self, now: int, lane: _Lane) -> None:
        lane.answered_at = now
        self.resent += len(lane.waiting) - lane.to_send
        lane.to_send = len(lane.waiting)

    def _forget(self, lane: _Lane, entry: _Waiting) -> None:
        self._events -= entry.last - entry.first + 1
        self._bytes -= entry.size
        lane.to_send = min(lane.to_send, len(lane.waiting))
