"""What was published beside what was delivered: the part of it that one file holds.

Events are known by their contents. How an event is numbered is known from whoever got it; where
nobody did, from its acknowledgement no more than that it is not above some number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epicast_checker.findings import StreamFindings, SubscriberFindings
from epicast_checker.format import Collects
from epicast_checker.spilling import NUMBERED, Records

U64 = NDArray[np.uint64]
Flags = NDArray[np.bool_]


@dataclass
class Reader:
    """A subscriber of a stream, as the pass over its log has left it."""

    number: int
    findings: SubscriberFindings
    epoch: int
    """The last one it was in."""
    first: int
    """Where it began in that epoch."""
    high: int
    """How far it got in it."""


class Published:
    """The events of one stream that one file holds, in the order of their contents."""

    def __init__(self, records: Records, findings: StreamFindings) -> None:
        order = np.argsort(records["content"], kind="stable")
        records = records[order]
        new = np.append(True, records["content"][1:] != records["content"][:-1])
        starts = np.flatnonzero(new)
        self.contents: U64 = records["content"][starts]
        self.keys: U64 = records["key"][starts]
        self.numbers: U64 = records["number"][starts]
        self.publishers = records["publisher"][starts]
        self.acked: Flags = np.maximum.reduceat(records["acked"], starts) > 0
        self.bounds: U64 = np.maximum.reduceat(records["seq"], starts)
        """None of them is above this, in the epoch they were acknowledged in."""
        self.bound_epochs = np.maximum.reduceat(records["epoch"], starts)
        sent = np.minimum.reduceat(records["acked"], starts) == 0
        lengths = np.diff(starts, append=len(new))
        differs = (records["number"] != np.repeat(self.numbers, lengths)) | (
            records["publisher"] != np.repeat(self.publishers, lengths)
        )
        findings.sent += int(sent.sum())
        findings.acked += int(self.acked.sum())
        findings.acked_unsent += int((self.acked & ~sent).sum())
        findings.ambiguous += int(np.logical_or.reduceat(differs, starts).sum())
        self._key_values, self.key_of = np.unique(self.keys, return_inverse=True)

    def __len__(self) -> int:
        return len(self.contents)

    def find(self, contents: U64) -> tuple[NDArray[np.int64], Flags]:
        """Where each is, and whether it is there at all."""
        contents = np.ascontiguousarray(contents)
        order = np.argsort(contents)  # looking up what is sorted is several times faster
        at = np.empty(len(contents), dtype=np.int64)
        at[order] = np.searchsorted(self.contents, contents[order])
        at = np.minimum(at, len(self) - 1)
        return at, self.contents[at] == contents

    @property
    def key_count(self) -> int:
        return len(self._key_values)


class Deliveries(NamedTuple):
    """Columns of what was delivered of events that were published."""

    at: NDArray[np.int64]
    """Which event."""
    epochs: NDArray[np.uint32]
    seqs: U64

    def between(self, low: int, high: int) -> Deliveries:
        return Deliveries(self.at[low:high], self.epochs[low:high], self.seqs[low:high])

    def where(self, chosen: Flags) -> Deliveries:
        if chosen.all():
            return self
        return Deliveries(self.at[chosen], self.epochs[chosen], self.seqs[chosen])


def match(
    published: Records,
    delivered: Records,
    readers: list[Reader],
    collects: Collects,
    findings: StreamFindings,
    stream: int,
) -> Records:
    """Count what is wrong with one stream, as far as this file goes; returns how the events of
    publishers are numbered, for those of which that is known."""
    if not len(published):
        for reader in readers:
            forged = delivered["subscriber"] == reader.number
            reader.findings.forged += int(forged.sum())
        return np.empty(0, dtype=NUMBERED)
    events = Published(published, findings)
    at, known = events.find(delivered["content"])
    got = Deliveries(at, *map(np.ascontiguousarray, (delivered["epoch"], delivered["seq"])))
    newest = max((reader.epoch for reader in readers), default=0)
    numbered = _numbers(events, got.where(known), newest, findings)
    latest = _latest(events, np.arange(len(events)), numbered)
    somebody_has = np.zeros(len(events), dtype=bool)
    missed = np.zeros(len(events), dtype=bool)
    subscribers = np.ascontiguousarray(delivered["subscriber"])  # one after the other
    for reader in readers:
        low, high = np.searchsorted(subscribers, [reader.number, reader.number + 1]).tolist()
        mine = got.between(low, high).where(known[low:high])
        reader.findings.forged += high - low - len(mine.at)
        if reader.epoch == newest:
            seqs, successors = numbered, latest
        else:  # of its epoch no more is known than what it has seen itself
            old = mine.where(mine.epochs == reader.epoch)
            seqs = np.zeros(len(events), dtype=np.uint64)
            successors = _latest(events, old.at, old.seqs)
        somebody_has |= _judge(reader, events, mine, seqs, successors, collects, missed)
    findings.lost += int((missed & ~somebody_has).sum())
    return _as_records(events, numbered, stream)


def _numbers(events: Published, got: Deliveries, epoch: int, findings: StreamFindings) -> U64:
    """The number of each event in the newest epoch; 0 where nobody has it there."""
    current = got.where(got.epochs == epoch)
    places, seqs = current.at, current.seqs
    numbered = np.zeros(len(events), dtype=np.uint64)
    numbered[places] = seqs
    differs = seqs != numbered[places]
    if differs.any():
        findings.numbered_twice += len(np.unique(places[differs]))
        # The first one counts, whoever came first in the logs.
        np.minimum.at(numbered, places[differs], seqs[differs])
    return numbered


def _judge(
    reader: Reader,
    events: Published,
    got: Deliveries,
    numbered: U64,
    latest: U64,
    collects: Collects,
    missed: Flags,
) -> Flags:
    """What a subscriber has; what it should have and has not is counted, and added to `missed`.

    `latest`: of each key, the highest number there is in the subscriber's epoch.
    """
    # Below where it began in its last epoch, what it had before counts.
    counts = (got.epochs == reader.epoch) | (got.seqs < reader.first)
    has = np.zeros(len(events), dtype=bool)
    has[got.where(counts).at] = True
    absent = np.flatnonzero(events.acked & ~has)
    if not len(absent):
        return has
    seqs = numbered[absent]
    certain = seqs > 0
    bounds = np.where(certain, seqs, events.bounds[absent])
    same_epoch = certain | (events.bound_epochs[absent] == reader.epoch)
    high = np.uint64(reader.high)
    below = same_epoch & (bounds < np.uint64(reader.first))
    owed_for_sure = certain | (reader.first <= 1)
    if not reader.findings.closed:
        # It may have crashed before the rest came: owed is what it had got beyond.
        owed_for_sure &= same_epoch & (bounds <= high)
        below |= ~(same_epoch & (bounds <= high))
    absent_owed = ~below
    collected = np.zeros(len(absent), dtype=bool)
    unsure = absent_owed & ~owed_for_sure
    if reader.findings.tombstones and collects is not Collects.NOTHING:
        if collects is Collects.ANYTHING:
            collected = absent_owed.copy()
        else:
            successor = latest[events.key_of[absent]]
            keyed = events.keys[absent] != 0
            collected = absent_owed & keyed & same_epoch & (successor > bounds)
            unsure |= absent_owed & keyed & ~certain & (successor > 0) & ~collected
    unsure &= ~collected
    lost = absent_owed & ~collected & ~unsure
    findings = reader.findings
    findings.collected += int(collected.sum())
    findings.undecided += int(unsure.sum())
    findings.never_delivered += int(lost.sum())
    missed[absent[lost]] = True
    return has


def count_tombstones(reader: Reader) -> int:
    """After all files: each event that is said to be collected has its own tombstone among those
    the reader got. What is beyond their number is gone; how many events that are."""
    findings = reader.findings
    gone = max(0, findings.collected + findings.undecided - findings.tombstones)
    surely = reader.first <= 1 and not findings.resets
    if not surely:  # some of them may have been before where it began
        moved = min(gone, findings.collected)
        findings.collected -= moved
        findings.undecided += moved
        return 0
    of_collected = min(gone, findings.collected)
    findings.collected -= of_collected
    findings.undecided -= gone - of_collected
    findings.never_delivered += gone
    return gone


def _latest(events: Published, at: NDArray[np.int64], seqs: U64) -> U64:
    """The highest number of each key among some events."""
    latest = np.zeros(events.key_count, dtype=np.uint64)
    order = np.argsort(seqs, kind="stable")
    latest[events.key_of[at[order]]] = seqs[order]  # of several for one place the last one stays
    return latest


def _as_records(events: Published, numbered: U64, stream: int) -> Records:
    there = np.flatnonzero(numbered)
    records = np.empty(len(there), dtype=NUMBERED)
    records["number"] = events.numbers[there]
    records["seq"] = numbered[there]
    records["publisher"] = events.publishers[there]
    records["stream"] = stream
    return records
