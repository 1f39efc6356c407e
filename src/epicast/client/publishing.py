"""The publishing half of a stream.

Events published one by one are gathered in lists and become one batch per turn of the event loop,
or whenever a batch is full: that is what makes an event cheap. Each carries the publisher's own
number, one after the other per stream, by which the owner recognises what it was sent twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from epicast.client.checking import EventChecks
from epicast.client.errors import Closed, NoRoom, PublishRefused
from epicast.client.outbox import Outbox, Outgoing
from epicast.client.tickets import Ticket
from epicast.core import Config, ConfigError, EpicastError, EventBatch, EventKind
from epicast.protocols.sprinkler.messages import StreamInfo
from epicast.runtime.waiting import Bell, Outcome

_NO_KEY = b""


class PublishLimits(Config, frozen=True, kw_only=True):
    """Bounds of one stream's publisher."""

    batch_events: int = 1000
    batch_bytes: int = 1 << 20
    """Of keys and payloads, unless a single event is larger."""
    unacknowledged_events: int = 50_000
    """Published and not acknowledged; `publish_nowait` raises `NoRoom`, the others wait."""
    unacknowledged_bytes: int = 32 << 20
    """The same in bytes, give or take a batch."""
    event_bytes: int = 16 << 20
    """The largest key and payload together."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: {getattr(self, name)} is not at least 1")


class PublishingStream:
    """Base of `Stream`."""

    def __init__(
        self, info: StreamInfo, outbox: Outbox, first_sequence: int, limits: PublishLimits
    ) -> None:
        if first_sequence < 1:
            raise ConfigError(f"first_sequence: {first_sequence} is not at least 1")
        self._info = info
        self._outbox = outbox
        self._limits = limits
        self._checks = EventChecks(info, limits.event_bytes)
        self._next = first_sequence
        """The publisher's number of the first event that is gathered."""
        self._payloads: list[bytes] = []
        self._keys: list[bytes] = []
        self._waiters: list[tuple[int, Outcome[int]]] = []
        self._tickets: dict[int, Ticket] = {}
        """On their way, by their first number, ascending."""
        self._events = 0
        self._bytes = 0
        self._refused = 0
        """Events whose numbers those behind them have taken over."""
        self._max_key = info.max_key_bytes
        self._max_payload = limits.event_bytes
        self._progress = Bell()
        self._refusal: PublishRefused | None = None
        """Of events that nobody waits for; whoever publishes or flushes next is told."""
        self._closed: EpicastError | None = None
        self._limit = 0
        """How many events may be gathered before something else has to be done."""
        self._set_limit()

    # -- publishing ------------------------------------------------------------------------------

    def publish_nowait(self, payload: bytes, key: bytes = b"") -> None:
        """Publish without waiting for anything; `flush` says whether it was stored.

        Raises `NoRoom` when too much is unacknowledged: `await drain()`, then go on. Raises
        `PublishRefused` once if an earlier event published like this was refused.
        """
        payloads = self._payloads
        if (
            0 < len(payloads) < self._limit
            and type(payload) is bytes
            and len(payload) <= self._max_payload
            and (key is _NO_KEY or (type(key) is bytes and len(key) <= self._max_key))
        ):
            payloads.append(payload)
            self._keys.append(key)
        else:
            self._put(payload, key)

    def _put(self, payload: bytes, key: bytes) -> None:
        """The same, when something is out of the ordinary."""
        payload, key = self._checks.event(payload, key)
        self._raise_refusal()
        if len(self._payloads) >= self._limit:
            self._hand_over()
            if not self._limit:
                raise NoRoom(
                    f"{self._events} events of {self._info.name!r} are not acknowledged yet: "
                    "await drain() and go on, or publish less"
                )
        if not self._payloads:
            self._outbox.expect(self._hand_over)
        self._payloads.append(payload)
        self._keys.append(key)

    async def publish(self, payload: bytes, key: bytes = b"", *, level: str = "") -> int:
        """Publish one event and wait until it is acknowledged; returns its sequence number.

        `level` asks for more than the stream's own promise: "regions=1" waits until the event is
        stored in one more region too. Whoever is cancelled while waiting does not know whether
        the event was stored. If it had been stored by an earlier run of the same publisher, the
        number returned is one at or behind it.
        """
        payload, key = self._checks.event(payload, key)
        await self.drain(1)
        outcome: Outcome[int] = Outcome()
        if level:
            self._hand_over()
            self._send([payload], [key], None, level, outcome)
        else:
            if len(self._payloads) >= self._limit:
                self._hand_over()
            if not self._payloads:
                self._outbox.expect(self._hand_over)
            self._waiters.append((self._next + len(self._payloads), outcome))
            self._payloads.append(payload)
            self._keys.append(key)
        return await outcome.wait()

    async def publish_many(
        self,
        payloads: Sequence[bytes] | EventBatch,
        keys: Sequence[bytes] | None = None,
        *,
        level: str = "",
    ) -> int:
        """Publish many events, in order, and wait until all are acknowledged.

        Takes lists of bytes, or an `EventBatch`, whose columns are used as they are. Returns the
        sequence number of the last event. Takes as long as it takes to find room for them all.
        """
        if isinstance(payloads, EventBatch):
            columns = self._checks.columns(payloads, keys)
        else:
            checked, checked_keys = self._checks.events(payloads, keys)
            columns = EventBatch.build(self._info.id, 1, checked, keys=checked_keys)
        outcomes: list[Outcome[int]] = []
        size = min(self._limits.batch_events, self._limits.unacknowledged_events)
        for first in range(columns.first, columns.last + 1, size):
            last = min(first + size - 1, columns.last)
            await self.drain(last - first + 1)
            self._hand_over()
            part = columns.slice(first, last)
            outcomes.append(Outcome())
            self._send_batch(
                part.renumbered(self._info.id, 0, self._next, 0, ()), level, outcomes[-1]
            )
        seq = 0
        for outcome in outcomes:
            seq = await outcome.wait()
        return seq

    async def collect(self, predicate: str, data: bytes = b"", *, key: bytes = b"") -> int:
        """Publish a GC event: what `predicate` says of events before it is obsolete, for good.

        Raises `PredicateError`, with the position, if the predicate does not parse. `data` comes
        along to subscribers. Returns the sequence number of the GC event.
        """
        from epicast.log.predicate import gc_payload, parse

        payload = gc_payload(parse(predicate), data)
        payload, key = self._checks.event(payload, key)
        await self.drain(1)
        self._hand_over()
        outcome: Outcome[int] = Outcome()
        self._send([payload], [key], [EventKind.GC], "", outcome)
        return await outcome.wait()

    # -- waiting ---------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Until everything published so far is acknowledged; raises the first refusal of what was
        published without waiting."""
        self._hand_over()
        end = self._next
        while self._tickets and next(iter(self._tickets)) < end:
            await self._progress.wait()
        self._raise_refusal()

    async def drain(self, events: int = 0) -> None:
        """Until there is room for `events` more; without a number, until half of what is allowed
        is acknowledged, which is what a loop around `publish_nowait` wants."""
        wanted = events or max(1, self._limits.unacknowledged_events // 2)
        while True:
            if self._closed is not None:
                raise self._closed
            events_left = self._limits.unacknowledged_events - self.unacknowledged
            bytes_left = self._limits.unacknowledged_bytes - self._bytes
            if (events_left >= wanted and bytes_left > 0) or not self.unacknowledged:
                return
            self._hand_over()
            await self._progress.wait()

    @property
    def unacknowledged(self) -> int:
        """Events published and not acknowledged yet."""
        return self._events + len(self._payloads)

    @property
    def next_sequence(self) -> int:
        """The publisher's own number of the next event: what to save, together with the publisher
        id, for `first_sequence` after a restart."""
        return self._next + len(self._payloads) - self._refused

    # -- answers ---------------------------------------------------------------------------------

    def on_acknowledged(self, first: int, seq: int) -> None:
        ticket = self._tickets.pop(first, None)
        if ticket is not None:
            self._forget(ticket)
            ticket.acknowledge(seq)

    def on_refused(self, first: int, error: PublishRefused) -> None:
        ticket = self._tickets.pop(first, None)
        if ticket is None:
            return
        self._refused += ticket.count
        self._forget(ticket)
        ticket.fail(error)
        if not ticket.attended and self._refusal is None:
            self._refusal = error

    def close(self, error: EpicastError | None = None) -> None:
        """The node is over: whoever waits is told."""
        self._closed = error or Closed("the node was closed")
        for _, outcome in self._waiters:
            outcome.fail(self._closed)
        for ticket in self._tickets.values():
            ticket.fail(self._closed)
        self._tickets.clear()
        self._payloads, self._keys, self._waiters = [], [], []
        self._limit = 0
        self._progress.ring()

    def _forget(self, ticket: Ticket) -> None:
        self._events -= ticket.count
        self._bytes -= ticket.size
        self._set_limit()
        self._progress.ring()

    # -- batches ---------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        """Make a batch of what was gathered."""
        if not self._payloads or self._closed is not None:
            return
        payloads, self._payloads = self._payloads, []
        keys, self._keys = self._keys, []
        self._send(payloads, keys if any(keys) else None, None, "", None)

    def _send(
        self,
        payloads: list[bytes],
        keys: list[bytes] | None,
        kinds: list[int] | None,
        level: str,
        outcome: Outcome[int] | None,
    ) -> None:
        batch = EventBatch.build(self._info.id, self._next, payloads, keys=keys, kinds=kinds)
        self._send_batch(batch, level, outcome)

    def _send_batch(self, batch: EventBatch, level: str, outcome: Outcome[int] | None) -> None:
        rows, size = batch.rows, batch.payload_bytes
        if outcome is not None:
            self._waiters.append((self._next + rows - 1, outcome))
        pieces = [batch]
        if rows > self._limits.batch_events or size > self._limits.batch_bytes:
            pieces = cut(batch, self._limits.batch_events, self._limits.batch_bytes)
        for piece in pieces:
            self._send_piece(piece, level, outcome)
        self._set_limit()

    def _send_piece(self, piece: EventBatch, level: str, whole: Outcome[int] | None) -> None:
        first = self._next
        end = self._next = first + piece.rows
        ticket = Ticket(first, piece.rows, piece.payload_bytes, whole)
        waiters = self._waiters
        if waiters:
            ticket.waiters = [waiter for waiter in waiters if waiter[0] < end]
            self._waiters = waiters[len(ticket.waiters) :]
        self._tickets[first] = ticket
        self._events += ticket.count
        self._bytes += ticket.size
        self._outbox.send(Outgoing(piece, first, level))

    def _set_limit(self) -> None:
        limits = self._limits
        room = limits.unacknowledged_events - self._events
        if self._bytes >= limits.unacknowledged_bytes or self._closed is not None:
            room = 0
        self._limit = max(0, min(limits.batch_events, room))

    def _raise_refusal(self) -> None:
        if self._closed is not None:
            raise self._closed
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal


def cut(batch: EventBatch, max_events: int, max_bytes: int) -> list[EventBatch]:
    """A batch in halves until no part is too large, except for single events."""
    if batch.rows == 1 or (batch.rows <= max_events and batch.payload_bytes <= max_bytes):
        return [batch]
    middle = batch.first + (batch.rows - 1) // 2
    return [
        *cut(batch.slice(batch.first, middle), max_events, max_bytes),
        *cut(batch.slice(middle + 1, batch.last), max_events, max_bytes),
    ]
