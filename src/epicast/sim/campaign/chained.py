"""What is true of a stream whose region is a chain of replicas: what was shown.

Replicas may store, number differently and forget what was not. An event counts as soon as it is
delivered, stored in another region or acknowledged; from then on it must stay what it is, and every
replica that is in the chain must have it. What it is, the replicas' disks have said before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from epicast.core import EventBatch, IntervalSet
from epicast.log import GcPolicy, History
from epicast.sim.campaign.columns import EventColumns
from epicast.sim.campaign.truth import Broken, EpochTruth, StreamTruth

Members = Callable[[], Sequence[str]]
"""Replicas that are in the chain, and up since they joined it."""


class ReplicaLog:
    """What a replica has stored, in the pieces in which it did."""

    def __init__(self, epoch: int, pieces: Sequence[EventBatch] = ()) -> None:
        self.epoch = epoch
        self.end = 0
        self._pieces: list[EventBatch] = []
        self._firsts: list[int] = []
        self._highest: dict[int, int] = {}
        for piece in pieces:
            self.add(piece)

    def add(self, piece: EventBatch) -> None:
        self._pieces.append(piece)
        self._firsts.append(piece.first)
        self.end = piece.last
        for run in piece.runs:
            self._highest[run.publisher] = run.first + run.count - 1

    def has(self, publisher: int, number: int) -> bool:
        return self._highest.get(publisher, 0) >= number

    def between(self, first: int, last: int) -> Iterator[EventBatch]:
        """All of it, cut where it begins before or ends behind."""
        for piece in self._pieces[max(0, bisect_right(self._firsts, first) - 1) :]:
            if piece.first > last:
                return
            if piece.last >= first:
                yield piece.slice(max(first, piece.first), min(last, piece.last))

    def cut(self, end: int) -> ReplicaLog:
        return ReplicaLog(self.epoch, tuple(self.between(1, end)) if end else ())

    def in_epoch(self, epoch: int) -> ReplicaLog:
        return ReplicaLog(epoch, self._pieces)

    def agrees(self, other: EventBatch) -> bool:
        """With what both have of these numbers, unless it is buried."""
        theirs = dict(zip(other.seqs.tolist(), other.payloads(), strict=True))
        return all(
            theirs.get(seq, payload) == payload
            for piece in self.between(other.first, other.last)
            for seq, payload in zip(piece.seqs.tolist(), piece.payloads(), strict=True)
        )


def _is_whole(piece: EventBatch) -> bool:
    """Whether it buries nothing, and says of every event who published it."""
    return not piece.tombstones and (
        sum(run.count for run in piece.runs if run.publisher) == piece.last + 1 - piece.first
    )


class ChainedTruth(StreamTruth):
    def __init__(
        self,
        name: str,
        region: str,
        policy: GcPolicy,
        *,
        synced: bool,
        on_files: bool,
        members: Members,
        listed: Members | None = None,
    ) -> None:
        """`listed`: those that are in the chain, up or not."""
        super().__init__(name, region, policy, synced=synced, on_files=on_files)
        self._members = members
        self._listed = listed or members
        self.logs: dict[str, ReplicaLog] = {}
        """By replica."""
        self._former: list[tuple[str, ReplicaLog]] = []
        """What replicas had before they forgot it, or went on in another epoch."""
        self._begun: dict[int, ReplicaLog] = {}
        """Epochs that heads have begun, and what they had then."""
        self._announced: set[int] = set()
        """Epochs that subscriptions were told of before."""
        self._kept: dict[int, int] = {}
        """Epochs that are over: how much of them the next one had."""
        self._restarted = False
        self.on_taken: Callable[[EventBatch], None] = lambda _: None

    def has_begun(self, epoch: int) -> bool:
        return epoch in self._begun or epoch in self._announced or super().has_begun(epoch)

    # -- what replicas do ------------------------------------------------------------------------

    def replica_opened(self, replica: str, history: History, *, damaged: bool) -> None:
        """A replica has started: what it finds."""
        log = self.logs.get(replica)
        if log is None:
            self.logs[replica] = ReplicaLog(history.epoch)
            return
        self._restarted = True
        at = (history.epoch, history.end)
        if at == (log.epoch, log.end):
            return
        if self.durable and not damaged:
            raise Broken(f"{replica}: {self.name} is at {at}, it had {log.epoch}/{log.end}")
        self._replace(replica, self._found_again(replica, history))

    def _found_again(self, replica: str, history: History) -> ReplicaLog:
        if not history.end:
            return ReplicaLog(history.epoch)
        [newest, *_] = reversed(history.read(max(1, history.end - 20), 1 << 20))
        former = (log for who, log in reversed(self._former) if who == replica)
        for log in (self.logs[replica], *former):
            if log.epoch == history.epoch and log.end >= history.end and log.agrees(newest):
                return log.cut(history.end)
        raise Broken(
            f"{replica}: {self.name} is at {(history.epoch, history.end)}, where it never was"
        )

    def replica_began(self, replica: str, epoch: int, *, keeps: bool) -> None:
        """A replica goes on in an epoch, with all it has or with nothing."""
        if not keeps:
            self._replace(replica, ReplicaLog(epoch))
            return
        if epoch in self._begun or epoch <= self.epoch:
            raise Broken(f"{self.name}: {replica} begins epoch {epoch}, which there was")
        self._replace(replica, self.logs[replica].in_epoch(epoch))
        self._begun[epoch] = self.logs[replica].cut(self.logs[replica].end)

    def replica_stored(self, replica: str, batch: EventBatch) -> None:
        log = self.logs[replica]
        if batch.epoch > log.epoch and batch.first == 1:
            self._replace(replica, ReplicaLog(batch.epoch))
            log = self.logs[replica]
        if (batch.epoch, batch.first) != (log.epoch, log.end + 1):
            raise Broken(
                f"{replica} stored {batch} of epoch {batch.epoch} behind {log.epoch}/{log.end}"
            )
        log.add(batch)

    def _replace(self, replica: str, log: ReplicaLog) -> None:
        self._former.append((replica, self.logs[replica]))
        self.logs[replica] = log

    # -- what others see of it -------------------------------------------------------------------

    def show(self, who: str, batch: EventBatch) -> None:
        """Somebody who is not of the chain has a batch."""
        self.show_epoch(who, batch.epoch)
        epoch = self.epochs[batch.epoch]
        if batch.last > epoch.end:
            self._extend(epoch, batch.last, who, batch)

    def show_answer(self, publisher: int, number: int, seq: int) -> None:
        """A publisher is told that its number is stored, and not behind `seq`."""
        if any(
            seq <= epoch.end and 0 < epoch.place_of(publisher, number) <= seq
            for epoch in self.epochs.values()
        ):
            return
        for log in self._all_logs():
            if log.has(publisher, number) and log.end >= seq:
                self.show_epoch(f"publisher {publisher}", log.epoch)
                if seq > self.epochs[log.epoch].end:
                    self._extend(self.epochs[log.epoch], seq, f"publisher {publisher}", None)
                return

    def show_epoch(self, who: str, number: int) -> None:
        if number in self.epochs:
            return
        if number not in self._begun:
            raise Broken(f"{who}: {self.name} in epoch {number}, which there is not")
        if not self.epoch or number < self.epoch:
            if not self.epoch and not self.durable:
                # Subscriptions may know an earlier epoch in which nothing was ever shown.
                self.losses += number > min(self._begun) and number not in self._announced
            epoch = self.epochs[number] = EpochTruth(self.name, number, self._policy)
            epoch.reveal = self._reveal
            self.epoch = max(self.epoch, number)
            return
        if self.durable:
            raise Broken(f"{self.name}: a new epoch, although nothing can have been lost")
        before = self.now
        kept = before.common_end(self._begun[number].between(1, before.end))
        self._note_lost(before, kept)
        self._kept[before.number] = kept
        self.epochs[number] = before.beginning(number, kept, damaged=self.may_lose)
        self.epoch = number
        self.losses += number not in self._announced

    def _reveal(self, epoch: int) -> bool:
        """Everything that is in the chain with every replica of it may be shown: that is true from
        now on. Unsure where replicas may go on with less than they had, or in another epoch."""
        logs = [self.logs[replica] for replica in self._listed()]
        unsure = not logs or (self._restarted and not self.durable)
        if unsure or any(log.epoch != epoch for log in logs):
            shown = (self.epoch, self.now.end)
            return any((log.epoch, log.end) > shown for log in self.logs.values())
        end = min(log.end for log in logs)
        if end > self.epochs[epoch].end:
            self._extend(self.epochs[epoch], end, "everybody", None)
        return False

    def announce_epoch(self, who: str, number: int) -> None:
        """A subscription is told of an epoch, which may not be on any disk yet."""
        if not self.durable and number > max(self._begun, default=0):
            if number not in self._announced:
                self._announced.add(number)
                self.losses += 1
        else:
            self.show_epoch(who, number)

    def settle(self) -> bool:
        """Whether all replicas have the same; that is then as good as shown."""
        ends = {(log.epoch, log.end) for log in self.logs.values()}
        if len(ends) > 1:
            return False
        [(number, end)] = ends
        if end:
            self.show_epoch("everybody", number)
            if end > self.epochs[number].end:
                self._extend(self.epochs[number], end, "everybody", None)
        return True

    def _extend(self, epoch: EpochTruth, end: int, who: str, shown: EventBatch | None) -> None:
        if epoch.number == self.epoch:
            self._check_members(epoch.number, end, who)
        log = self._log_with(epoch.number, end, shown)
        if log is None:
            raise Broken(
                f"{who}: {self.name}, epoch {epoch.number}, up to {end}, which no replica has "
                "stored"
            )
        for piece in log.between(epoch.end + 1, end):
            for whole in self._whole(piece):
                self.on_taken(whole)
                epoch.take(whole)
        if epoch.number in self._kept:
            self._note_lost(epoch, self._kept[epoch.number])

    def _note_lost(self, epoch: EpochTruth, kept: int) -> None:
        for publisher, first, last in epoch.beyond(kept):
            self.lost.setdefault(publisher, IntervalSet()).add(first, last)

    def _check_members(self, epoch: int, end: int, who: str) -> None:
        """Who is in the chain has all that is shown. A replica that was started again may go on
        alone without what its stream does not promise to keep."""
        if self._restarted and not self.durable:
            return
        for replica in self._members():
            log = self.logs[replica]
            if (log.epoch, log.end) < (epoch, end):
                raise Broken(
                    f"{who}: {self.name} is shown up to {epoch}/{end}, and {replica}, which is in "
                    f"the chain, is at {log.epoch}/{log.end}"
                )

    def _all_logs(self) -> Iterator[ReplicaLog]:
        """Those that count first: of who is in the chain, even if it is down by now. What others
        have may be numbered differently."""
        first = list(dict.fromkeys((*self._members(), *self._listed())))
        yield from (self.logs[replica] for replica in first)
        yield from (log for replica, log in self.logs.items() if replica not in first)
        yield from (log for _, log in reversed(self._former))

    def _log_with(self, epoch: int, end: int, shown: EventBatch | None) -> ReplicaLog | None:
        members = [self.logs[replica] for replica in self._members()]
        for log in self._all_logs():
            # A member must have what is shown, as it is: that will be compared.
            is_right = log in members or shown is None or log.agrees(shown)
            if log.epoch == epoch and log.end >= end and is_right:
                return log
        return None

    def _whole(self, piece: EventBatch) -> list[EventBatch]:
        """A replica that had to catch up was sent what is live only; whoever numbered the events
        had them all."""
        if _is_whole(piece):
            return [piece]
        for log in self._all_logs():
            parts = list(log.between(piece.first, piece.last))
            if parts and parts[-1].last == piece.last and all(map(_is_whole, parts)):
                columns = EventColumns()
                for part in parts:
                    columns.add(part)
                if not columns.differs(piece, piece.first):
                    return parts
        raise Broken(f"{self.name}: {piece} is shown, which nobody has numbered")
