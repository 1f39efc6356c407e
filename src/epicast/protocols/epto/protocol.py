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
from epicast.protocols.epto.balls import next_parts
from epicast.protocols.epto.beginning import Beginning
from epicast.protocols.epto.clocks import Clock, GlobalClock, LogicalClock
from epicast.protocols.epto.config import AUTOMATIC, EptoConfig
from epicast.protocols.epto.early import EarlyOrder
from epicast.protocols.epto.entries import entry_overhead
from epicast.protocols.epto.inbox import Inbox
from epicast.protocols.epto.layout import MAX_ENTRY_EVENTS
from epicast.protocols.epto.messages import Ball, Probe, ProbeAnswer
from epicast.protocols.epto.own import OwnEvents
from epicast.protocols.epto.pace import Pace
from epicast.protocols.epto.pending import Pending, pending
from epicast.protocols.epto.plausible import fault_of, is_number
from epicast.protocols.epto.sizing import MARGIN, SMALL_SYSTEM, SizeEstimate, fanout_for, ttl_for
from epicast.protocols.epto.sources import Gaps, Missing, Sources
from epicast.protocols.epto.store import EventStore
from epicast.protocols.notifications import Turns, refusal

_ROUND = "round"


class Epto(Protocol[EptoConfig]):
    """Peers come from the layer below in a stack, or from `peers` when it runs alone."""

    __slots__ = ("_beginning", "_begun_anew", "_clock", "_delivered", "_early",
                 "_heard", "_inbox", "_missing", "_refused", "_repeats", "_rounds",
                 "_size", "_sources", "_store", "_turns", "_withheld", "fanout", "own", "pace",
                 "ttl")  # fmt: skip

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
        self.pace = Pace(config)
        self._inbox = Inbox()
        self._beginning = Beginning(listens=peers is not None)
        self._early: EarlyOrder | None = None
        self._rounds = 0
        self._heard = 0
        self.own = OwnEvents()
        self._turns = Turns()
        self._begun_anew = 0
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
        first = 1 + int(self.rng.random() * self.pace.period_ns)
        self.timers.set(_ROUND, now + first)
        if not self._beginning.rounds:
            self._begin(now, fx)

    def on_stop(self, now: int, fx: Effects) -> None:
        """What was published since the last round, or before the order began, goes out; nobody need
        be told of more."""
        self.timers.clear()
        if self._beginning.held:
            self._begin(now, fx)
        self._take_in_balls(now + fx.wall_offset, fx)
        self._store.begin_round(self.ttl, self._hop)
        self._send_ball(now, fx)

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        self._beginning.listens = True

    def _begin(self, now: int, fx: Effects) -> None:
        """The order begins here: after all timestamps there can be by now, unless there was nobody
        before."""
        wall = now + fx.wall_offset
        self._take_in_balls(wall, fx)
        if self._beginning.rounds:
            self._store.forget_after(self._clock.latest(wall))
            self._begin_after(self._clock.begin(wall, self._store.newest))
        else:
            self._clock.begin(0, 0)
            self._sources.complete_after = self._clock.told(wall)
        if self.own.published_at <= self._clock.latest(wall):
            self._clock.hear(self.own.published_at)
        self._store.reserve(-len(self._beginning.held), -self._beginning.held_bytes)
        self.on_publish(now, self._beginning.end(), fx)

    def _begin_after(self, time: int) -> None:
        self._sources.start = self._sources.complete_after = time
        self._store.start_after(time)

    def _begin_anew(self, now: int, fx: Effects) -> None:
        """Our clock was wrong, and what we have stamped or delivered is later than anything that
        others take. That is given up, and the order goes on from what is now for everybody: nobody
        would take our next events for as long as the clock was ahead, nor we theirs."""
        wall = now + fx.wall_offset
        store, latest = self._store, self._clock.latest(wall)
        self._begun_anew += 1
        self._take_in_balls(wall, fx)
        self._report(self._sources.came_late(store, store.merge()), fx)
        self._report(self._sources.came_late(store, store.waiting_after(latest)), fx)
        store.forget_after(latest)
        last = store.last[0]
        time = self._clock.begin(wall, max(store.newest, last) if last <= latest else store.newest)
        if last > latest:
            self._begin_after(time)
        self.own.published_at = min(self.own.published_at, time)
        self.own.first_at = min(self.own.first_at, time)
        if self._early is not None:
            self._early.begin_anew(fx)

    # Publishing

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        wall = now + fx.wall_offset
        if self._beginning.over and self._inbox.latest >= self._clock.next(wall):
            self._take_in_balls(wall, fx)  # a timestamp is above all that was accepted
        for publication in publications:
            batch = publication.batch
            needed = batch.payload_bytes + entry_overhead(batch)
            error = (
                self._turns.objection(batch)
                or refusal(batch, self.config.max_event_bytes)
                or self._no_room(batch, needed)
            )
            if error:
                self._refused += batch.rows
                self._turns.note_refused(batch)
                fx.refuse(publication, error)
            elif not self._beginning.over:
                self._beginning.hold(publication, needed)
                self._store.reserve(1, needed)
            else:
                own = self.own
                own.published, own.published_at = batch.last, self._clock.stamp(wall)
                own.first_at = own.first_at or own.published_at
                self._store.publish(own.published_at, self.node.id, batch)

    def _no_room(self, batch: EventBatch, needed: int) -> str:
        if batch.rows > MAX_ENTRY_EVENTS:
            return f"{batch.rows} events at once; publish at most {MAX_ENTRY_EVENTS} at a time"
        if needed > self.config.max_buffer_bytes // 2:
            return f"{needed} bytes at once; publish less than half of max_buffer_bytes at a time"
        if (
            self._store.taken_entries < self.config.max_entries
            and self._store.taken_bytes + needed <= self.config.max_buffer_bytes
        ):
            return ""
        return "no room: events come faster than they can be ordered; publish again later"

    def publish_room(self) -> int:
        """Half of the buffers is for others' events."""
        if 2 * self._store.taken_bytes > self.config.max_buffer_bytes:
            return 0
        room = max(0, self.config.max_entries // 2 - self._store.taken_entries)
        return room if self._beginning.over else min(room, self._beginning.room())

    # Spreading (Algorithm 4)

    @handles(Ball)
    def _handle_ball(self, now: int, source: NodeId, ball: Ball, fx: Effects) -> None:
        wall = now + fx.wall_offset
        fault = fault_of(ball, self._clock, wall)
        if fault:
            fx.drop(fault, source)
            return
        self._heard += 1
        clock = ball.wall or (ball.published_at if self.config.clock == "logical" else 0)
        if clock and self._clock.hear_clock(source, clock, wall):
            self._set_right(now, fx)
        if ball.latency:
            self.pace.hear(source, ball.latency)
        if self._size is not None and not self._size.hear(ball.epoch, ball.minima, ball.size):
            fx.drop("malformed size", source)
        if ball.entries and self._inbox.add(source, ball):
            self._take_in_balls(wall, fx)
        if ball.published and self._beginning.over and self._is_news(source, ball):
            gaps = self._sources.word(
                source, ball.published, ball.published_at, ball.first_at, self._store
            )
            self._report(gaps, fx)

    def _is_news(self, source: NodeId, ball: Ball) -> bool:
        """Whether what the sender says of its events may tell of holes."""
        passed = ball.published_at < self._store.last[0]
        return passed or self._sources.is_news(source, ball.first_at)

    def _set_right(self, now: int, fx: Effects) -> None:
        """Our clock was."""
        latest = self._clock.latest(now + fx.wall_offset)
        is_beyond = self._clock.highest > latest or self._store.last[0] > latest
        if self._beginning.over and is_beyond:
            self._begin_anew(now, fx)

    def _take_in_balls(self, wall: int, fx: Effects) -> None:
        """Only what is accepted raises our clock: what is refused must not hold up our events."""
        latest = self._clock.latest(wall)
        self._refused += self._inbox.empty_into(self._store, self._hop, latest, fx)
        self._clock.hear(self._store.newest)

    @property
    def _hop(self) -> int:
        """By how much a hop makes events older: not at all if it takes much less than a round."""
        return int(not self.config.adaptive_period or self.pace.hops_take_rounds)

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        self._rounds += 1
        self._arm(now)
        if self._size is not None:
            self._size.next_round()
        self._follow_size()
        self._take_in_balls(now + fx.wall_offset, fx)
        late = self._store.begin_round(self.ttl, self._hop)
        begun = self._beginning.over
        if begun:
            self._report(self._sources.came_late(self._store, late), fx)
        sent = self._send_ball(now, fx)
        if begun:
            self._deliver(now + fx.wall_offset, fx)
        self._store.end_round(sent)
        if not begun and self._beginning.is_due(self.ttl, self._rounds, self._heard > 0):
            self._begin(now, fx)

    def _arm(self, now: int) -> None:
        stretch = 1 + self.config.round_jitter * (2 * self.rng.random() - 1)
        self.timers.set(_ROUND, now + max(1, int(self.pace.period_ns * stretch)))

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
            fx.send(targets[0], Probe(self.pace.probe(now)), DATAGRAM)
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
            self._clock.told(wall),
            self.own.published,
            self.own.published_at,
            self.pace.latency_ns,
            0 if size is None else size.epoch,
            b"" if size is None else size.to_send(),
            0 if size is None else size.size,
            self.own.first_at,
        )

    @handles(Probe)
    def _handle_probe(self, now: int, source: NodeId, probe: Probe, fx: Effects) -> None:
        if is_number(probe.number):
            fx.send(source, ProbeAnswer(probe.number), DATAGRAM)
        else:
            fx.drop("implausible number", source)

    @handles(ProbeAnswer)
    def _handle_probe_answer(
        self, now: int, source: NodeId, answer: ProbeAnswer, fx: Effects
    ) -> None:
        if not self.pace.answered(now, answer.number):
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
            "round_period_ns": self.pace.period_ns,
            "latency_ns": self.pace.latency_ns,
            "clock_correction_ns": self._clock.correction,
            "system_size": self.config.system_size if size is None else size.size,
            "fanout": self.fanout,
            "ttl": self.ttl,
            "settled": int(self._beginning.over),
            "begun_anew": self._begun_anew,
            "early_given": 0 if early is None else early.given,
            "early_revised": 0 if early is None else early.revised,
        }
