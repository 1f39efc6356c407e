from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from msgspec import Struct

from epicast.core import (
    DATA,
    DATAGRAM,
    Effects,
    EventBatch,
    NodeId,
    Peer,
    PeerSampler,
    Protocol,
    Publication,
    Recovered,
    handles,
)
from epicast.protocols.epto.clocks import Clock, GlobalClock, LogicalClock
from epicast.protocols.epto.config import AUTOMATIC, EptoConfig
from epicast.protocols.epto.entries import ENTRY_BYTES, entry_overhead
from epicast.protocols.epto.messages import Ball, Probe, ProbeAnswer
from epicast.protocols.epto.pace import Pace
from epicast.protocols.epto.pending import Pending, pending
from epicast.protocols.epto.sizing import MARGIN, SMALL_SYSTEM, SizeEstimate, fanout_for, ttl_for
from epicast.protocols.epto.sources import Gaps, Sources
from epicast.protocols.epto.store import EventStore
from epicast.protocols.notifications import refusal

_ROUND = "round"
_MAX_BALLS = 64
_MAX_BALL_BYTES = 16 << 20
"""Balls that wait to be taken in, and their bytes: more are not left for the next round."""
_CLOCKS_EVERY = 8
"""A clock that is right is looked at in one ball out of so many."""
_UNHEARD_FACTOR = 5
"""A node that hears of nobody begins its order after so many times the rounds it would listen."""


class Missing(Struct, frozen=True, gc=False):
    """A hole in the order: these events of a publisher will not be delivered here."""

    source: NodeId
    first: int
    last: int


class Epto(Protocol[EptoConfig]):
    """Peers come from the layer below in a stack, or from `peers` when it runs alone."""

    __slots__ = ("_ball_bytes", "_balls", "_clock", "_delivered", "_heard", "_held", "_missing",
                 "_pace", "_published", "_published_at", "_refused", "_repeats", "_rounds",
                 "_rounds_to_settle", "_settled", "_size", "_sources", "_store", "_withheld",
                 "fanout", "ttl")  # fmt: skip

    def __init__(
        self, node: Peer, config: EptoConfig, rng: Random, peers: PeerSampler | None = None
    ) -> None:
        super().__init__(node, config, rng)
        self.below = peers
        self._clock: Clock = (
            GlobalClock(config.max_clock_ahead_ns) if config.clock == "global" else LogicalClock()
        )
        self._store = EventStore(config.max_entries, config.max_buffer_bytes)
        self._sources = Sources(config.max_sources)
        self._size: SizeEstimate | None = None
        self._pace = Pace(config)
        self._balls: list[tuple[NodeId, Ball]] = []
        """Received since the last round, with their senders."""
        self._ball_bytes = 0
        self._held: list[Publication] = []
        """Published before the order begins here."""
        self._settled = False
        self._rounds_to_settle = 0
        self._rounds = 0
        self._heard = 0
        self._published = self._published_at = 0
        self._delivered = self._missing = self._refused = self._withheld = 0
        self.fanout = self.ttl = 1
        self._fit(config.system_size or 2)

    def _fit(self, size: int) -> None:
        """K and TTL for a system of so many."""
        self.fanout = self.config.fanout or fanout_for(size)
        self.ttl = self.config.ttl or ttl_for(size)
        self._repeats = size <= SMALL_SYSTEM

    # Coming

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        config = self.config
        if not config.system_size:
            known = 1 + len({peer.id for peer in contacts if peer.id != self.node.id})
            self._size = SizeEstimate(config.size_epoch_rounds, self.rng, known)
            self._follow_size()
        self._rounds_to_settle = config.settling_rounds if contacts else 0
        first = 1 + int(self.rng.random() * self._pace.period_ns)
        self.timers.set(_ROUND, now + first)
        if not self._rounds_to_settle:
            self._settle(now, fx)

    def on_stop(self, now: int, fx: Effects) -> None:
        """What was published since the last round goes out; nobody need be told of more."""
        self.timers.clear()
        self._take_in_balls(now + fx.wall_offset, fx)
        self._store.begin_round(self.ttl)
        self._send_ball(now, fx)

    def _settle_if_due(self, now: int, fx: Effects) -> None:
        wanted = self._rounds_to_settle
        if wanted == AUTOMATIC:
            wanted = self.ttl + 2
        if self._rounds >= (wanted if self._heard else _UNHEARD_FACTOR * wanted):
            self._settle(now, fx)

    def _settle(self, now: int, fx: Effects) -> None:
        """The order begins here: after all timestamps there can be by now."""
        self._settled = True
        if self._rounds_to_settle:
            beginning = self._clock.beginning(now + fx.wall_offset)
            self._clock.hear(beginning)
            self._sources.start = beginning
            self._store.start_after(beginning)
        held, self._held = self._held, []
        self.on_publish(now, held, fx)

    # Publishing

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        for publication in publications:
            batch = publication.batch
            error = refusal(batch, self.config.max_event_bytes) or self._no_room(batch)
            if error:
                self._refused += batch.rows
                fx.refuse(publication, error)
            elif not self._settled:
                self._held.append(publication)
            else:
                self._published = batch.last
                self._published_at = self._clock.stamp(now + fx.wall_offset)
                self._store.publish(self._published_at, self.node.id, batch)

    def _no_room(self, batch: EventBatch) -> str:
        needed = batch.payload_bytes + entry_overhead(batch)
        if needed > self.config.max_buffer_bytes // 2:
            return f"{needed} bytes at once; publish less than half of max_buffer_bytes at a time"
        if (
            self._store.entries + len(self._held) < self.config.max_entries
            and self._store.held_bytes + needed <= self.config.max_buffer_bytes
        ):
            return ""
        return "no room: events come faster than they can be ordered; publish again later"

    def publish_room(self) -> int:
        """Half of the buffers is for others' events."""
        if not self._settled:
            return max(0, 1024 - len(self._held))
        if 2 * self._store.held_bytes > self.config.max_buffer_bytes:
            return 0
        return max(0, self.config.max_entries // 2 - self._store.entries)

    # Spreading (Algorithm 4)

    @handles(Ball)
    def _handle_ball(self, now: int, source: NodeId, ball: Ball, fx: Effects) -> None:
        wall = now + fx.wall_offset
        self._heard += 1
        ahead = ball.wall - wall if ball.wall else 0
        if ahead and (
            self._heard % _CLOCKS_EVERY == 0 or abs(ahead) > self.config.max_clock_ahead_ns
        ):
            self._clock.hear_clock(source, ahead)
        if ball.latency > 0:
            self._pace.hear(source, ball.latency)
        if self._size is not None and not self._size.hear(ball.epoch, ball.minima, ball.size):
            fx.drop("malformed size", source)
        if ball.entries > 0 and len(ball.columns) >= ENTRY_BYTES * ball.entries:
            self._clock.hear(min(self._clock.latest(wall), _latest_of(ball)))
            self._balls.append((source, ball))
            self._ball_bytes += len(ball.columns)
            if len(self._balls) >= _MAX_BALLS or self._ball_bytes >= _MAX_BALL_BYTES:
                self._take_in_balls(wall, fx)
        elif ball.entries or ball.columns:
            fx.drop("malformed ball", source)
        if ball.published and ball.published_at < self._store.last[0] and self._settled:
            self._report(self._passed(source, ball), fx)

    def _take_in_balls(self, wall: int, fx: Effects) -> None:
        """All at once, shortly before they are needed: what is known then stays in the processor's
        cache while one ball after the other is compared with it."""
        latest = self._clock.latest(wall)
        for source, ball in self._balls:
            self._take_in(ball, source, latest, fx)
        self._balls.clear()
        self._ball_bytes = 0

    def _take_in(self, ball: Ball, source: NodeId, latest: int, fx: Effects) -> None:
        refused = self._store.absorb(ball.columns, ball.entries, latest)
        if refused < 0:
            fx.drop("malformed ball", source)
        elif refused:
            self._refused += refused
            fx.drop("timestamp too far ahead", source)

    def _passed(self, source: NodeId, ball: Ball) -> Gaps:
        return self._sources.passed(source, ball.published, ball.published_at, self._store.round)

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        self._rounds += 1
        self._arm(now)
        if self._size is not None:
            self._size.next_round()
        self._follow_size()
        self._take_in_balls(now + fx.wall_offset, fx)
        late = self._store.begin_round(self.ttl)
        if len(late) and self._settled:
            self._report(self._sources.came_late(self._store, late), fx)
        sent = self._send_ball(now, fx)
        if self._settled:
            self._deliver(now + fx.wall_offset, fx)
        self._store.end_round(sent)
        if not self._settled:
            self._settle_if_due(now, fx)

    def _arm(self, now: int) -> None:
        stretch = 1 + self.config.round_jitter * (2 * self.rng.random() - 1)
        self.timers.set(_ROUND, now + max(1, int(self._pace.period_ns * stretch)))

    def _follow_size(self) -> None:
        """An estimate may be wrong by a few: where that matters, K and TTL are those of the
        smallest system that has a law for them."""
        if self._size is not None:
            self._fit(max(SMALL_SYSTEM, round(MARGIN * self._size.size)))

    def _send_ball(self, now: int, fx: Effects) -> bool:
        """Whether there was somebody to send it to, if there was anything to send."""
        config, repeats = self.config, self._repeats
        room = config.max_datagram_bytes
        parts = self._store.next_ball(self.ttl, config.max_ball_bytes, repeats)
        channel = DATA
        if sum(len(columns) for _, columns in parts) <= room * config.max_datagrams:
            channel = DATAGRAM
            if len(parts) != 1 or len(parts[0][1]) > room:
                parts = self._store.next_ball(self.ttl, room, repeats)
        targets = self.sample(self.fanout if parts else min(self.fanout, config.idle_fanout))
        if not targets:
            return not parts
        if config.adaptive_period:
            fx.send(targets[0], Probe(self._pace.probe(now)), DATAGRAM)
        for entries, columns in parts or ((0, b""),):
            ball = self._ball(now + fx.wall_offset, entries, columns)
            if channel == DATA:
                room = len(columns)
                ready = [peer for peer in targets if fx.room(peer) >= room]
                self._withheld += len(targets) - len(ready)
                targets = ready
            fx.send(targets, ball, channel)
        return True

    def _ball(self, wall: int, entries: int, columns: bytes) -> Ball:
        size = self._size
        return Ball(
            entries,
            columns,
            wall if self.config.clock == "global" else 0,
            self._published,
            self._published_at,
            self._pace.latency_ns,
            0 if size is None else size.epoch,
            b"" if size is None else size.to_send(),
            0 if size is None else size.size,
        )

    @handles(Probe)
    def _handle_probe(self, now: int, source: NodeId, probe: Probe, fx: Effects) -> None:
        fx.send(source, ProbeAnswer(probe.number), DATAGRAM)

    @handles(ProbeAnswer)
    def _handle_probe_answer(
        self, now: int, source: NodeId, answer: ProbeAnswer, fx: Effects
    ) -> None:
        if not self._pace.answered(now, answer.number):
            fx.drop("answer to no probe", source)

    # Ordering (Algorithm 5)

    def _deliver(self, wall: int, fx: Effects) -> None:
        rounds = self._clock.rounds_factor * self.ttl + self.config.extra_rounds
        low, high = self._store.deliverable(rounds, self._clock.now(wall))
        if low == high:
            return
        self._report(self._sources.delivered(self._store, low, high), fx)
        batch = self._store.batch(low, high, self._delivered + 1)
        self._store.pass_by(high)
        self._delivered += batch.rows
        fx.deliver(batch)

    def pending(self) -> list[Pending]:
        """What is known as of the last round, but not delivered."""
        size = self.config.system_size if self._size is None else self._size.size
        return pending(self._store, size, self.fanout)

    def _report(self, gaps: Gaps, fx: Effects) -> None:
        for source, first, last in gaps:
            self._missing += last - first + 1
            fx.notice(0, Missing(source, first, last))

    # For measuring

    def check_invariants(self) -> None:
        self._store.check()

    def statistics(self) -> Mapping[str, int | float]:
        size = self._size
        return {
            "delivered": self._delivered,
            "missing": self._missing,
            "refused": self._refused,
            "waiting": len(self._store),
            "entries": self._store.entries,
            "buffer_bytes": self._store.held_bytes,
            "dropped_full": self._store.dropped,
            "withheld": self._withheld,
            "sources": len(self._sources),
            "sources_forgotten": self._sources.forgotten,
            "rounds": self._rounds,
            "round_period_ns": self._pace.period_ns,
            "latency_ns": self._pace.latency_ns,
            "clock_correction_ns": self._clock.correction,
            "system_size": self.config.system_size if size is None else size.size,
            "fanout": self.fanout,
            "ttl": self.ttl,
            "settled": int(self._settled),
        }


def _latest_of(ball: Ball) -> int:
    """The timestamp of the last entry."""
    at = 8 * ball.entries
    return int.from_bytes(ball.columns[at - 8 : at], "little", signed=True)
