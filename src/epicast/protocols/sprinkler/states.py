"""What a proxy knows of one stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from epicast.core import Effects, EventBatch, InvariantViolation
from epicast.core.effects import BeginEpoch
from epicast.core.epochs import in_epoch
from epicast.protocols.sprinkler.messages import Counter, StreamInfo
from epicast.protocols.sprinkler.recent import RecentBatches

_JOINED_BYTES = 256 << 10


class StreamState:
    """How far it is: `taken` was handed to the store, `stored` is in it, and `end` may be shown.

    Where a proxy is alone, what is stored may be shown; in a chain, what all replicas have stored.
    """

    __slots__ = (
        "_hidden",
        "_numbered",
        "_unstored",
        "_unwritten",
        "end",
        "epoch",
        "hidden_bytes",
        "id",
        "info",
        "recent",
        "stored",
        "taken",
    )

    def __init__(self, info: StreamInfo, epoch: int, end: int, recent_bytes: int) -> None:
        self.id = info.id
        self.info = info
        self.epoch = epoch
        self.end = self.stored = self.taken = end
        self.recent = RecentBatches(recent_bytes)
        """Up to what is stored."""
        self.hidden_bytes = 0
        """Of what was taken and may not be shown yet."""
        self._numbered: list[EventBatch] = []
        self._unstored: deque[EventBatch] = deque()
        self._hidden: deque[EventBatch] = deque()
        """Stored, but not shown."""
        self._unwritten: BeginEpoch | None = None
        """The order to begin an epoch that the history could not carry out, if any. Nothing more is
        stored until the order is given again."""

    @property
    def counter(self) -> Counter:
        return Counter(self.id, self.epoch, self.end)

    def number(self, batch: EventBatch) -> None:
        """A publication was given the numbers behind `taken`."""
        self.taken = batch.last
        self._numbered.append(batch)

    def take_numbered(self) -> list[EventBatch]:
        """What was numbered since the last time, joined to fewer and larger batches: to store."""
        joined: list[EventBatch] = []
        group: list[EventBatch] = []
        size = 0
        for batch in self._numbered:
            if group and size + batch.wire_size() > _JOINED_BYTES:
                joined.append(EventBatch.joined(group))
                group, size = [], 0
            group.append(batch)
            size += batch.wire_size()
        if group:  # an epoch may have begun since, and everything be void
            joined.append(EventBatch.joined(group))
        self._numbered = []
        for batch in joined:
            self.take(batch)
        return joined

    def take(self, batch: EventBatch) -> None:
        """The batch behind `taken` was handed to the store."""
        self.taken = batch.last
        self._unstored.append(batch)
        self.hidden_bytes += batch.wire_size()

    def store(self, seq: int) -> list[EventBatch]:
        """Everything up to `seq` is stored: what of it was not before."""
        self._unwritten = None  # or nothing would have been stored
        stored: list[EventBatch] = []
        unstored = self._unstored
        while unstored and unstored[0].last <= seq:
            batch = unstored.popleft()
            self.recent.add(batch)
            stored.append(batch)
        if stored:
            self.stored = stored[-1].last
            self._hidden += stored
        return stored

    def forget_hidden(self, most_bytes: int) -> None:
        """Keep only the newest of what may not be shown yet at hand: the rest can be read again."""
        while self.hidden_bytes > most_bytes and len(self._hidden) > 1:
            self.hidden_bytes -= self._hidden.popleft().wire_size()

    def show(self, seq: int) -> list[EventBatch]:
        """Everything up to `seq` may be shown, as far as it is here: what was not before. Something
        may be missing in front of it that is not at hand any more."""
        shown: list[EventBatch] = []
        hidden = self._hidden
        while hidden and hidden[0].first <= seq:
            batch = hidden.popleft()
            if batch.last > seq:  # other replicas may have stored it in other pieces
                hidden.appendleft(batch.slice(seq + 1, batch.last))
                batch = batch.slice(batch.first, seq)
            self.hidden_bytes -= batch.wire_size()
            shown.append(batch)
        if shown:
            self.end = shown[-1].last
        if not hidden and not self._unstored:
            self.hidden_bytes = 0  # pieces are larger than the whole
        return shown

    def fail(self, first: int) -> None:
        """Nothing from `first` on was stored."""
        unstored = self._unstored
        while unstored and unstored[-1].first >= first:
            self.hidden_bytes -= unstored.pop().wire_size()
        self.taken = unstored[-1].last if unstored else self.stored

    @property
    def is_stuck(self) -> bool:
        """Whether the history has yet to begin an epoch, and stores nothing before that."""
        return self._unwritten is not None

    def begin_epoch(self, epoch: int, fx: Effects, *, keeps: bool, aside: int = 0) -> None:
        """Have the history go on in an epoch."""
        order = BeginEpoch(self.id, epoch, keeps, aside).after(self._unwritten)
        self._unwritten = None
        fx.begin_epoch(self.id, order.epoch, keeps=order.keeps, aside=order.aside)

    def not_begun(self, order: BeginEpoch) -> None:
        """The history could not begin an epoch."""
        self._unwritten = order.after(self._unwritten)

    def begin_again(self, fx: Effects) -> None:
        """Order once more what the history could not do. One that is to forget everything must not
        forget what a later order has made room for."""
        order = self._unwritten
        if order is not None and (order.keeps or not self.taken):
            self.begin_epoch(self.epoch, fx, keeps=order.keeps, aside=order.aside)

    def restart(self, epoch: int, fx: Effects, aside: int = 0) -> None:
        """A new epoch begins: everything of the old one is void, and its history is forgotten, or
        set aside from a number on."""
        self.begin_epoch(epoch, fx, keeps=False, aside=aside)
        self.epoch = epoch
        self.end = self.stored = self.taken = 0
        self.recent.clear()
        self._numbered = []
        self._unstored.clear()
        self._hidden.clear()
        self.hidden_bytes = 0

    def relabel(self, epoch: int) -> None:
        """A new epoch begins with everything that is here."""
        self.epoch = epoch
        self.recent.clear()
        self._numbered = [in_epoch(batch, epoch) for batch in self._numbered]
        self._unstored = deque(in_epoch(batch, epoch) for batch in self._unstored)
        self._hidden = deque(in_epoch(batch, epoch) for batch in self._hidden)

    def check_invariants(self) -> None:
        if not self.end <= self.stored <= self.taken:
            raise InvariantViolation(
                f"stream {self.info.name}: {self.end} is shown, {self.stored} is stored, "
                f"{self.taken} was taken"
            )
        if self.recent.last and self.recent.last != self.stored:
            raise InvariantViolation(
                f"stream {self.info.name}: {self.recent.last} at hand, {self.stored} stored"
            )


Reach = Callable[[StreamState], int]
"""How far somebody may see into a stream."""


def shown_end(state: StreamState) -> int:
    return state.end


def stored_end(state: StreamState) -> int:
    return state.stored
