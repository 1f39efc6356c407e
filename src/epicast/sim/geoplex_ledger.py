"""Who is owed what in a simulated geoplex, kept outside of the protocol.

What counts is what the owner's disk has stored, in that order. Every delivery is held against it;
what is wrong is counted, and the first few cases are described.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct

from epicast.core import EventBatch, NodeId, Publication

_DESCRIBED = 5


class StreamTruth:
    """The events of one stream in the epoch its owner is in."""

    def __init__(self, name: str, owner: NodeId) -> None:
        self.name = name
        self.owner = owner
        self.epoch = 0
        self.events: list[bytes] = []
        """Key and payload of each, number 1 first."""
        self.firsts: list[int] = []
        """Where publications begin, and when each was published."""
        self.published_at: list[int] = []


class Session(Struct):
    """An agent's subscription to one stream: it outlives restarts of its node."""

    stream: int
    since: int
    """When it began."""
    epoch: int = 0
    end: int = 0


class GeoplexLedger:
    def __init__(self, streams: Mapping[int, StreamTruth]) -> None:
        self._streams = streams
        self._published_at: dict[tuple[int, int, int], int] = {}
        """By stream, publisher and its number of the first event."""
        self.sessions: dict[tuple[NodeId, int], Session] = {}
        self._acknowledged_ends: dict[int, dict[int, int]] = {stream: {} for stream in streams}
        """By stream and epoch, the highest number acknowledged."""
        self.published = self.acknowledged = self.refused = 0
        self.delivered = self.tombstoned = self.restarts = 0
        self.out_of_order = self.wrong = 0
        self.delays_ns: array[int] = array("q")
        """One per delivered batch, of those whose subscriber was there when it was published."""
        self.problems: list[str] = []

    def on_publish(self, now: int, publisher: NodeId, batch: EventBatch) -> None:
        self.published += batch.rows
        self._published_at[batch.stream, publisher, batch.first] = now

    def on_stored(self, node: NodeId, batch: EventBatch) -> None:
        """A proxy's disk has a batch; only the owner's counts."""
        truth = self._streams[batch.stream]
        if node != truth.owner:
            return
        if batch.epoch != truth.epoch:
            truth.epoch = batch.epoch
            truth.events, truth.firsts, truth.published_at = [], [], []
        first = batch.first
        if first != len(truth.events) + 1:
            self.wrong += 1
            self._note(f"{truth.name}: the owner stored {first} after {len(truth.events)}")
        for run in batch.runs:
            known = self._published_at.get((batch.stream, run.publisher, run.first))
            truth.firsts.append(first)
            truth.published_at.append(-1 if known is None else known)
            first += run.count
        truth.events += _contents(batch)

    def on_acknowledge(self, publication: Publication, seq: int) -> None:
        self.acknowledged += publication.batch.rows
        stream = publication.batch.stream
        ends, epoch = self._acknowledged_ends[stream], self._streams[stream].epoch
        ends[epoch] = max(seq, ends.get(epoch, 0))

    def on_refuse(self, publication: Publication) -> None:
        self.refused += publication.batch.rows

    def on_restarted(self, node: NodeId, number: int, epoch: int, seq: int) -> None:
        session = self.sessions[node, number]
        session.epoch, session.end = epoch, seq
        self.restarts += 1

    def on_delivery(self, now: int, node: NodeId, number: int, batch: EventBatch) -> None:
        session, truth = self.sessions[node, number], self._streams[batch.stream]
        if session.epoch in (0, batch.epoch) and batch.first == session.end + 1:
            session.epoch, session.end = batch.epoch, batch.last
        else:
            self.out_of_order += 1
            self._note(f"{truth.name}: {batch.first} came after {session.end}")
        self.delivered += batch.rows
        self.tombstoned += batch.tombstones
        if batch.epoch != truth.epoch:
            return  # of an epoch whose owner has lost it: nothing to compare with
        events = truth.events
        if batch.last > len(events):
            self.wrong += 1
            self._note(f"{truth.name}: {batch.last} was delivered before it was stored")
        elif _contents(batch) != [events[seq - 1] for seq in batch.seqs.tolist()]:
            self.wrong += 1
            self._note(f"{truth.name}: {batch.first}..{batch.last} is not what was published")
        else:
            published = truth.published_at[bisect_right(truth.firsts, batch.last) - 1]
            if published >= session.since:
                self.delays_ns.append(now - published)

    # -- the end ---------------------------------------------------------------------------------

    def account(self) -> tuple[int, int]:
        """Numbers owed to all subscriptions there are, and those they have, tombstones included."""
        owed = had = 0
        for session in self.sessions.values():
            truth = self._streams[session.stream]
            owed += len(truth.events)
            had += min(session.end, len(truth.events)) if session.epoch == truth.epoch else 0
        return owed, had

    def forgotten(self) -> int:
        """Events acknowledged that their owner does not have any more."""
        lost = 0
        for stream, ends in self._acknowledged_ends.items():
            truth = self._streams[stream]
            for epoch, end in ends.items():
                lost += max(0, end - len(truth.events)) if epoch == truth.epoch else end
        return lost

    def _note(self, problem: str) -> None:
        if len(self.problems) < _DESCRIBED:
            self.problems.append(problem)


def _contents(batch: EventBatch) -> list[bytes]:
    """Key and payload of each row, joined."""
    bounds, data = batch.offsets[::2].tolist(), bytes(batch.data)
    return [data[begin:end] for begin, end in pairwise(bounds)]
