from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

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
from epicast.protocols.epto.balls import latest_of, next_parts
from epicast.protocols.epto.beginning import Beginning
from epicast.protocols.epto.clocks import Clock, GlobalClock, LogicalClock
from epicast.protocols.epto.config import AUTOMATIC, EptoConfig
from epicast.protocols.epto.early import EarlyOrder
from epicast.protocols.epto.entries import ENTRY_BYTES, entry_overhead
from epicast.protocols.epto.inbox import Inbox
from epicast.protocols.epto.messages import Ball, Probe, ProbeAnswer
from epicast.protocols.epto.pace import Pace
from epicast.protocols.epto.pending import Pending, pending
from epicast.protocols.epto.sizing import MARGIN, SMALL_SYSTEM, SizeEstimate, fanout_for, ttl_for
from epicast.protocols.epto.sources import Gaps, Missing, Sources
from epicast.protocols.epto.store import EventStore
from epicast.protocols.notifications import refusal

_ROUND = "round"


class Epto(Protocol[EptoConfig]):
    """Peers come from the layer below in a stack, or from `peers` when it runs alone."""

    __slots__ = ("_beginning", "_clock", "_delivered", "_early", "_heard", "_inbox", "_missing",
                 "_pace", "_published", "_published_at", "_refused", "_repeats", "_rounds", "_size",
                 "_sources", "_store", "_withheld", "fanout", "ttl")  # fmt: skip

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
        self._inbox = Inbox()
        self._beginning = Beginning(listens=peers is not None)
        self._early: EarlyOrder | None = None
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
        self._beginning.rounds = config.settling_rounds if contacts else 0
        first = 1 + int(self.rng.random() * self._pace.period_ns)
        self.timers.set(_ROUND, now + first)
        if not self._beginning.rounds:
            self._begin(now, fx)

    def on_stop(self, now: int, fx: Effects) -> None:
        """What was published since the last round goes out; nobody need be told of more."""
        self.timers.clear()
        self._take_in_balls(now + fx.wall_offset, fx)
        self._store.begin_round(self.ttl, self._hop)
        self._send_ball(now, fx)

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        self._beginning.listens = True

    def _begin(self, now: int, fx: Effects) -> None:
        """The order begins here: after all timestamps there can be by now."""
        if self._beginning.rounds:
            time = self._clock.beginning(now + fx.wall_offset)
            self._clock.hear(time)
            self._sources.start = time
            self._store.start_after(time)
        self.on_publish(now, self._beginning.end(), fx)

    # Publishing

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        for publication in publications:
            batch = publication.batch
            error = refusal(batch, self.config.max_event_bytes) or self._no_room(batch)
            if error:
                self._refused += batch.rows
                fx.refuse(publication, error)
            elif not self._beginning.over:
                self._beginning.held.append(publication)
            else:
                self._published = batch.last
                self._published_at = self._clock.stamp(now + fx.wall_offset)
                self._store.publish(self._published_at, self.node.id, batch)

    def _no_room(self, batch: EventBatch) -> str:
        needed = batch.payload_bytes + entry_overhead(batch)
        if needed > self.config.max_buffer_bytes // 2:
            return f"{needed} bytes at once; publish less than half of max_buffer_bytes at a time"
        if (
            self._store.entries + len(self._beginning.held) < self.config.max_entries
            and self._store.held_bytes + needed <= self.config.max_buffer_bytes
        ):
            return ""
        return "no room: events come faster than they can be ordered; publish again later"

    def publish_room(self) -> int:
        """Half of the buffers is for others' events."""
        if not self._beginning.over:
            return self._beginning.room()
        if 2 * self._store.held_bytes > self.config.max_buffer_bytes:
            return 0
        return max(0, self.config.max_entries // 2 - self._store.entries)

    # Spreading (Algorithm 4)

    @handles(Ball)
    def _handle_ball(self, now: int, source: NodeId, ball: Ball, fx: Effects) -> None:
        wall = now + fx.wall_offset
        self._heard += 1
        if ball.wall:
            self._clock.hear_clock(source, ball.wall - wall)
        if ball.latency > 0:
            self._pace.hear(source, ball.latency)
        if self._size is not None and not self._size.hear(ball.epoch, ball.minima, ball.size):
            fx.drop("malformed size", source)
        if ball.entries > 0 and len(ball.columns) >= ENTRY_BYTES * ball.entries:
            self._clock.hear(min(self._clock.latest(wall), latest_of(ball)))
            if self._inbox.add(source, ball):
                self._take_in_balls(wall, fx)
        elif ball.entries or ball.columns:
            fx.drop("malformed ball", source)
        if ball.published and ball.published_at < self._store.last[0] and self._beginning.over:
            self._report(
                self._sources.passed(source, ball.published, ball.published_at, self._store.round),
                fx,
            )

    def _take_in_balls(self, wall: int, fx: Effects) -> None:
        latest = self._clock.latest(wall)
        self._refused += self._inbox.empty_into(self._store, self._hop, latest, fx)

    @property
    def _hop(self) -> int:
        """By how much a hop makes events older: not at all if it takes much less than a round."""
        return int(not self.config.adaptive_period or self._pace.hops_take_rounds)

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        self._rounds += 1
        self._arm(now)
        if self._size is not None:
            self._size.next_round()
        self._follow_size()
        self._take_in_balls(now + fx.wall_offset, fx)
        late = self._store.begin_round(self.ttl, self._hop)
        begun = self._beginning.over
        if len(late) and begun:
            self._report(self._sources.came_late(self._store, late), fx)
        sent = self._send_ball(now, fx)
        if begun:
            self._deliver(now + fx.wall_offset, fx)
        self._store.end_round(sent)
        if not begun and self._beginning.is_due(self.ttl, self._rounds, self._heard > 0):
            self._begin(now, fx)

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
        config = self.config
        parts, channel = next_parts(self._store, config, self.ttl, self._repeats)
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
        extra = self.config.extra_rounds
        extra = self._clock.extra_rounds if extra == AUTOMATIC else extra
        rounds = self._clock.rounds_factor * self.ttl + extra
        latest = self._clock.now(wall)
        low, high = self._store.deliverable(rounds, latest)
        if low < high:
            self._report(self._sources.delivered(self._store, low, high), fx)
        if self._early is not None:
            self._early.follow(self._store, low, high, self._delivered, self._clock, latest, fx)
        if low < high:
            batch = self._store.batch(low, high, self._delivered + 1)
            self._store.pass_by(high)
            self._delivered += batch.rows
            fx.deliver(batch)

    @property
    def early(self) -> EarlyOrder:
        """For those who want events before their place is certain. Watched is from the first time
        somebody asks."""
        if self._early is None:
            self._early = EarlyOrder()
        return self._early

    def pending(self) -> list[Pending]:
        """What is known as of the last round, but not delivered."""
        return pending(self._store, self.early)

    def _report(self, gaps: Gaps, fx: Effects) -> None:
        for source, first, last in gaps:
            self._missing += last - first + 1
            fx.notice(0, Missing(source, first, last))

    # For measuring

    def check_invariants(self) -> None:
        self._store.check()

    def statistics(self) -> Mapping[str, int | float]:
        size, early = self._size, self._early
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
            "settled": int(self._beginning.over),
            "early_given": 0 if early is None else early.given,
            "early_revised": 0 if early is None else early.revised,
        }
