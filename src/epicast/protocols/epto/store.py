"""The events a node knows: those to be ordered, and those still passed on."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventBatch, InvariantViolation
from epicast.core.batch_layout import HEADER, HEADER_BYTES, RUN_BYTES, VERSION
from epicast.protocols.epto.entries import columns_of
from epicast.protocols.epto.layout import (
    COUNT,
    ENTRY_BYTES,
    FRESH,
    FULL,
    LAST_OF_ALL,
    LAST_SOURCE,
    LAST_TIME,
    LIVE,
    NEED_BYTES,
    NEWEST,
    PASSED,
    REFUSED,
    SIZE_MASK,
    STATE,
    USED,
    room_for,
)

_FEW_ENTRIES = 64
_FEW_BYTES = 4096
_SMALL_ARENA = 1 << 16
_SILENT_ROUNDS = 1
"""What the order has passed is forgotten when nobody speaks of it for longer than this: to be
taken in anew with the next ball costs more than to be kept for a while."""
ORDER_STREAM = 0
"""Delivered batches are of no source in particular: their runs say whose each event is."""


class EventStore:
    """Entries (publications) in ascending order of (timestamp, source), as columns.

    The paper's `received` and `nextBall` in one. Up to `passed` are entries that the order has
    passed, delivered or too late, which stay while others speak of them; the rest is waiting.
    What is heard of since the last round is the next ball. The ttl of an entry is the number of
    rounds since it was `born`, so that nothing is done to age it.
    """

    __slots__ = ("_arena", "_at", "_born", "_heard", "_ids", "_indexed", "_k", "_max_bytes",
                 "_max_entries", "_reserved_bytes", "_reserved_entries", "_rounds", "_slots",
                 "_spoken", "_state", "last", "round")  # fmt: skip

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        from epicast.protocols.epto import kernels, round_kernels

        self._k: Any = kernels
        self._rounds: Any = round_kernels
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._reserved_entries = self._reserved_bytes = 0
        self._ids = np.zeros((_FEW_ENTRIES, 4), dtype=np.int64)
        self._born: NDArray[Any] = np.zeros(_FEW_ENTRIES, dtype=np.int64)
        self._spoken: NDArray[Any] = np.zeros(_FEW_ENTRIES, dtype=np.int64)
        self._heard: NDArray[Any] = np.zeros(_FEW_ENTRIES, dtype=np.uint8)
        self._at: NDArray[Any] = np.zeros(_FEW_ENTRIES, dtype=np.int64)
        self._arena = np.zeros(_FEW_BYTES, dtype=np.uint8)
        self._slots = np.empty(8 * _FEW_ENTRIES, dtype=np.int32)
        self._indexed = False
        """Whether `_slots` say where entries are."""
        self._state = np.zeros(STATE, dtype=np.int64)
        self._state[LAST_TIME] = -1
        self.last = (-1, 0)
        """Timestamp and source of the last entry delivered."""
        self.round = 1
        """The number of the next round."""

    def __len__(self) -> int:
        """Entries waiting to be delivered."""
        return self.entries - int(self._state[PASSED])

    @property
    def entries(self) -> int:
        return int(self._state[COUNT] + self._state[FRESH])

    @property
    def taken_entries(self) -> int:
        """Those, and for how many room is kept."""
        return self.entries + self._reserved_entries

    @property
    def taken_bytes(self) -> int:
        return self.held_bytes + self._reserved_bytes

    def reserve(self, entries: int, more_bytes: int) -> None:
        """Keep room for what this node will publish."""
        self._reserved_entries += entries
        self._reserved_bytes += more_bytes

    @property
    def newest(self) -> int:
        """The largest timestamp that was accepted."""
        return self._state.item(NEWEST)

    @property
    def dropped(self) -> int:
        """Entries for which there was no room."""
        return int(self._state[FULL])

    @property
    def held_bytes(self) -> int:
        return int(self._state[LIVE])

    def absorb(self, columns: bytes, entries: int, hop: int, latest: int) -> int:
        """Take in a ball but for what is later than `latest`: how many entries that was, or -1 if
        it is no ball. By `hop` all of it is older than it was sent."""
        k, state = self._k, self._state
        ball = np.frombuffer(columns, dtype=np.uint8)
        if not self._indexed:
            self._index()
        while True:
            outcome = k.absorb(
                ball, entries, hop, latest, self._max_entries - self._reserved_entries,
                self._max_bytes - self._reserved_bytes, self._ids, self._heard, self._at,
                self._arena, self._slots, state,
            )  # fmt: skip
            if outcome == k.DONE:
                return state.item(REFUSED)
            if outcome == k.MALFORMED:
                return -1
            self._grow(int(state[NEED_BYTES]))

    def _index(self) -> None:
        if 4 * self.entries > len(self._slots):  # or too many are not found at once
            self._slots = np.empty(4 << self.entries.bit_length(), dtype=np.int32)
        self._k.index(self._ids, self._state, self._slots)
        self._indexed = True

    def _grow(self, more_bytes: int) -> None:
        room = self._ids.shape[0]
        if self.entries >= room:
            self._ids = np.pad(self._ids, ((0, room), (0, 0)))
            self._born, self._spoken, self._heard, self._at = (
                np.pad(column, (0, room))
                for column in (self._born, self._spoken, self._heard, self._at)
            )
        if self._state[USED] + more_bytes > len(self._arena):
            self._compact(more_bytes)
        self._index()

    def _compact(self, more_bytes: int) -> None:
        state = self._state
        arena = np.empty(room_for(2 * (int(state[LIVE]) + more_bytes) + _FEW_BYTES), dtype=np.uint8)
        self._k.compact(self._ids, self._at, self._arena, state, arena)
        self._arena = arena

    # -- the order -------------------------------------------------------------------------------

    def deliverable(self, rounds: int, latest: int) -> tuple[int, int]:
        """The entries that are next: older than so many rounds, nothing before them missing."""
        end = self._rounds.deliverable(
            self.round, rounds, latest, self._ids, self._born, self._state
        )
        return int(self._state[PASSED]), int(end)

    def batch(self, low: int, high: int, position: int) -> EventBatch:
        """The events of entries low..high-1 as one batch, numbered from `position`."""
        events, nbytes = self._k.measure(low, high, self._ids, self._at, self._arena)
        # One piece of memory for all columns: to find room for each costs more than to fill it.
        times_at = HEADER_BYTES + RUN_BYTES * (high - low)
        offsets_at = times_at + 8 * events
        data_at = offsets_at + 4 * (2 * events + 1)
        size = data_at + nbytes
        whole = np.empty(room_for(size), dtype=np.uint8)
        HEADER.pack_into(
            whole.data, 0, VERSION, 0, 0, events, ORDER_STREAM, 0, high - low, position,
            position + events - 1, 0, nbytes,
        )  # fmt: skip
        self._k.unfold(
            low, high, self._ids, self._at, self._arena,
            whole[HEADER_BYTES:times_at].view("<i8").reshape(high - low, 3),
            whole[times_at:offsets_at].view("<i8"),
            whole[offsets_at:data_at].view("<u4"),
            whole[data_at:size],
        )  # fmt: skip
        whole.flags.writeable = False
        return EventBatch.decode(whole.data[:size], trusted=True)

    def pass_by(self, high: int) -> None:
        """Everything below `high` is delivered."""
        self._state[PASSED] = high
        self._set_last(int(self._ids[high - 1, 0]), int(self._ids[high - 1, 1]))

    def _set_last(self, time: int, source: int) -> None:
        self.last = time, source
        self._state[LAST_TIME], self._state[LAST_SOURCE] = time, source

    def start_after(self, time: int) -> None:
        """Nothing up to `time` is of interest here."""
        self.merge()
        state = self._state
        self._set_last(time, LAST_OF_ALL)
        times = self._ids[: state[COUNT], 0]
        state[PASSED] = np.searchsorted(times, time, side="right")

    def waiting_after(self, time: int) -> Any:
        """The places of the entries that are, what is new included once it is merged."""
        count = int(self._state[COUNT])
        first = int(np.searchsorted(self._ids[:count, 0], time, side="right"))
        return np.arange(max(first, int(self._state[PASSED])), count, dtype=np.int32)

    def forget_after(self, time: int) -> None:
        """Nothing later than `time` is known here, nor was."""
        self.merge()
        state = self._state
        count = int(state[COUNT])
        kept = int(np.searchsorted(self._ids[:count, 0], time, side="right"))
        state[LIVE] -= (self._ids[kept:count, 3] & SIZE_MASK).sum()
        state[COUNT] = kept
        state[PASSED] = min(int(state[PASSED]), kept)
        state[NEWEST] = self._ids[kept - 1, 0] if kept else 0
        self._indexed = False

    def columns(self, low: int, high: int) -> Any:
        """The ids of entries: timestamp, source, first number, rows << 32 | bytes."""
        return self._ids[low:high]

    def waiting(self) -> tuple[Any, Any]:
        """Ids of the entries that are not delivered, as of the last round, and the rounds they were
        born in."""
        low, high = self._state[PASSED], self._state[COUNT]
        return self._ids[low:high], self._born[low:high]

    # -- rounds ----------------------------------------------------------------------------------

    def begin_round(self, ttl: int, hop: int) -> Any:
        """`merge`, and make all as old as was said, but no older than `ttl`."""
        late = self.merge()
        self._rounds.grow_older(
            self.round, ttl, hop, self._born, self._spoken, self._heard, self._state
        )
        return late

    def merge(self) -> Any:
        """Put in order what is new: the places of new entries that the order has passed already."""
        state = self._state
        fresh = int(state[FRESH])
        if not fresh:
            return ()
        count, room = int(state[COUNT]), room_for(fresh)
        new = self._ids[count : count + fresh]
        late = np.empty(room, dtype=np.int32)
        found = self._rounds.merge(
            self.round, self._ids, self._born, self._spoken, self._heard, self._at, state,
            _ascending(new[:, 0], new[:, 1]), np.empty((room, 6), dtype=np.int64), late,
        )  # fmt: skip
        self._indexed = False
        return late[:found]

    def next_ball(self, ttl: int, max_bytes: int, repeat: bool) -> list[tuple[int, bytes]]:
        """What is passed on in this round, in as few parts as have at most so many bytes (or one
        entry): their entries and columns."""
        rows = np.empty(room_for(self.entries), dtype=np.int32)
        rows = rows[: self._relayed(ttl, repeat, rows)]
        if not len(rows):
            return []
        total = self._k.packed_size(rows, self._ids)
        if total <= max_bytes:
            return [(len(rows), self._packed(rows, total))]
        sizes = (self._ids[rows, 3] & SIZE_MASK) + ENTRY_BYTES
        ends = np.cumsum(sizes)
        parts, low, sent = [], 0, 0
        while low < len(rows):
            high = max(low + 1, int(np.searchsorted(ends, sent + max_bytes, side="right")))
            size = int(ends[high - 1]) - sent
            parts.append((high - low, self._packed(rows[low:high], size)))
            low, sent = high, int(ends[high - 1])
        return parts

    def _relayed(self, ttl: int, repeat: bool, rows: Any) -> int:
        found: int = self._rounds.relayed(
            self.round, ttl, repeat, self._born, self._heard, self._state, rows
        )
        return found

    def _packed(self, rows: Any, size: int) -> bytes:
        ball = np.empty(room_for(size), dtype=np.uint8)[:size]
        self._k.pack(rows, self._ids, self._heard, self._at, self._arena, ball)
        ball.flags.writeable = False
        return cast(bytes, ball.data)  # a view serves as well, and nothing is copied

    def end_round(self, sent: bool) -> None:
        """`sent`: the ball of this round has gone to somebody."""
        state = self._state
        self._indexed = False
        self._rounds.forget_passed(
            self.round - _SILENT_ROUNDS, not sent, self._ids, self._born, self._spoken, self._heard,
            self._at, state,
        )  # fmt: skip
        if state[USED] > 2 * state[LIVE] + _SMALL_ARENA:
            self._compact(0)
        self.round += 1

    def publish(self, time: int, source: int, batch: EventBatch) -> None:
        """An event of this node: into the next ball, with ttl 0."""
        dropped = self.dropped
        found = self.absorb(columns_of(time, source, batch), 1, 1, LAST_OF_ALL)
        if found or self.dropped > dropped:
            raise InvariantViolation(f"no room for {batch!r} of this node, which it had offered")

    def check(self) -> None:
        state = self._state
        count, passed = int(state[COUNT]), int(state[PASSED])
        times, sources = self._ids[:count, 0], self._ids[:count, 1]
        ascending = (times[1:] > times[:-1]) | (
            (times[1:] == times[:-1]) & (sources[1:] > sources[:-1])
        )
        if not ascending.all():
            raise InvariantViolation(f"entries are not in order: {times.tolist()[:50]}")
        keys = list(zip(times.tolist(), sources.tolist(), strict=True))
        if any(key > self.last for key in keys[:passed]) or any(
            key <= self.last for key in keys[passed:]
        ):
            raise InvariantViolation(f"{passed} of {count} entries are up to {self.last}")
        everything = self.entries
        live = int((self._ids[:everything, 3] & SIZE_MASK).sum())
        if self.taken_bytes > self._max_bytes or self.taken_entries > self._max_entries:
            raise InvariantViolation(f"{self.taken_entries} entries, {self.taken_bytes} bytes")
        if live != state[LIVE] or everything > self._max_entries or live > self._max_bytes:
            raise InvariantViolation(f"{count} entries of {live} bytes, counted {state[LIVE]}")


def _ascending(times: NDArray[Any], sources: NDArray[Any]) -> NDArray[Any]:
    """The order by time, then source. Balls bring times in runs that ascend, which are quick to
    sort; sources come in no order at all and matter only where times are the same."""
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    if (ordered[1:] == ordered[:-1]).any():
        order = np.lexsort((sources, times))
    return order
