from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random

from epicast.core import (
    DATA,
    DATAGRAM,
    Effects,
    Group,
    InvariantViolation,
    NodeId,
    Peer,
    PeerSampler,
    Protocol,
    Publication,
    Recovered,
    handles,
)
from epicast.core.effects import Destination
from epicast.protocols.event_runs import (
    EventRun,
    IdRange,
    limited,
    merged,
    packed,
    together,
)
from epicast.protocols.notifications import (
    NotificationBuffer,
    is_notification,
    refusal,
    unpinned,
)
from epicast.protocols.pbcast.config import PbcastConfig
from epicast.protocols.pbcast.messages import (
    MESSAGE_BYTES,
    RANGE_BYTES,
    Digest,
    Pass,
    Passed,
    Range,
    Solicit,
    passed_bytes,
)
from epicast.protocols.seen import SeenEvents

_ROUND = "round"


class Pbcast(Protocol[PbcastConfig]):
    """Peers come from the layer below in a stack, or from `peers` when it runs alone."""

    __slots__ = ("_asked", "_delivered", "_duplicates", "_events", "_purged", "_repaired", "_round",
                 "_seen", "_solicited")  # fmt: skip

    def __init__(
        self,
        node: Peer,
        config: PbcastConfig,
        rng: Random,
        peers: PeerSampler | None = None,
    ) -> None:
        super().__init__(node, config, rng)
        self.below = peers
        self._events = NotificationBuffer(
            config.max_events, config.max_buffer_bytes, config.purging, config.long_ago_rounds, rng
        )
        self._seen = SeenEvents(config.max_sources, config.max_gaps)
        self._asked: set[tuple[int, int]] = set()
        """What was solicited in this round: one who has it is enough."""
        self._round = 0
        self._delivered = self._duplicates = self._purged = 0
        self._repaired = self._solicited = 0

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        if self.config.first_phase == "multicast":
            fx.join(Group(self.config.group))
        period = self.config.gossip_period_ns
        aligned = (now // period + 1) * period
        anyhow = now + 1 + int(self.rng.random() * period)
        self.timers.set(_ROUND, aligned if self.config.aligned_rounds else anyhow)

    def on_stop(self, now: int, fx: Effects) -> None:
        self.timers.clear()
        if self.config.first_phase == "multicast":
            fx.leave(Group(self.config.group))

    # First phase

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        for publication in publications:
            batch = publication.batch
            error = refusal(batch, self.config.max_event_bytes)
            if error:
                fx.refuse(publication, error)
                continue
            self._take_in((Passed(0, 0, batch),), fx)
            if self.config.first_phase == "multicast":
                parts = [
                    Passed(0, 0, batch.slice(seq, seq))
                    for seq in range(batch.first, batch.last + 1)
                ]
                # What no datagram can carry is left to the second phase.
                fitting = [part for part in parts if passed_bytes(part) <= self._room]
                self._pass(Group(self.config.group), fitting, fx)

    @handles(Pass)
    def _handle_pass(self, now: int, source: NodeId, message: Pass, fx: Effects) -> None:
        for item in message.events:
            if not is_notification(item.batch) or item.age < 0 or item.hops < 0:
                fx.drop("malformed events", source)
                return
            if item.batch.payload_bytes > self.config.max_event_bytes * item.batch.rows:
                fx.drop("event too large", source, item.batch.stream)
                return
        self._take_in(message.events, fx)

    def _take_in(self, events: Iterable[Passed], fx: Effects) -> None:
        for item in events:
            batch = item.batch
            stream, first, last = batch.stream, batch.first, batch.last
            new: Sequence[tuple[int, int]] = ()
            if last > self._seen.ends.get(stream, 0):  # most end here
                new = self._seen.new_ranges(stream, first, last)
            fresh = 0
            if new:
                batch = unpinned(batch)
            for low, high in new:
                fresh += high - low + 1
                fx.deliver(batch.slice(low, high))
                if item.hops < self.config.max_hops:
                    self._events.add(batch, low, high, item.age, self._round, item.hops)
            self._delivered += fresh
            if fresh < last - first + 1:
                self._duplicates += last - first + 1 - fresh
                self._events.raise_age(stream, first, last, item.age, item.age)
        self._purged += sum(run.rows for run in self._events.purge())
        while self._seen.given_up:
            reason, stream, first, last = self._seen.given_up.pop()
            fx.drop(f"seen {reason}", stream=stream, first=first, last=last)

    # Second phase

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        config = self.config
        stretch = 1 + config.gossip_jitter * (2 * self.rng.random() - 1)
        period = config.gossip_period_ns if config.aligned_rounds else (
            max(1, int(config.gossip_period_ns * stretch))
        )  # fmt: skip
        self.timers.set(_ROUND, now + period)
        self._round += 1
        self._asked.clear()
        self._events.grow_older(0)
        targets = self.sample(config.fanout)
        runs = self._events.runs()
        if targets:
            if config.inline:
                self._pass(targets, self._parts(runs), fx)
            else:
                ids = merged((run.source, run.first, run.last) for run in runs)
                available = [Range(*item) for item in ids]
                for part in packed(available, lambda _: RANGE_BYTES, self._room):
                    fx.send(targets, Digest(tuple(part)), DATAGRAM)
        for run in runs:
            run.repetitions += 1
            if run.repetitions >= config.repetitions:
                self._events.remove(run)

    @handles(Digest)
    def _handle_digest(self, now: int, source: NodeId, message: Digest, fx: Effects) -> None:
        if not self._is_sound(message.available, source, fx):
            return
        wanted: list[IdRange] = []
        for source_, first, last in limited(_tuples(message.available), self.config.max_events):
            for low, high in self._seen.lacking(source_, first, last):
                for seq in range(low, high + 1):  # of a small buffer
                    room = self.config.max_solicited - len(self._asked)
                    if room > 0 and (source_, seq) not in self._asked:
                        self._asked.add((source_, seq))
                        wanted.append((source_, seq, seq))
        self._solicited += len(wanted)
        ranges = [Range(*item) for item in merged(wanted)]
        for part in packed(ranges, lambda _: RANGE_BYTES, self._room):
            fx.send(source, Solicit(tuple(part)), DATAGRAM)

    @handles(Solicit)
    def _handle_solicit(self, now: int, source: NodeId, message: Solicit, fx: Effects) -> None:
        if not self._is_sound(message.wanted, source, fx):
            return
        wanted = limited(_tuples(message.wanted), self.config.max_solicited)
        found = [run for ids in wanted for run in self._events.find(*ids)]
        self._repaired += sum(run.rows for run in found)
        self._pass(source, self._parts(found), fx)

    # Helpers

    @property
    def _room(self) -> int:
        return self.config.max_message_bytes - MESSAGE_BYTES

    def _parts(self, runs: Iterable[EventRun]) -> list[Passed]:
        return [Passed(run.age, run.hops + 1, run.events()) for run in together(runs)]

    def _pass(self, to: Destination, events: Sequence[Passed], fx: Effects) -> None:
        room = self._room
        for part in packed(events, passed_bytes, room):
            fits = passed_bytes(part[0]) <= room
            fx.send(to, Pass(tuple(part)), DATAGRAM if fits else DATA)

    def _is_sound(self, ranges: Sequence[Range], source: NodeId, fx: Effects) -> bool:
        if all(1 <= item.first <= item.last for item in ranges):
            return True
        fx.drop("malformed ids", source)
        return False

    def check_invariants(self) -> None:
        config = self.config
        if len(self._events) > config.max_events or self._events.bytes > config.max_buffer_bytes:
            raise InvariantViolation(
                f"node {self.node}: {len(self._events)} events of {self._events.bytes} bytes, at "
                f"most {config.max_events} and {config.max_buffer_bytes}"
            )
        for run in self._events.runs():
            if run.repetitions >= config.repetitions or run.hops >= config.max_hops:
                raise InvariantViolation(
                    f"node {self.node} still has {run.source}:{run.first}..{run.last}, gossiped "
                    f"{run.repetitions} times and after {run.hops} hops"
                )

    def statistics(self) -> Mapping[str, int | float]:
        """In events, so that batching does not change them."""
        return {
            "rounds": self._round,
            "delivered": self._delivered,
            "duplicates": self._duplicates,
            "buffered": len(self._events),
            "purged": self._purged,
            "solicited": self._solicited,
            "repaired": self._repaired,
            "sources": self._seen.sources,
        }


def _tuples(ranges: Iterable[Range]) -> Iterable[tuple[int, int, int]]:
    return ((item.source, item.first, item.last) for item in ranges)
