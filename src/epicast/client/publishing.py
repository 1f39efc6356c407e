"""The publishing half of a stream.

What is published in one turn of the event loop, event by event or in batches, is gathered and goes
out as one batch, or several if one would be too large: that is what makes an event cheap. Each
event carries the publisher's own number, one after the other per stream, by which the owner
recognises what it was sent twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from epicast.client.checking import EventChecks
from epicast.client.errors import Closed, NoRoom, PublishRefused
from epicast.client.evidence import NodeEvidence
from epicast.client.outbox import Outbox, Outgoing
from epicast.client.tickets import Ticket, Waiter
from epicast.core import Config, ConfigError, EpicastError, EventBatch, EventKind
from epicast.core.ranges import MAX_SEQ
from epicast.protocols.sprinkler.messages import StreamInfo
from epicast.protocols.sprinkler.numbering import PublisherNumbers
from epicast.runtime.waiting import Bell, Outcome

_NO_KEY = b""
_LAST_FIRST_SEQUENCE = MAX_SEQ // 2
"""The largest one that leaves room for 2**61 events."""


class PublishLimits(Config, frozen=True, kw_only=True):
    """Bounds of one stream's publisher."""

    batch_events: int = 8192
    """The most that go out as one batch."""
    batch_bytes: int = 1 << 20
    """Of keys and payloads in one batch, unless a single event is larger."""
    unacknowledged_events: int = 50_000
    """Published and not acknowledged; `publish_nowait` raises `NoRoom`, the others wait."""
    unacknowledged_bytes: int = 32 << 20
    """Bytes of keys and payloads published and not acknowledged, including events that wait for
    their batch. An event is accepted while less than this is held, so the bound is exceeded by one
    event at most; `publish_many` exceeds it by one batch at most."""
    event_bytes: int = 16 << 20
    """The largest key and payload together."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: {getattr(self, name)} is not at least 1")


class PublishingStream:
    """Base of `Stream`."""

    def __init__(
        self,
        info: StreamInfo,
        outbox: Outbox,
        first_sequence: int,
        limits: PublishLimits,
        evidence: NodeEvidence | None = None,
    ) -> None:
        if not 1 <= first_sequence <= _LAST_FIRST_SEQUENCE:
            raise ConfigError(f"first_sequence: {first_sequence} is not a number from 1 to 2**61")
        self._info = info
        self._outbox = outbox
        self._limits = limits
        self._checks = EventChecks(info.name, info.max_key_bytes, limits.event_bytes)
        self._unsent = first_sequence
        """The publisher's number of the first event in `_blocks`."""
        self._blocks: list[EventBatch] = []
        self._numbers = PublisherNumbers(first_sequence)
        """Given to events as they come into `_blocks`; those in `_payloads` come behind."""
        self._payloads: list[bytes] = []
        self._keys: list[bytes] = []
        self._waiters: list[Waiter] = []
        """Ascending; of those who wait for what is not sent yet."""
        self._tickets: dict[int, Ticket] = {}
        """On their way, by their first number, ascending."""
        self._events = 0
        """Those in `_blocks` and on their way; with `_payloads`, all that are unacknowledged."""
        self._bytes = 0
        """Bytes of keys and payloads of those events."""
        self._counted = 0
        self._counted_bytes = 0
        """Bytes of keys and payloads of the first `_counted` events in `_payloads`."""
        self._max_key = info.max_key_bytes
        self._quick_payload = self._quick_key = 0
        """Sizes for which there is room up to `_limit`: such events are not counted one by one."""
        self._progress = Bell()
        self._refusal: PublishRefused | None = None
        """Of events that nobody waits for; whoever publishes or flushes next is told."""
        self._closed: EpicastError | None = None
        self._evidence = evidence
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
            and len(payload) <= self._quick_payload
            and (key is _NO_KEY or (type(key) is bytes and len(key) <= self._quick_key))
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
                    f"{self._events} events of {self._info.name!r}, {self._bytes} bytes, are not "
                    f"acknowledged yet, of {self._limits.unacknowledged_events} events and "
                    f"{self._limits.unacknowledged_bytes} bytes at most: await drain() and go on, "
                    "or publish less"
                )
        self._gather(payload, key)

    def _gather(self, payload: bytes, key: bytes) -> None:
        if not self._payloads:
            self._outbox.expect(self._hand_over)
        self._payloads.append(payload)
        self._keys.append(key)
        self._set_limit()

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
            self._put_alone(
                EventBatch.build(self._info.id, 1, [payload], keys=[key]), level, outcome
            )
        else:
            if len(self._payloads) >= self._limit:
                self._hand_over()
            number = self.next_sequence
            self._waiters.append(Waiter(number, number, outcome))
            self._gather(payload, key)
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
        for part in _parts(columns, size, self._limits.batch_bytes):
            await self.drain(part.rows)
            outcomes.append(Outcome())
            if level or not part.only_data:
                self._put_alone(part, level, outcomes[-1])
            else:
                if not self._blocks:
                    self._outbox.expect(self._hand_over)
                self._close_list()
                self._put_block(part, outcomes[-1])
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
        outcome: Outcome[int] = Outcome()
        event = EventBatch.build(self._info.id, 1, [payload], keys=[key], kinds=[EventKind.GC])
        self._put_alone(event, "", outcome)
        return await outcome.wait()

    # -- waiting ---------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Until everything published so far is acknowledged; raises the first refusal of what was
        published without waiting."""
        self._hand_over()
        end = self._numbers.next
        while self._tickets and next(iter(self._tickets)) < end:
            await self._progress.wait()
        self._raise_refusal()

    async def drain(self, events: int = 0) -> None:
        """Until there is room for `events` more; without a number, until half of what is allowed
        is acknowledged, which is what a loop around `publish_nowait` wants."""
        limits = self._limits
        wanted = events or max(1, limits.unacknowledged_events // 2)
        wanted_bytes = 1 if events else max(1, limits.unacknowledged_bytes // 2)
        while True:
            if self._closed is not None:
                raise self._closed
            events_left = limits.unacknowledged_events - self.unacknowledged
            if events_left >= wanted and self._bytes_left() >= wanted_bytes:
                return
            if not self.unacknowledged:
                return
            self._hand_over()
            await self._progress.wait()

    @property
    def unacknowledged(self) -> int:
        """Events published and not acknowledged yet."""
        return self._events + len(self._payloads)

    @property
    def next_sequence(self) -> int:
        """The publisher's own number of the next event, for `first_sequence` after a restart.

        Save it with the publisher id, and before anything is published under a higher number:
        what is published again under a number that was used is taken for a repetition. Refused
        events keep their numbers.
        """
        return self._numbers.next + len(self._payloads)

    @property
    def refused(self) -> int:
        """Events the owner has refused so far."""
        return self._numbers.refused

    # -- answers ---------------------------------------------------------------------------------

    def on_acknowledged(self, first: int, seq: int, epoch: int) -> None:
        ticket = self._tickets.pop(first, None)
        if ticket is not None:
            if self._evidence is not None and ticket.evidence is not None:
                self._evidence.acknowledged(
                    (self._info.id, epoch), self._outbox.publisher, first, ticket.count, seq,
                    ticket.evidence,
                )  # fmt: skip
            self._forget(ticket)
            ticket.acknowledge(seq)

    def on_refused(self, first: int, error: PublishRefused) -> None:
        ticket = self._tickets.pop(first, None)
        if ticket is None:
            return
        self._numbers.refused += ticket.count
        self._forget(ticket)
        ticket.fail(error)
        if not ticket.attended and self._refusal is None:
            self._refusal = error

    def close(self, error: EpicastError | None = None) -> None:
        """The node is over: whoever waits is told."""
        self._closed = error or Closed("the node was closed")
        for waiter in self._waiters:
            waiter.outcome.fail(self._closed)
        for ticket in self._tickets.values():
            ticket.fail(self._closed)
        self._tickets.clear()
        self._blocks, self._payloads, self._keys, self._waiters = [], [], [], []
        self._counted = self._counted_bytes = 0
        self._limit = 0
        self._progress.ring()

    def _forget(self, ticket: Ticket) -> None:
        self._events -= ticket.count
        self._bytes -= ticket.size
        self._set_limit()
        self._progress.ring()

    # -- batches ---------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        """Send what was gathered."""
        if self._closed is not None:
            return
        self._close_list()
        blocks, self._blocks = self._blocks, []
        limits = self._limits
        group: list[EventBatch] = []
        rows = size = 0
        for block in blocks:
            rows, size = rows + block.rows, size + block.payload_bytes
            if group and (rows > limits.batch_events or size > limits.batch_bytes):
                self._send(group)
                group, rows, size = [], block.rows, block.payload_bytes
            group.append(block)
        if group:
            self._send(group)

    def _close_list(self) -> None:
        """Make a block of what was published event by event."""
        if not self._payloads:
            return
        payloads, self._payloads = self._payloads, []
        keys, self._keys = self._keys, []
        self._counted = self._counted_bytes = 0
        batch = EventBatch.build(self._info.id, 1, payloads, keys=keys if any(keys) else None)
        self._put_block(batch, None)

    def _put_block(self, batch: EventBatch, outcome: Outcome[int] | None) -> None:
        first = self._numbers.take(batch.rows)
        if outcome is not None:
            self._waiters.append(Waiter(first, first + batch.rows - 1, outcome))
        self._blocks.append(batch)
        self._events += batch.rows
        self._bytes += batch.payload_bytes
        self._set_limit()

    def _put_alone(self, batch: EventBatch, level: str, outcome: Outcome[int]) -> None:
        """Send something that must not be joined with others, behind what was gathered."""
        self._hand_over()
        self._put_block(batch, outcome)
        self._blocks = []
        self._send([batch], level)

    def _send(self, blocks: list[EventBatch], level: str = "") -> None:
        """Blocks that are to be one batch, unless they are a single one that is too large."""
        batch = EventBatch.gathered(self._info.id, self._unsent, blocks)
        for piece in cut(batch, self._limits.batch_events, self._limits.batch_bytes):
            first, self._unsent = piece.first, piece.last + 1
            waiting = [waiter for waiter in self._waiters if waiter.first < self._unsent]
            if waiting:
                self._waiters = [w for w in self._waiters if w.last >= self._unsent]
            ticket = self._tickets[first] = Ticket(first, piece.rows, piece.payload_bytes, waiting)
            if self._evidence is not None:
                ticket.evidence = self._evidence.sent(piece)
            self._outbox.send(Outgoing(piece, first, level))

    def _set_limit(self) -> None:
        limits = self._limits
        room, bytes_left = limits.unacknowledged_events - self._events, self._bytes_left()
        if bytes_left <= 0 or self._closed is not None:
            room = 0
        self._limit = max(0, min(limits.batch_events, room))
        each = bytes_left // max(1, self._limit - len(self._payloads))
        self._quick_key = min(self._max_key, each // 2)
        self._quick_payload = min(limits.event_bytes, each - self._quick_key)

    def _bytes_left(self) -> int:
        """Room for keys and payloads; none or less if what is held has reached the bound."""
        for column in (self._payloads, self._keys):
            self._counted_bytes += sum(map(len, column[self._counted :]))
        self._counted = len(self._payloads)
        return self._limits.unacknowledged_bytes - self._bytes - self._counted_bytes

    def _raise_refusal(self) -> None:
        if self._closed is not None:
            raise self._closed
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal


def _parts(batch: EventBatch, max_events: int, max_bytes: int) -> Iterator[EventBatch]:
    for first in range(batch.first, batch.last + 1, max_events):
        part = batch.slice(first, min(first + max_events - 1, batch.last))
        yield from cut(part, max_events, max_bytes)


def cut(batch: EventBatch, max_events: int, max_bytes: int) -> list[EventBatch]:
    """A batch in halves until no part is too large, except for single events."""
    if batch.rows == 1 or (batch.rows <= max_events and batch.payload_bytes <= max_bytes):
        return [batch]
    middle = batch.first + (batch.rows - 1) // 2
    return [
        *cut(batch.slice(batch.first, middle), max_events, max_bytes),
        *cut(batch.slice(middle + 1, batch.last), max_events, max_bytes),
    ]
