"""What must hold, whatever happens: judged from outside, on batches, as things happen.

The truth about a stream is what its region has made stable (`truth`), or, where that is a chain of
replicas, what it has shown (`chained`). Against it are held: what other regions store, what
subscriptions are delivered, what publishers are told.

Safety, at any moment:

* nothing is stored or delivered that is not stable, or not what was published;
* a publisher's events are stored once each, in its order, and only what it published;
* a subscription gets every number once, in order, as an event or as a tombstone;
* a tombstone stands for something that an event stored by then has collected;
* an acknowledgement comes once, for something stored as it asked to be;
* an epoch is new, comes only after a loss, and tells each subscription once;
* who is behind retention is told where some history begins, and gets what follows.

Liveness, once all is healed: see `lagging`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from epicast.core import EventBatch, IntervalSet, NodeId, Publication
from epicast.log import History
from epicast.sim.campaign.chained import ChainedTruth
from epicast.sim.campaign.moves import MovedTruth
from epicast.sim.campaign.retention import Retention
from epicast.sim.campaign.truth import Broken, EpochTruth, StreamTruth
from epicast.sim.campaign.watched import Held, Lane, Session


class Oracles:
    def __init__(
        self,
        streams: Mapping[int, StreamTruth],
        on_files: Mapping[str, bool],
        regions: Mapping[str, str] | None = None,
        listed: Callable[[str], Sequence[str]] | None = None,
    ) -> None:
        """`on_files`: of each region, whether what it has survives its processes; `regions`: of
        each replica, its region, which is called like its only one; `listed`: the replicas that a
        region's chain has at the moment, up or not."""
        self.streams = dict(streams)
        self.on_files = on_files
        self._regions = dict(regions or {region: region for region in on_files})
        self._listed = listed or (lambda region: (region,))
        for truth in self.streams.values():
            if isinstance(truth, ChainedTruth):
                truth.on_taken = self._check_publications
        self._damaged: set[tuple[str, int]] = set()
        """Replicas and streams of which they may find less than they had."""
        self.sessions: dict[tuple[NodeId, int], Session] = {}
        self.lanes: dict[tuple[int, NodeId], Lane] = {}
        """By stream and publisher."""
        self._held: dict[tuple[str, int], Held] = {}
        """By replica and stream."""
        self._reached: dict[tuple[str, int, int], int] = {}
        """By replica, stream and epoch: as far as it has ever been."""
        self._safe: dict[tuple[str, int, int], int] = {}
        """The same by region: as far as all of its replicas were that it then had."""
        self.retention = Retention()
        self.own_publishers: dict[NodeId, str] = {}
        """Regions that publish themselves, when events expire."""
        self.published = self.acknowledged = self.refused = 0
        self.delivered = self.buried = self.restarts = 0

    # -- regions ---------------------------------------------------------------------------------

    def on_opened(self, replica: str, stream: int, history: History) -> None:
        """A replica has started: what it finds."""
        truth = self.streams[stream]
        held = self._held.setdefault((replica, stream), Held())
        self.retention.note(history)
        damaged = (replica, stream) in self._damaged
        self._damaged.discard((replica, stream))
        if isinstance(truth, MovedTruth):
            forgets = not self.on_files[self._regions[replica]]
            truth.replica_opened(replica, history, damaged=damaged or forgets)
        elif truth.region != self._regions[replica]:
            self._check_follower(replica, stream, history, held, damaged=damaged)
        elif isinstance(truth, ChainedTruth):
            truth.replica_opened(replica, history, damaged=damaged)
        else:
            truth.opened(history.epoch, history.end)
        held.epoch, held.end = history.epoch, history.end

    def _check_follower(
        self, replica: str, stream: int, history: History, held: Held, *, damaged: bool
    ) -> None:
        """What a replica finds of a stream that it follows: no more than it ever had, and no less
        than it had synced. An epoch may have begun there without any of its events."""
        truth, at = self.streams[stream], (history.epoch, history.end)
        if history.end > self._reached.get((replica, stream, history.epoch), 0) or (
            not truth.has_begun(history.epoch)
        ):
            raise Broken(f"{replica}: {truth.name} is at {at}, where it never was")
        safe = truth.synced and self.on_files[self._regions[replica]] and not damaged
        if safe and at < (held.epoch, held.end):
            raise Broken(f"{replica}: {truth.name} is at {at}, it had {held.epoch}/{held.end}")

    def on_began(
        self, replica: str, stream: int, epoch: int, *, keeps: bool, first: int = 1
    ) -> None:
        """A replica goes on in an epoch, with all it has or with nothing, and then at `first`."""
        truth, held = self.streams[stream], self._held[replica, stream]
        if truth.region == self._regions[replica]:
            assert isinstance(truth, ChainedTruth)
            truth.replica_began(replica, epoch, keeps=keeps)
        elif keeps:
            raise Broken(f"{replica}: begins an epoch of {truth.name}, which others number")
        elif isinstance(truth, MovedTruth):
            truth.replica_began(replica, epoch, keeps=False)
        if not keeps:
            self.retention.check(replica, stream, epoch, first)
            held.end = first - 1
            key = (replica, stream, epoch)
            self._reached[key] = max(held.end, self._reached.get(key, 0))
        held.epoch = epoch

    def on_stored(self, replica: str, batch: EventBatch) -> None:
        """A replica has made a batch stable."""
        truth = self.streams[batch.stream]
        held = self._held[replica, batch.stream]
        if truth.region == self._regions[replica]:
            if isinstance(truth, ChainedTruth):
                truth.replica_stored(replica, batch)
            else:
                self._check_publications(batch)
                truth.take(batch)
        else:
            expected = held.end + 1 if batch.epoch == held.epoch else 1
            if batch.epoch < held.epoch or batch.first != expected:
                raise Broken(
                    f"{replica} stored {batch.first} of {truth.name}, epoch {batch.epoch}, behind "
                    f"{held.epoch}/{held.end}"
                )
            if not isinstance(truth, MovedTruth) or replica in self._listed(self._regions[replica]):
                self._epoch(replica, batch).compare(replica, batch)
            if isinstance(truth, MovedTruth):
                # Who was the head of an owner, and does not know yet that it is none, may number
                # something: outside the chain that is shown to nobody, and forgotten.
                truth.replica_stored(replica, batch)
        held.epoch, held.end = batch.epoch, batch.last
        key = (replica, batch.stream, batch.epoch)
        self._reached[key] = max(batch.last, self._reached.get(key, 0))
        self._note_safe(self._regions[replica], batch.stream, batch.epoch)

    def _note_safe(self, region: str, stream: int, epoch: int) -> int:
        ends = [self._reached.get((each, stream, epoch), 0) for each in self._listed(region)]
        key = (region, stream, epoch)
        self._safe[key] = max(min(ends, default=0), self._safe.get(key, 0))
        return self._safe[key]

    def on_damaged(self, replica: str, stream: int) -> None:
        """What a replica has of a stream was lost or damaged: it may find less than there was."""
        truth = self.streams[stream]
        if truth.region != self._regions[replica] or isinstance(truth, ChainedTruth):
            self._damaged.add((replica, stream))
        if truth.region == self._regions[replica]:
            truth.may_lose = True

    def _check_publications(self, batch: EventBatch) -> None:
        """The owner stores what was published, by whom it says, and nothing that it refused."""
        seq = batch.first
        for run in batch.runs:
            part = batch.slice(seq, seq + run.count - 1)
            seq += run.count
            if run.publisher in self.own_publishers:
                continue
            lane = self.lanes.get((batch.stream, run.publisher))
            name = self.streams[batch.stream].name
            if lane is None:
                raise Broken(f"{name}: {part} is of publisher {run.publisher}, which is nobody")
            problem = lane.columns.differs(part, part.first + 1 - run.first)
            if problem:
                raise Broken(f"{name}: {part} is not what {run.publisher} published: {problem}")
            if lane.refused.missing(run.first, run.first + run.count - 1) != [
                (run.first, run.first + run.count - 1)
            ]:
                raise Broken(f"{name}: {part} was refused, and is stored")

    # -- publishers ------------------------------------------------------------------------------

    def on_publish(self, publisher: NodeId, batch: EventBatch, *, is_sound: bool = True) -> None:
        lane = self.lanes.setdefault((batch.stream, publisher), Lane())
        known = lane.columns.rows
        if batch.last > known:  # else it is what a restarted publisher repeats
            lane.columns.add(batch if batch.first > known else batch.slice(known + 1, batch.last))
            self.published += batch.last - known
        if not is_sound:
            lane.unsound.add(batch.first, batch.last)
        lane.waiting[batch.first] = batch.last

    def on_publisher_lost(self, publisher: NodeId) -> None:
        """It waits for no answers any more."""
        for (_, who), lane in self.lanes.items():
            if who == publisher:
                lane.waiting.clear()

    def on_acknowledge(self, publication: Publication, seq: int) -> None:
        batch, publisher = publication.batch, publication.publisher
        lane = self._answered(publication)
        what = f"{self._name_of(batch.stream)}: {batch.first}..{batch.last} of {publisher}"
        if lane.unsound.missing(batch.first, batch.last) != [(batch.first, batch.last)]:
            raise Broken(f"{what} had to be refused, and were acknowledged")
        if problem := lane.columns.differs(batch, 1):
            raise Broken(f"{what} were acknowledged, but others were published before: {problem}")
        truth = self.streams[batch.stream]
        lane.acknowledged.add(batch.first, batch.last)
        self.acknowledged += batch.rows
        if isinstance(truth, ChainedTruth):
            truth.show_answer(publisher, batch.last, seq)
        missing = self._missing(truth, publisher, batch.first, batch.last)
        if missing:
            raise Broken(f"{what} were acknowledged and are not stored")
        # An answer may be late by an epoch: it then speaks of where things were in that one.
        wanted = int(publication.level.removeprefix("regions=") or 0)
        places = {
            epoch.number: epoch.place_of(publisher, batch.last)
            for epoch in truth.epochs.values()
            if seq <= epoch.end
        }
        if not any(
            0 < place <= seq and self._regions_with(batch.stream, epoch, place) >= wanted
            for epoch, place in places.items()
        ):
            raise Broken(
                f"{truth.name}: {batch.last} of {publisher} was acknowledged as {seq}, "
                f"{publication.level or 'here'}; it is at {places}, and {wanted} other regions "
                "do not have it"
            )

    def _regions_with(self, stream: int, epoch: int, seq: int) -> int:
        """Other regions than its own that have, or had, everything up to there."""
        owner = self.streams[stream].region
        return sum(
            self._note_safe(region, stream, epoch) >= seq
            for region in self.on_files
            if region != owner
        )

    def on_refuse(self, publication: Publication, *, is_sure: bool = True) -> None:
        """Not `is_sure`: a copy of it may have been stored before, or may still be."""
        batch = publication.batch
        self.refused += batch.rows
        lane = self._answered(publication)
        if not is_sure:
            return
        lane.refused.add(batch.first, batch.last)
        truth = self.streams.get(batch.stream)
        places = () if truth is None else truth.now.places.get(publication.publisher, ())
        if any(place.first <= batch.last and batch.first <= place.last for place in places):
            raise Broken(f"{self._name_of(batch.stream)}: {batch} was refused, and is stored")

    def _name_of(self, stream: int) -> str:
        truth = self.streams.get(stream)
        return f"stream {stream}, which there is not" if truth is None else truth.name

    def _answered(self, publication: Publication) -> Lane:
        batch = publication.batch
        lane = self.lanes[batch.stream, publication.publisher]
        if lane.waiting.pop(batch.first, None) != batch.last:
            name = self._name_of(batch.stream)
            raise Broken(f"{name}: an answer to {batch} that nobody waits for")
        return lane

    def _missing(
        self, truth: StreamTruth, publisher: NodeId, first: int, last: int
    ) -> list[tuple[int, int]]:
        """Numbers of a publisher that are neither stored nor were lost as they may be."""
        places = truth.now.places.get(publisher, ())
        stored = IntervalSet((place.first, place.last) for place in places)
        lost = truth.lost.get(publisher, IntervalSet())
        return [part for gap in stored.missing(first, last) for part in lost.missing(*gap)]

    # -- subscribers -----------------------------------------------------------------------------

    def on_delivery(self, node: NodeId, number: int, batch: EventBatch) -> Session:
        session = self.sessions[node, number]
        if batch.stream != session.stream:
            raise Broken(f"{session.name}: {batch} is of another stream")
        if not session.epoch:
            session.epoch = batch.epoch
        if batch.epoch != session.epoch or batch.first != session.end + 1:
            raise Broken(
                f"{session.name}: {batch} of epoch {batch.epoch} behind {session.epoch}/"
                f"{session.end}"
            )
        self._epoch(session.name, batch).compare(session.name, batch)
        session.end = batch.last
        session.rows += batch.rows
        session.tombstones += batch.tombstones
        self.delivered += batch.rows
        self.buried += batch.tombstones
        return session

    def on_restarted(self, node: NodeId, number: int, epoch: int, seq: int) -> Session:
        session = self.sessions[node, number]
        truth = self.streams[session.stream]
        if isinstance(truth, ChainedTruth):
            truth.announce_epoch(session.name, epoch)
        is_new_epoch = epoch > session.epoch and truth.has_begun(epoch)
        if not is_new_epoch and (epoch != session.epoch or seq <= session.end):
            raise Broken(
                f"{session.name}: restarted at {epoch}/{seq}, where it was at {session.epoch}/"
                f"{session.end}"
            )
        self.retention.check(session.name, session.stream, epoch, seq + 1)
        # Who has had nothing has no epoch yet, and may be told just that its beginning is gone.
        session.restarts += is_new_epoch and (session.epoch > 0 or not seq)
        session.resets += 1
        self.restarts += 1
        if session.restarts > truth.losses:
            raise Broken(
                f"{session.name}: restarted {session.restarts} times for {truth.losses} losses"
            )
        session.epoch, session.end = epoch, seq
        return session

    def _epoch(self, who: str, batch: EventBatch) -> EpochTruth:
        truth = self.streams[batch.stream]
        if isinstance(truth, ChainedTruth):
            truth.show(who, batch)
        epoch = truth.epochs.get(batch.epoch)
        if epoch is None:
            raise Broken(f"{who}: {truth.name} in epoch {batch.epoch}, which there is not")
        return epoch

    # -- the end ---------------------------------------------------------------------------------

    def lagging(self) -> list[str]:
        """Who has not got everything yet, and which publications have had no answer."""
        behind = [
            f"the replicas of {truth.region} are not equally far in {truth.name}"
            for truth in self.streams.values()
            if isinstance(truth, ChainedTruth) and not truth.settle()
        ]
        for session in self.sessions.values():
            truth = self.streams[session.stream]
            at = (session.epoch, session.end)
            # Who has had nothing has no epoch, and is told of none as long as there is nothing.
            if at != (truth.epoch, truth.now.end) and (session.end or truth.now.end):
                behind.append(f"{session.name} is at {at} of {(truth.epoch, truth.now.end)}")
        for (replica, stream), held in self._held.items():
            truth = self.streams[stream]
            if (held.epoch, held.end) != (truth.epoch, truth.now.end) and truth.now.end:
                behind.append(f"{replica} is at {held.epoch}/{held.end} of {truth.name}")
        for (stream, publisher), lane in self.lanes.items():
            if lane.waiting:
                name, first = self._name_of(stream), min(lane.waiting)
                behind.append(
                    f"{len(lane.waiting)} publications of {publisher} to {name} wait for an "
                    f"answer, the first at {first}"
                )
        return behind

    def check_end(self) -> None:
        """Everybody has everything: is it what they ought to have?"""
        for truth in self.streams.values():
            truth.now.check_foreseen()
        for (stream, publisher), lane in self.lanes.items():
            for first, last in lane.acknowledged:
                truth = self.streams[stream]
                for gap in self._missing(truth, publisher, first, last):
                    raise Broken(
                        f"{truth.name}: {gap[0]}..{gap[1]} of {publisher} were acknowledged and "
                        "are lost"
                    )

    def check_history(self, replica: str, stream: int, history: History) -> None:
        """All that a replica gives out of a stream, now that it has all of it: what is live, and
        nothing that was ever collected."""
        truth = self.streams[stream]
        self.retention.check(replica, stream, history.epoch, history.start)
        rows: set[int] = set()
        at = history.start
        while at <= history.end:
            batches = history.read(at, 1 << 20)
            for batch in batches:
                if batch.first != at:
                    raise Broken(f"{replica}: {truth.name}: {batch} was read at {at}")
                truth.now.compare(replica, batch)
                rows.update(batch.seqs.tolist())
                at = batch.last + 1
        live = {seq for seq in truth.now.live() if seq >= history.start}
        back, gone = sorted(rows - live), sorted(live - rows - truth.now.excused)
        if back or gone:
            raise Broken(
                f"{replica}: {truth.name}: {back[:5]} are collected and there, {gone[:5]} are live "
                "and gone"
            )
