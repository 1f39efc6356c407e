"""The publisher's side: nothing is forgotten before it is answered, nothing arrives twice.

Publications of one publisher to one stream form a lane: numbered without gaps, sent in order,
sent again from the oldest unanswered one after a reconnection, a refusal for lack of room, or a
long silence. If one is refused for good, those behind it take its numbers, so that the rest of the
lane is not held up: the owner takes nothing behind a gap, so none of them has been stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from epicast.core import DATA, Effects, NodeId, Publication
from epicast.protocols.sprinkler.config import EdgeConfig
from epicast.protocols.sprinkler.messages import Publish, Published, RefusalCode, Refused

_MAX_HOPS = 8


class _Waiting(Struct, gc=False):
    publication: Publication
    first: int
    last: int
    size: int


class _Lane:
    __slots__ = ("next", "publisher", "stream", "to_send", "waiting")

    def __init__(self, stream: int, publisher: int, first: int) -> None:
        self.stream = stream
        self.publisher = publisher
        self.next = first
        self.waiting: deque[_Waiting] = deque()
        self.to_send = 0
        """How many at the end of `waiting` have not been sent on the present connection."""


class Outbox:
    def __init__(self, config: EdgeConfig) -> None:
        self._config = config
        self._lanes: dict[tuple[int, int], _Lane] = {}
        self._events = 0
        self._bytes = 0
        self._answered_at = 0
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

    def knows(self, stream: int, publisher: int) -> bool:
        return (stream, publisher) in self._lanes

    def add(self, now: int, publications: Sequence[Publication]) -> None:
        if not self._events:
            self._answered_at = now
        for publication in publications:
            batch = publication.batch
            key = (batch.stream, publication.publisher)
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = _Lane(*key, publication.first)
            count, size = batch.last - batch.first + 1, batch.wire_size()
            entry = _Waiting(publication, lane.next, lane.next + count - 1, size)
            lane.next += count
            lane.waiting.append(entry)
            lane.to_send += 1
            self._events += count
            self._bytes += size

    def send(self, proxy: NodeId, fx: Effects) -> None:
        """Send what was not sent yet, as far as the link has room."""
        for lane in self._lanes.values():
            while lane.to_send:
                entry = lane.waiting[-lane.to_send]
                if fx.room(proxy) < entry.size:
                    return
                publication = entry.publication
                message = Publish(
                    lane.stream, lane.publisher, entry.first, publication.level, _MAX_HOPS,
                    publication.batch,
                )  # fmt: skip
                fx.send(proxy, message, DATA)
                lane.to_send -= 1

    def send_again(self, now: int) -> None:
        """Whatever was sent may be lost: everything unanswered is to be sent once more."""
        for lane in self._lanes.values():
            self._send_lane_again(lane)
        self._answered_at = now

    def overdue(self, now: int) -> bool:
        """Whether an answer should have come by now."""
        sent = any(lane.to_send < len(lane.waiting) for lane in self._lanes.values())
        return sent and now - self._answered_at >= self._config.acknowledge_within_ns

    def handle_published(self, now: int, message: Published, fx: Effects) -> None:
        lane = self._lanes.get((message.stream, message.publisher))
        if lane is None or not message.acks:
            return
        self._answered_at = now
        numbers = dict(message.acks)
        newest, newest_seq = message.acks[-1]
        while lane.waiting and lane.waiting[0].last <= newest:
            entry = lane.waiting.popleft()
            self._forget(lane, entry)
            seq = numbers.get(entry.last, newest_seq)
            fx.acknowledge(entry.publication, entry.publication.level, seq)

    def handle_refused(self, now: int, message: Refused, fx: Effects) -> bool:
        """Whether to try again later."""
        lane = self._lanes.get((message.stream, message.publisher))
        if lane is None:
            return False
        self._answered_at = now
        if message.code in (RefusalCode.BUSY, RefusalCode.GAP):
            self._send_lane_again(lane)
            return True
        refused = next((w for w in lane.waiting if w.first <= message.first <= w.last), None)
        if refused is None:
            return False
        at = lane.waiting.index(refused)
        del lane.waiting[at]
        self._forget(lane, refused)
        fx.refuse(refused.publication, f"{message.code.name}: {message.detail}")
        number = refused.first
        for entry in list(lane.waiting)[at:]:
            entry.first, entry.last = number, number + entry.last - entry.first
            number = entry.last + 1
        lane.next = number
        self._send_lane_again(lane)
        return False

    def _send_lane_again(self, lane: _Lane) -> None:
        self.resent += len(lane.waiting) - lane.to_send
        lane.to_send = len(lane.waiting)

    def _forget(self, lane: _Lane, entry: _Waiting) -> None:
        self._events -= entry.last - entry.first + 1
        self._bytes -= entry.size
        lane.to_send = min(lane.to_send, len(lane.waiting))
