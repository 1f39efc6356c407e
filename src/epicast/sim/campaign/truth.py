"""What a stream is, epoch by epoch: what its region has made stable, in that order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from msgspec import Struct

from epicast.core import EpicastError, EventBatch, EventKind, IntervalSet
from epicast.log import GcPolicy, split_gc_payload
from epicast.log.predicate.ast import SeqBelow
from epicast.sim.campaign.collecting import ALIVE, Collected
from epicast.sim.campaign.columns import EventColumns


class Broken(EpicastError):
    """A guarantee does not hold; the message says which, and where."""


class Place(Struct, frozen=True):
    """Numbers of a publisher, and where the first of them is in the stream."""

    first: int
    last: int
    seq: int


class EpochTruth:
    def __init__(self, stream: str, number: int, policy: GcPolicy) -> None:
        self.stream = stream
        self.number = number
        self._policy = policy
        self._batches: list[EventBatch] = []
        self._columns = EventColumns()
        self._collected = Collected(policy, self._columns)
        self.places: dict[int, list[Place]] = {}
        """By publisher, ascending."""
        self.excused: frozenset[int] = frozenset()
        """Numbers collected by events that were then lost with a damaged disk: compaction may have
        removed them for good before. They may be buried although nothing collects them any more;
        no history can bring them back. A crash without damage excuses nothing: compaction must not
        be ahead of what is synced."""
        self._compared: dict[int, EventBatch] = {}
        """Batches that were found to be right. Messages are shared, so most come many times."""
        self.reveal: Callable[[int], bool] = lambda _: False
        """Takes for shown, in the epoch named, what every replica has: they may know that, and bury
        what it collects, before anybody was shown it. Whether it cannot be told what they have."""
        self.forgets_publishers = False
        """Whether a restarted owner may take a repetition for news, as retention dropped it."""
        self._foreseen: set[int] = set()
        """Numbers that were buried when that could not be told, and nothing had collected them."""

    @property
    def end(self) -> int:
        return self._columns.rows

    def beginning(self, epoch: int, end: int, *, damaged: bool) -> EpochTruth:
        """Another epoch that starts out with everything up to `end` of this one."""
        other = EpochTruth(self.stream, epoch, self._policy)
        other.excused = self.excused
        other.reveal = self.reveal
        other.forgets_publishers = self.forgets_publishers
        if damaged:
            by = self._collected.by[:end]
            gone = np.flatnonzero((by != ALIVE) & (by > end)) + 1
            other.excused |= frozenset(gone.tolist())
        for batch in self._batches:
            if batch.first <= end:
                other.take(batch.slice(batch.first, min(batch.last, end)))
        return other

    # -- what the region stores ------------------------------------------------------------------

    def take(self, batch: EventBatch) -> None:
        """The region has made a batch stable."""
        if batch.first != self.end + 1 or batch.tombstones:
            raise Broken(f"{self._name}: the owner stored {batch} behind {self.end}")
        seq = batch.first
        for run in batch.runs:
            places = self.places.setdefault(run.publisher, [])
            known, last = places[-1].last if places else 0, run.first + run.count - 1
            if run.first <= known and not self.forgets_publishers:
                raise Broken(
                    f"{self._name}: number {run.first} of publisher {run.publisher} was stored "
                    f"behind its number {known}: twice, or out of order"
                )
            new = max(run.first, known + 1)
            if new <= last:
                places.append(Place(new, last, seq + new - run.first))
            seq += run.count
        if seq != batch.last + 1:
            raise Broken(f"{self._name}: {batch} does not say who published it")
        self._columns.add(batch)
        self._collected.take_new()
        self._batches.append(batch)
        if not batch.only_data:
            self._check_age(batch)

    def _check_age(self, batch: EventBatch) -> None:
        """What expires must be old enough by the clock that stamped it."""
        most = self._policy.max_age_ns
        for row in np.flatnonzero(batch.kinds == EventKind.GC).tolist() if most else ():
            seq = batch.first + row
            own, tail = split_gc_payload(self._columns.payload(seq - 1))
            if tail or not isinstance(own, SeqBelow):
                continue  # a publisher's own
            times = self._columns.times.all
            gone = np.flatnonzero(self._collected.by[: own.bound - 1] == seq)
            data = gone[self._columns.kinds.all[gone] == EventKind.DATA]
            if len(data) and most is not None and times[data].max() > times[seq - 1] - most:
                raise Broken(f"{self._name}: {seq} collects events younger than they may become")

    def place_of(self, publisher: int, number: int) -> int:
        """Where in the stream a publication is; 0 if it is not in it."""
        for place in reversed(self.places.get(publisher, ())):
            if place.first <= number:
                return place.seq + number - place.first if number <= place.last else 0
        return 0

    def beyond(self, end: int) -> list[tuple[int, int, int]]:
        """Publishers and their numbers that lie behind `end`."""
        found = []
        for publisher, places in self.places.items():
            for place in places:
                first = place.first + max(0, end + 1 - place.seq)
                if first <= place.last:
                    found.append((publisher, first, place.last))
        return found

    def common_end(self, pieces: Iterable[EventBatch]) -> int:
        """How far pieces without gaps, from the first number on, are the same as this."""
        end = 0
        for piece in pieces:
            if self._columns.differs(piece, 1):
                break
            end = piece.last
        return end

    # -- what others have ------------------------------------------------------------------------

    def compare(self, who: str, batch: EventBatch) -> None:
        """Everything in a batch is stable, and what it buries has been collected by now."""
        if self._compared.get(id(batch)) is batch:
            return
        if batch.last > self.end:
            raise Broken(f"{who}: {self._name} up to {batch.last}, of which {self.end} are stable")
        problem = self._columns.differs(batch, 1)
        if problem:
            raise Broken(f"{who}: {self._name}: {problem}")
        if batch.tombstones:
            self._check_buried(who, batch)
        self._compared[id(batch)] = batch

    def _check_buried(self, who: str, batch: EventBatch) -> None:
        if not self._buried_alive(batch):
            return
        is_unsure = self.reveal(self.number)
        for seq in self._buried_alive(batch):
            if not is_unsure:
                self._complain_of(seq, who)
            self._foreseen.add(seq)

    def _buried_alive(self, batch: EventBatch) -> list[int]:
        """What it buries that nothing has collected, and nothing excuses."""
        by = self._collected.by[batch.first - 1 : batch.last]
        buried = np.ones(len(by), dtype=bool)
        buried[batch.seqs.astype(np.int64) - batch.first] = False
        early = (np.flatnonzero(buried & (by == ALIVE)) + batch.first).tolist()
        return [seq for seq in early if seq not in self.excused]

    def check_foreseen(self) -> None:
        """Everything stored has been shown: what was buried before its collector was shown has been
        collected by now."""
        for seq in sorted(self._foreseen):
            if self._collected.by[seq - 1] == ALIVE:
                self._complain_of(seq, "somebody")
        self._foreseen.clear()

    def _complain_of(self, seq: int, who: str) -> None:
        raise Broken(f"{who}: {self._name}: {seq} is buried, and nothing has collected it")

    def live(self) -> set[int]:
        """The numbers that are left once all are known."""
        return set((np.flatnonzero(self._collected.by == ALIVE) + 1).tolist())

    @property
    def _name(self) -> str:
        return f"{self.stream}, epoch {self.number}"


class StreamTruth:
    """All epochs of one stream. Events may be lost only where that was announced."""

    def __init__(
        self, name: str, region: str, policy: GcPolicy, *, synced: bool, on_files: bool
    ) -> None:
        self.name = name
        self.region = region
        self.synced = synced
        """Whether events are stable only once they are synced, wherever there are files."""
        self.durable = synced and on_files
        """Whether everything stable survives a crash of its region."""
        self._policy = policy
        self.epochs: dict[int, EpochTruth] = {}
        self.epoch = 0
        self.forgets_publishers = False
        """See `EpochTruth`."""
        self.may_lose = False
        """Its region has lost a disk, or part of one, since it was last opened."""
        self.losses = 0
        self.lost: dict[int, IntervalSet] = {}
        """By publisher: numbers that were stored and that it was allowed to lose."""

    @property
    def now(self) -> EpochTruth:
        found = self.epochs.get(self.epoch)
        if found is None:
            found = self.epochs[self.epoch] = EpochTruth(self.name, self.epoch, self._policy)
            found.forgets_publishers = self.forgets_publishers
        return found

    def has_begun(self, epoch: int) -> bool:
        """Whether others may know of an epoch; 0 is that of a stream they have nothing of."""
        return epoch in (0, self.epoch) or epoch in self.epochs

    def take(self, batch: EventBatch) -> None:
        if batch.epoch != self.epoch:
            raise Broken(
                f"{self.name}: stored in epoch {batch.epoch}, opened in epoch {self.epoch}"
            )
        self.now.take(batch)

    def opened(self, epoch: int, end: int) -> None:
        """Its region has started, and this is what it has of the stream."""
        may_lose, self.may_lose = self.may_lose, False
        if not self.epoch:
            self.epoch = epoch
            return
        before = self.now
        if epoch == self.epoch:
            if end != before.end:
                raise Broken(
                    f"{self.name}: {before.end} were stable, its region has {end}, and the epoch "
                    f"is still {epoch}"
                )
            return
        if epoch <= max(self.epochs):
            raise Broken(f"{self.name}: epoch {epoch} after epoch {self.epoch}")
        if self.durable and not may_lose:
            raise Broken(f"{self.name}: a new epoch, although nothing can have been lost")
        for publisher, first, last in before.beyond(end):
            self.lost.setdefault(publisher, IntervalSet()).add(first, last)
        self.epochs[epoch] = before.beginning(epoch, end, damaged=may_lose)
        self.epoch = epoch
        self.losses += 1
