"""What is owed to whom, kept outside of the protocol.

The truth is what the owner's disk has made durable, number by number. From it the auditor judges
every delivery as it happens, every acknowledgement, and, when all is quiet, what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from epicast.core import Event, EventBatch, NodeId, Publication
from epicast.core.effects import BeginEpoch
from epicast.log import GcPolicy
from tests.log.reference import collects, predicate_of


class Broken(AssertionError):
    """A guarantee does not hold."""


class Stored(NamedTuple):
    """How far one proxy's disk is in a stream."""

    epoch: int
    end: int


class Session:
    """One application's subscription, across restarts of its node."""

    def __init__(self, name: str, stream: int, window: int) -> None:
        self.name = name
        self.stream = stream
        self.window = window
        self.epoch = 0
        self.next = 1
        self.rows: list[int] = []
        """Numbers of the epoch delivered with a row."""
        self.tombstones: list[tuple[int, int]] = []
        self.restarts: list[int] = []
        self.skipped: list[tuple[int, int]] = []
        """Numbers of the epoch that resets have told to be gone."""

    @property
    def watermark(self) -> tuple[int, int]:
        return self.epoch, self.next - 1

    def begin(self, epoch: int, seq: int = 0) -> None:
        if epoch != self.epoch:
            self.epoch, self.next = epoch, 1
            self.rows, self.tombstones, self.skipped = [], [], []
        if seq:
            self.skipped.append((self.next, seq))
            self.next = seq + 1


class Auditor:
    def __init__(self, policies: dict[int, GcPolicy]) -> None:
        self._policies = policies
        self.truth: dict[int, dict[int, list[Event]]] = {stream: {} for stream in policies}
        """By stream and epoch: the events in order, number 1 first."""
        self.stored: dict[tuple[NodeId, int], Stored] = {}
        self._ever_stored: dict[tuple[NodeId, int, int], int] = {}
        """By proxy, stream and epoch: how far its disk has been, lost since or not."""
        self.sessions: dict[tuple[NodeId, int], Session] = {}
        self.lost_epochs: set[tuple[int, int]] = set()
        self.dropped: set[tuple[int, int, int]] = set()
        """Stream, epoch and number up to which the retention of some proxy dropped everything."""
        self.published: dict[int, dict[bytes, str]] = {stream: {} for stream in policies}
        """By stream and payload: what has become of it."""
        self.acknowledged = self.refused = self.delivered = self.buried = 0

    # -- what disks say --------------------------------------------------------------------------

    def on_stored(self, owner: bool, node: NodeId, batch: EventBatch) -> None:
        before = self.stored.get((node, batch.stream), Stored(0, 0))
        expected = before.end + 1 if batch.epoch == before.epoch else 1
        if batch.epoch < before.epoch or batch.first != expected:
            raise Broken(f"disk of {node}: {batch} of epoch {batch.epoch} follows {before}")
        self.stored[node, batch.stream] = Stored(batch.epoch, batch.last)
        known = self._ever_stored.get((node, batch.stream, batch.epoch), 0)
        self._ever_stored[node, batch.stream, batch.epoch] = max(known, batch.last)
        epochs = self.truth[batch.stream]
        if owner:
            if batch.epoch not in epochs and any(epoch >= batch.epoch for epoch in epochs):
                raise Broken(f"epoch {batch.epoch} of {batch.stream} is not a new one")
            events = epochs.setdefault(batch.epoch, [])
            if batch.first != len(events) + 1 or batch.tombstones:
                raise Broken(f"the owner numbers {batch}, but {len(events)} are there")
            events += batch.events()
        else:
            self._compare(f"disk of {node}", batch)

    def on_began(self, node: NodeId, began: BeginEpoch) -> None:
        if not began.keeps:
            self._check_dropped(f"disk of {node}", began.stream, began.epoch, began.first - 1)
            self.stored[node, began.stream] = Stored(began.epoch, began.first - 1)

    def _check_dropped(self, who: str, stream: int, epoch: int, seq: int) -> None:
        if seq and (stream, epoch, seq) not in self.dropped:
            raise Broken(f"{who}: resumes after {seq} of epoch {epoch}, dropped by no proxy")

    def on_disk_lost(self, node: NodeId, owned: Sequence[int]) -> None:
        for key in [key for key in self.stored if key[0] == node]:
            del self.stored[key]
        for stream in owned:
            self.lost_epochs.update((stream, epoch) for epoch in self.truth[stream])

    # -- publications ----------------------------------------------------------------------------

    def on_published(self, batch: EventBatch) -> None:
        for payload in batch.payloads():
            if payload in self.published[batch.stream]:
                raise ValueError("payloads must differ")
            self.published[batch.stream][payload] = "waits"

    def on_acknowledge(
        self, node: NodeId, publication: Publication, seq: int, owner: NodeId
    ) -> None:
        batch = publication.batch
        self._answer(batch, "acknowledged")
        epoch, end = self._head(batch.stream)
        events = self.truth[batch.stream].get(epoch, [])
        at = {event.payload: event.seq for event in events}
        places = [at.get(payload) for payload in batch.payloads()]
        if None in places:
            # Acknowledged by an owner that has lost its disk since, and the answer came late.
            older = [e for each in self.truth[batch.stream].values() for e in each]
            known = {event.payload for event in older}
            if not self.lost_epochs or not all(p in known for p in batch.payloads()):
                raise Broken(f"acknowledged, not stored: {batch} of {publication.publisher}")
            return
        numbers = [place for place in places if place is not None]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise Broken(f"stored apart or out of order: {numbers} of {publication.publisher}")
        if not numbers[-1] <= seq <= end:
            raise Broken(f"acknowledged as {seq}, but it is {numbers[-1]}, and the head {end}")
        if publication.level:
            wanted = int(publication.level.removeprefix("regions="))
            holders = sum(
                end >= numbers[-1]
                for (proxy, stream, of), end in self._ever_stored.items()
                if (stream, of) == (batch.stream, epoch) and proxy != owner
            )
            if holders < wanted:
                raise Broken(f"acknowledged {publication.level} at {seq}, {holders} others have it")

    def on_refuse(self, publication: Publication, error: str) -> None:
        self._answer(publication.batch, f"refused: {error}")

    def _answer(self, batch: EventBatch, answer: str) -> None:
        fates = self.published[batch.stream]
        for payload in batch.payloads():
            if fates[payload] != "waits":
                raise Broken(f"{payload!r} was {fates[payload]}, now {answer}")
            fates[payload] = answer
        if answer == "acknowledged":
            self.acknowledged += batch.rows
        else:
            self.refused += batch.rows

    # -- deliveries ------------------------------------------------------------------------------

    def on_delivery(self, node: NodeId, number: int, batch: EventBatch) -> Session:
        session = self.sessions[node, number]
        if batch.stream != session.stream:
            raise Broken(f"{session.name}: {batch} is of another stream")
        if not session.epoch:
            session.begin(batch.epoch)
        if batch.epoch != session.epoch or batch.first != session.next:
            raise Broken(
                f"{session.name}: {batch} of epoch {batch.epoch}, where {session.next} of "
                f"{session.epoch} comes next"
            )
        self._compare(session.name, batch)
        session.next = batch.last + 1
        seqs = batch.seqs.tolist()
        session.rows += seqs
        covered = batch.first
        for seq in [*seqs, batch.last + 1]:
            if seq > covered:
                session.tombstones.append((covered, seq - 1))
            covered = seq + 1
        self.delivered += batch.rows
        self.buried += batch.tombstones
        return session

    def on_restarted(self, node: NodeId, number: int, epoch: int, seq: int) -> None:
        session = self.sessions[node, number]
        if (epoch, seq) < (session.epoch, session.next) or (epoch == session.epoch and not seq):
            raise Broken(f"{session.name}: restarted at {epoch}/{seq} in epoch {session.epoch}")
        self._check_dropped(session.name, session.stream, epoch, seq)
        if epoch != session.epoch:
            if epoch in session.restarts:
                raise Broken(f"{session.name}: restarted twice for epoch {epoch}")
            session.restarts.append(epoch)
        session.begin(epoch, seq)

    def _compare(self, who: str, batch: EventBatch) -> None:
        events = self.truth[batch.stream].get(batch.epoch, [])
        if batch.last > len(events):
            raise Broken(f"{who}: {batch} of epoch {batch.epoch}, durable are {len(events)}")
        for event in batch.events():
            true = events[event.seq - 1]
            if (event.key, event.payload, event.kind) != (true.key, true.payload, true.kind):
                raise Broken(f"{who}: {event} is not {true}")

    # -- the end ---------------------------------------------------------------------------------

    def _head(self, stream: int) -> Stored:
        epochs = self.truth[stream]
        lost = [epoch for epoch in epochs if (stream, epoch) not in self.lost_epochs]
        return Stored(max(lost), len(epochs[max(lost)])) if lost else Stored(0, 0)

    def lagging(self) -> list[str]:
        """Who has not got everything yet, and which publications have had no answer."""
        behind = []
        for session in self.sessions.values():
            head = self._head(session.stream)
            if head.epoch and session.watermark != (head.epoch, head.end):
                behind.append(f"{session.name} is at {session.watermark} of {tuple(head)}")
        for stream, fates in self.published.items():
            waiting = [payload for payload, fate in fates.items() if fate == "waits"]
            if waiting:
                behind.append(f"{len(waiting)} publications of {stream} wait: {waiting[:3]}")
        return behind

    def check_end(self) -> None:
        behind = self.lagging()
        if behind:
            raise Broken("; ".join(behind))
        for stream, epochs in self.truth.items():
            head = self._head(stream)
            events = epochs.get(head.epoch, [])
            self._check_acknowledged(stream, events)
            for session in self.sessions.values():
                if session.stream == stream and head.epoch:
                    self._check_tombstones(session, events)

    def _check_acknowledged(self, stream: int, events: list[Event]) -> None:
        payloads = [event.payload for event in events]
        there = set(payloads)
        if len(there) < len(payloads):
            twice = sorted(p for p in there if payloads.count(p) > 1)
            raise Broken(f"stream {stream}: stored twice: {twice[:5]}")
        lost = any(each == stream for each, _ in self.lost_epochs)
        for payload, fate in self.published[stream].items():
            if fate == "acknowledged" and payload not in there and not lost:
                raise Broken(f"stream {stream}: acknowledged and lost: {payload!r}")
            if fate.startswith("refused") and payload in there:
                raise Broken(f"stream {stream}: stored, although {fate}: {payload!r}")

    def _check_tombstones(self, session: Session, events: list[Event]) -> None:
        """Whatever was buried is followed, on the same subscription, by what collects it."""
        policy = self._policies[session.stream]
        collectors: list[tuple[int, object]] = []
        latest: dict[bytes, int] = {}
        told = [seq for first, last in session.skipped for seq in range(first, last + 1)]
        for seq in sorted([*session.rows, *told]):
            event = events[seq - 1]
            if event.kind:
                collectors.append((seq, predicate_of(event, policy)))
            latest[event.key] = seq
        for first, last in session.tombstones:
            for seq in range(first, last + 1):
                event = events[seq - 1]
                if policy.last_n is not None and seq <= len(events) - policy.last_n:
                    continue
                if policy.latest_per_key and event.key and latest.get(event.key, 0) > seq:
                    continue
                if not any(
                    at > seq and own is not None and collects(own, event, policy)
                    for at, own in collectors
                ):
                    raise Broken(f"{session.name}: {seq} is buried, its collector never came")
