"""Subscribers of a proxy: each is a place in a stream and a window, never a queue.

Whoever has got to the newest event is sent new ones as they come, the same message to all. Whoever
is behind, because it is late or because its window was full, is served from history at its own
pace: already collected, at no cost in memory, without slowing anybody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from epicast.core import DATA, Effects, EventBatch, NodeId
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.messages import (
    Consumed,
    Events,
    Restart,
    Subscribe,
    Tail,
)
from epicast.protocols.sprinkler.rooms import MESSAGE_BYTES, Rooms
from epicast.protocols.sprinkler.states import Reach, StreamState, shown_end


class Cursor:
    """One subscription: what comes next, and what is on its way."""

    __slots__ = ("caught_up", "epoch", "in_flight", "next", "number", "peer", "reading", "sent",
                 "state", "window")  # fmt: skip

    def __init__(self, peer: NodeId, message: Subscribe, state: StreamState, window: int) -> None:
        self.peer = peer
        self.number = message.number
        self.state = state
        self.epoch = message.epoch
        self.next = message.after + 1
        self.window = window
        self.in_flight = 0
        self.sent: deque[tuple[int, int]] = deque()
        """Last number and size of what was sent and not reported as consumed."""
        self.reading = False
        """History is being read for it."""
        self.caught_up = False
        """It has been at the end of the stream and is not far behind. Until then it gets history,
        where collected events are not sent any more."""

    def take_note(self, batches: Sequence[EventBatch]) -> None:
        """Batch by batch: a subscriber that has taken most of a message may report just that, and
        then wait for more."""
        for batch in batches:
            size = batch.wire_size()
            self.in_flight += size
            self.sent.append((batch.last, size))
        self.next = batches[-1].last + 1

    def consumed(self, seq: int) -> None:
        sent = self.sent
        while sent and sent[0][0] <= seq:
            self.in_flight -= sent.popleft()[1]
        self.next = max(self.next, seq + 1)  # it may have had more from an earlier subscription

    def restart(self, epoch: int, after: int) -> None:
        self.epoch = epoch
        self.next = after + 1
        self.in_flight = 0
        self.sent.clear()
        self.reading = self.caught_up = False


class Cursors:
    def __init__(
        self,
        config: ProxyConfig,
        states: Mapping[int, StreamState],
        reach: Reach = shown_end,
        first_token: int = 0,
    ) -> None:
        """`reach` is how far subscribers may see. Tokens of reads are `first_token`, modulo 4."""
        self._config = config
        self._end_of = reach
        self._states = states
        self._by_peer: dict[NodeId, dict[int, Cursor]] = {}
        self._by_stream: dict[int, dict[Cursor, None]] = {stream: {} for stream in states}
        self._reads: dict[int, Cursor] = {}
        self._failed_reads: dict[Cursor, None] = {}
        self._next_token = first_token
        self._rooms = Rooms()
        self.count = 0

    # -- subscriptions come and go ---------------------------------------------------------------

    def subscribe(self, peer: NodeId, message: Subscribe, fx: Effects) -> bool:
        """Serve a new subscription; False if there are too many, or the stream is unknown."""
        state = self._states.get(message.stream)
        if state is None:
            return False
        self.unsubscribe(peer, message.number)
        if self.count >= self._config.max_subscriptions:
            fx.drop("too many subscriptions", peer, message.stream)
            return False
        window = max(1, min(message.window, self._config.max_window_bytes))
        cursor = Cursor(peer, message, state, window)
        self._by_peer.setdefault(peer, {})[message.number] = cursor
        self._by_stream[message.stream][cursor] = None
        self.count += 1
        self._settle(cursor, fx)
        return True

    def unsubscribe(self, peer: NodeId, number: int) -> None:
        cursors = self._by_peer.get(peer)
        cursor = cursors.pop(number, None) if cursors else None
        if cursors is not None and not cursors:
            del self._by_peer[peer]
        if cursor is not None:
            self._forget(cursor)

    def forget(self, peer: NodeId) -> None:
        for cursor in self._by_peer.pop(peer, {}).values():
            self._forget(cursor)

    def _forget(self, cursor: Cursor) -> None:
        del self._by_stream[cursor.state.id][cursor]
        self._failed_reads.pop(cursor, None)
        cursor.reading = False
        self.count -= 1

    def is_at_end(self, peer: NodeId) -> bool:
        """Whether everything there is was sent to a peer."""
        theirs = self._by_peer.get(peer, {}).values()
        return all(cursor.next > self._end_of(cursor.state) for cursor in theirs)

    # -- sending ---------------------------------------------------------------------------------

    def exposed(self, state: StreamState, batches: Sequence[EventBatch], fx: Effects) -> None:
        """New events at the end of a stream: for whoever has everything before."""
        first, epoch = batches[0].first, state.epoch
        ready: dict[NodeId, None] = {}
        size = sum(batch.wire_size() for batch in batches)
        at_once = self._config.chunk_bytes
        for cursor in self._by_stream[state.id]:
            if (
                cursor.next == first
                and cursor.epoch == epoch
                and not cursor.reading
                and cursor.in_flight < cursor.window
                and (size <= at_once or cursor.in_flight + size <= cursor.window)
                and cursor.peer not in ready
                and fx.room(cursor.peer) >= size + MESSAGE_BYTES * len(batches)
                and not self._follows_twice(cursor)
            ):
                cursor.take_note(batches)
                ready[cursor.peer] = None
            else:
                self._pump(cursor, fx, fx.room(cursor.peer))
        if ready:
            targets = list(ready)
            to = targets[0] if len(targets) == 1 else targets
            for chunk in self._chunks(batches):
                fx.send(to, Tail(chunk), DATA)

    def _follows_twice(self, cursor: Cursor) -> bool:
        """Whether the subscriber has more subscriptions to the stream. What is sent for all of them
        would then come for those, too, that have no room."""
        theirs = self._by_peer[cursor.peer]
        return len(theirs) > 1 and any(
            other.state is cursor.state and other is not cursor for other in theirs.values()
        )

    def handle_consumed(self, peer: NodeId, message: Consumed, fx: Effects) -> int:
        """The stream it is about; 0 if it is about nothing that was sent."""
        cursor = self._by_peer.get(peer, {}).get(message.number)
        if cursor is None or cursor.epoch != message.epoch:
            return 0  # of a subscription that has ended, or of an epoch that has
        cursor.consumed(message.seq)
        self._pump(cursor, fx)
        return cursor.state.id

    def ready(self, peer: NodeId, fx: Effects) -> None:
        """The link to a peer has room again."""
        room = self._rooms.left(peer, fx)
        for cursor in list(self._by_peer.get(peer, {}).values()):
            room = self._pump(cursor, fx, room)

    def retry(self, fx: Effects) -> None:
        """Some time has passed since there was no room for something."""
        for peer in self._rooms.take_held_up():
            self.ready(peer, fx)

    def epoch_changed(self, state: StreamState, fx: Effects) -> None:
        for cursor in list(self._by_stream[state.id]):
            self._settle(cursor, fx)

    def _settle(self, cursor: Cursor, fx: Effects) -> None:
        """See whether the subscriber's watermark is one of the present epoch."""
        state = cursor.state
        if cursor.epoch == 0:
            cursor.epoch = state.epoch  # it takes whatever there is
        if cursor.epoch > state.epoch:
            return  # it knows more than this proxy, which will hear of that epoch too
        if cursor.epoch < state.epoch:
            self._restart(cursor, 0, fx)
        self._pump(cursor, fx)

    def _restart(self, cursor: Cursor, after: int, fx: Effects) -> None:
        state = cursor.state
        fx.send(cursor.peer, Restart(cursor.number, state.id, state.epoch, after), DATA)
        cursor.restart(state.epoch, after)

    def _pump(self, cursor: Cursor, fx: Effects, room: int | None = None) -> int:
        """Send what there is, as far as window and link allow; what room the link has left."""
        state, chunk = cursor.state, self._config.chunk_bytes
        end = self._end_of(state)
        if room is None:
            room = self._rooms.left(cursor.peer, fx)
        while (
            not cursor.reading
            and cursor.next <= end
            and cursor.in_flight < cursor.window
            and cursor.epoch == state.epoch
        ):
            free = cursor.window - cursor.in_flight
            if free * 4 < cursor.window:
                return room  # reading trifles is not worth it: there will soon be more room
            if room <= 0:
                self._rooms.hold_up(cursor.peer)
                return room
            most = min(free, chunk, room)
            batches = state.recent.read(cursor.next, end, most) if cursor.caught_up else []
            if not batches or batches[0].first != cursor.next:
                cursor.caught_up = False
                self._read(cursor, most, fx)
                return room
            fitting = self._rooms.fitting(cursor.peer, batches, room)
            if not fitting:
                return room
            before = cursor.in_flight
            self._send(cursor, fitting, fx)
            room -= cursor.in_flight - before + MESSAGE_BYTES
        cursor.caught_up |= cursor.next > end
        return room

    def _send(self, cursor: Cursor, batches: Sequence[EventBatch], fx: Effects) -> None:
        fx.send(cursor.peer, Events(cursor.number, tuple(batches)), DATA)
        cursor.take_note(batches)

    def _chunks(self, batches: Sequence[EventBatch]) -> Iterable[tuple[EventBatch, ...]]:
        chunk: list[EventBatch] = []
        size, most = 0, self._config.chunk_bytes
        for batch in batches:
            batch_size = batch.wire_size()
            if chunk and size + batch_size > most:
                yield tuple(chunk)
                chunk, size = [], 0
            chunk.append(batch)
            size += batch_size
        yield tuple(chunk)

    # -- history ---------------------------------------------------------------------------------

    def _read(self, cursor: Cursor, max_bytes: int, fx: Effects) -> None:
        self._next_token += 4  # odd tokens are those of requests, see `Requests`
        self._reads[self._next_token] = cursor
        cursor.reading = True
        fx.read(cursor.state.id, cursor.next, max_bytes, self._next_token)

    def on_read(self, token: int, batches: Sequence[EventBatch], fx: Effects) -> bool:
        """Whether history could be read."""
        cursor = self._reads.pop(token, None)
        if cursor is None or not cursor.reading:
            return True  # unsubscribed, or restarted meanwhile
        cursor.reading = False
        found = visible_part(cursor.state, cursor.next, self._end_of(cursor.state), batches)
        if not found:
            self._failed_reads[cursor] = None
            return False
        fitting = self._rooms.fitting(cursor.peer, found, self._rooms.left(cursor.peer, fx))
        if not fitting:
            return True  # the room was taken meanwhile: it is read again when there is some
        if found[0].first > cursor.next:
            self._restart(cursor, found[0].first - 1, fx)  # retention has dropped what came before
        self._send(cursor, fitting, fx)
        self._pump(cursor, fx)
        return True

    def retry_reads(self, fx: Effects) -> None:
        failed, self._failed_reads = self._failed_reads, {}
        for cursor in failed:
            self._pump(cursor, fx)


def visible_part(
    state: StreamState, first: int, end: int, batches: Sequence[EventBatch]
) -> list[EventBatch]:
    """What of a read may leave this node: of this epoch, from `first` on, up to `end`."""
    found: list[EventBatch] = []
    if first > end:  # a subscriber may have had more elsewhere
        return found
    for batch in batches:
        if batch.epoch != state.epoch or batch.last < first or batch.first > end:
            continue
        if batch.first < first or batch.last > end:
            batch = batch.slice(max(first, batch.first), min(batch.last, end))
        found.append(batch)
    return found
