"""Systems of EpTO processes as in its evaluation (section 5.3), and what became of the events.

A tick is a millisecond. Every process publishes with the same probability in each round; an event's
payload is its index, so that whole deliveries are looked at as columns. What would be delivered
without ordering, each event when it is first heard of, is noted in the same run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from epicast.core import Effects, EventBatch, NodeId, Peer, Protocol
from epicast.core.sampling import derive_seed, sample
from epicast.experiments.model import Parameters
from epicast.protocols.catalog import stack_factory
from epicast.protocols.epto import Epto, EptoConfig
from epicast.protocols.epto.config import AUTOMATIC
from epicast.protocols.epto.entries import ENTRY_BYTES
from epicast.protocols.epto.messages import Ball
from epicast.protocols.epto.topic import membership_config
from epicast.protocols.hyparview import HyParViewConfig
from epicast.protocols.membership import FullMembership
from epicast.sim.latency import Latency, PairLatency, epto_latency
from epicast.sim.node import SimNode
from epicast.sim.simulation import Simulation

TICK_NS = 1_000_000
PERIOD_TICKS = 125
SHUFFLE_TICKS = 8 * PERIOD_TICKS
"""Of Cyclon: longer than an answer takes."""
_PING_TICKS = 250
"""About as long as an answer takes."""
Ints = NDArray[np.int64]


class Setting(Struct, frozen=True, kw_only=True):
    processes: int
    rate: float
    """Probability that a process publishes in a round."""
    clock: str = "global"
    period_ticks: float = PERIOD_TICKS
    drift: float = 0.1
    churn: float = 0.0
    """Share of half the system that is replaced in every 125 ticks."""
    membership: str = "uniform"
    shuffle_ticks: float = SHUFFLE_TICKS
    """Between two shuffles of Cyclon. An answer that comes after the next one is lost."""
    extra_rounds: int = AUTOMATIC
    """Waited for beyond what the paper says; 0: nothing is added."""
    latency: str = "message"
    """Whether every message has a latency of its own, as in the paper, or every "pair" of
    processes."""
    rounds: int = 40
    """In which events are published; as many as they need to be delivered follow."""


def setting_of(parameters: Parameters) -> Setting:
    extra = parameters.get("extra_rounds")
    return Setting(
        processes=int(parameters["processes"] or 0),
        rate=float(parameters["rate"] or 0),
        clock=str(parameters["clock"]),
        rounds=int(parameters["rounds"] or 0),
        extra_rounds=AUTOMATIC if extra is None else int(extra),
    )


def latency_of(setting: Setting, seed: int) -> Latency:
    drawn = epto_latency(derive_seed(seed, "latency"))
    return PairLatency(drawn) if setting.latency == "pair" else drawn


def publications(
    rng: Random, processes: Sequence[NodeId], rate: float, period: int
) -> list[tuple[NodeId, int]]:
    """Who publishes in a round, and when after its beginning."""
    return [(each, int(rng.random() * period)) for each in processes if rng.random() < rate]


class Watched(Epto):
    """Notes when each event is heard of first."""

    __slots__ = ("_system",)

    def __init__(
        self, node: Peer, config: EptoConfig, rng: Random, peers: Any, system: OrderedSystem
    ) -> None:
        super().__init__(node, config, rng, peers)
        self._system = system

    def on_messages(self, now: int, source: NodeId, messages: Any, fx: Effects) -> None:
        for message in messages:
            if isinstance(message, Ball) and message.entries:
                content = np.frombuffer(message.columns, "<i8", -1, ENTRY_BYTES * message.entries)
                self._system.hear(self.node.id, now, content[1::2])
        super().on_messages(now, source, messages, fx)


class OrderedSystem:
    def __init__(self, setting: Setting, seed: int, *, watched: bool = True) -> None:
        self.setting = setting
        self.simulation = Simulation(
            seed,
            latency=latency_of(setting, seed),
            on_delivery=self._on_delivery,
        )
        self._watched = watched
        self._rng = Random(derive_seed(seed, "workload"))
        self._alive: list[NodeId] = []
        self._numbers: dict[NodeId, int] = {}
        most = int(setting.processes * setting.rate * setting.rounds * 2) + 1000
        self.published_at: Ints = np.zeros(most, dtype=np.int64)
        self._stamps: Ints = np.full(most, -1, dtype=np.int64)
        self.sources: Ints = np.zeros(most, dtype=np.int64)
        self.events = 0
        self.delivered: dict[NodeId, list[tuple[int, Ints]]] = {}
        self.heard: dict[NodeId, list[tuple[int, Ints]]] = {}
        self._known: dict[NodeId, NDArray[np.bool_]] = {}
        self.contradictions = 0
        """Deliveries of an event under another timestamp than elsewhere."""
        period = int(setting.period_ticks * TICK_NS)
        self._config = EptoConfig(
            clock=setting.clock,  # type: ignore[arg-type]
            system_size=setting.processes,
            round_period_ns=period,
            round_jitter=setting.drift,
            adaptive_period=False,
            idle_fanout=0,
            max_datagram_bytes=1 << 30,
            max_ball_bytes=1 << 26,
            max_entries=1 << 20,
            extra_rounds=setting.extra_rounds,
            shuffle_period_ns=int(setting.shuffle_ticks * TICK_NS),
            ping_period_ns=_PING_TICKS * TICK_NS,
        )
        self._period = period
        self._factory = self._make_factory()
        for identity in range(1, setting.processes + 1):
            self._add(identity, [])
        self.stable = list(self._alive)
        """Processes that are there from the beginning to the end."""

    # -- processes -------------------------------------------------------------------------------

    def _make_factory(self) -> Callable[[Peer, Random], Protocol[Any]]:
        membership = self.setting.membership
        if membership == "uniform":
            return self._uniform
        configs = {
            "epto": self._config,
            "cyclon": membership_config(self._config),
            "hyparview": HyParViewConfig(active_view=30, passive_view=60),
        }
        return stack_factory([membership, "epto"], configs)

    def _uniform(self, peer: Peer, rng: Random) -> Protocol[Any]:
        members = FullMembership(peer.id, self._alive, rng)
        if self._watched:
            return Watched(peer, self._config, rng, members, self)
        return Epto(peer, self._config, rng, members)

    def _add(self, identity: NodeId | None, contacts: list[Peer]) -> None:
        if self.setting.membership != "uniform" and self._alive and not contacts:
            contacts = [Peer(each) for each in sample(self._rng, self._alive, 3)]
        node = self.simulation.add_node(self._factory, contacts, identity)
        self._alive.append(node.id)
        self.delivered[node.id] = []
        self.heard[node.id] = []
        if self._watched:
            self._known[node.id] = np.zeros(len(self.published_at), dtype=bool)

    def _churn(self) -> None:
        """Replace some of the half that is not stable."""
        simulation, setting = self.simulation, self.setting
        stable = set(self.stable)
        candidates = [identity for identity in self._alive if identity not in stable]
        owed = setting.churn * len(candidates) + self._rng.random()
        for identity in sample(self._rng, candidates, int(owed)):
            self._alive.remove(identity)
            simulation.crash(simulation.nodes[identity], silently=True)
            self._add(None, [Peer(sample(self._rng, self.stable, 1)[0])])

    # -- running ---------------------------------------------------------------------------------

    def run(self) -> None:
        setting, simulation = self.setting, self.simulation
        if setting.membership != "uniform":
            simulation.run_for(20 * SHUFFLE_TICKS * TICK_NS)  # views are mixed before it begins
        if setting.churn:
            self.stable = self.stable[: len(self.stable) // 2]
        next_churn = simulation.now
        for _ in range(setting.rounds):
            begin = simulation.now
            for identity, at in publications(self._rng, self._alive, setting.rate, self._period):
                simulation.scheduler.at(begin + at, self._publish, simulation.nodes[identity])
            while setting.churn and next_churn < begin + self._period:
                simulation.run_until(next_churn)
                self._churn()
                next_churn += PERIOD_TICKS * TICK_NS
            simulation.run_until(begin + self._period)
        ttl = self._config.ttl or 12
        slowest = max(self._period, PERIOD_TICKS * TICK_NS) * (1 + setting.drift)
        simulation.run_for(int((4 * ttl + 12) * slowest))

    def _publish(self, node: SimNode, _: Any) -> None:
        if not node.alive:
            return
        event, self.events = self.events, self.events + 1
        number = self._numbers[node.id] = self._numbers.get(node.id, 0) + 1
        self.published_at[event] = self.simulation.now
        self.sources[event] = node.id
        if self._watched:
            self.hear(node.id, self.simulation.now, np.array([event]))
        payload = event.to_bytes(8, "little")
        self.simulation.publish(node, EventBatch.build(node.id, number, [payload]))

    def hear(self, node: NodeId, now: int, events: Ints) -> None:
        known = self._known[node]
        new = events[~known[events]]
        if len(new):
            known[new] = True
            self.heard[node].append((now, new))

    def _on_delivery(self, now: int, node: NodeId, batch: EventBatch) -> None:
        events = np.frombuffer(batch.data, dtype="<i8")
        stamps = self._stamps[events]
        self.contradictions += int(((stamps != batch.times) & (stamps >= 0)).sum())
        self._stamps[events] = batch.times
        self.delivered[node].append((now, events))

    # -- what became of it -----------------------------------------------------------------------

    def order(self, node: NodeId) -> Ints:
        """What a process delivered."""
        return _joined(self.delivered[node])

    def violations(self) -> int:
        """Events delivered twice, or after one that everybody sorts behind them."""
        found = self.contradictions
        for node in self.delivered:
            order = self.order(node)
            ranks = self._ranks(order)
            found += int((ranks[1:] <= ranks[:-1]).sum())
        return found

    def _ranks(self, events: Ints) -> Ints:
        """Places in the one order: by timestamp, then source."""
        order = np.lexsort((self.sources[: self.events], self._stamps[: self.events]))
        places = np.empty(self.events, dtype=np.int64)
        places[order] = np.arange(self.events)
        return places[events]

    def holes(self) -> dict[NodeId, int]:
        """Of each stable process: the events it lacks that another of them has, or that one of
        them has published."""
        owed = np.zeros(self.events, dtype=bool)
        owed[np.isin(self.sources[: self.events], self.stable)] = True
        for node in self.stable:
            owed[self.order(node)] = True
        total = int(owed.sum())
        return {node: total - len(np.unique(self.order(node))) for node in self.stable}

    def deliveries(self) -> tuple[Ints, Ints]:
        """Of every delivery at a stable process: which event, and when."""
        log = [entry for node in self.stable for entry in self.delivered[node]]
        times = np.array([now for now, _ in log], dtype=np.int64)
        return _joined(log), np.repeat(times, [len(events) for _, events in log])

    def delays(self, *, ordered: bool = True, of_stable: bool = False) -> NDArray[np.float64]:
        """Ticks from publication to delivery, of every delivery at a stable process; or to when the
        event was heard of first. `of_stable`: of events that a stable process has published."""
        logs = self.delivered if ordered else self.heard
        counted = np.ones(self.events, dtype=bool)
        if of_stable:
            counted = np.isin(self.sources[: self.events], self.stable)
        found = [
            (now - self.published_at[events[counted[events]]]) / TICK_NS
            for node in self.stable
            for now, events in logs[node]
        ]
        return np.concatenate(found) if found else np.zeros(0)

    def completion(self, *, ordered: bool = True) -> NDArray[np.float64]:
        """Ticks from publication until the last stable process that delivers an event does, of
        every event; or until the last that hears of it does."""
        logs = self.delivered if ordered else self.heard
        last: Ints = np.full(self.events, -1, dtype=np.int64)
        for node in self.stable:
            for now, events in logs[node]:
                last[events] = np.maximum(last[events], now)
        known = last >= 0
        return (last - self.published_at[: self.events])[known] / TICK_NS

    def spontaneous_order(self, processes: int) -> list[float]:
        """Of some processes: the share of events that came in the one order by themselves, as the
        longest sequence that is in it."""
        found = []
        for node in self.stable[:processes]:
            events = _joined(self.heard[node])
            if len(events):
                ranks = self._ranks(events)
                found.append(_longest_ascending(ranks.tolist()) / len(events))
        return found


def _joined(log: list[tuple[int, Ints]]) -> Ints:
    return np.concatenate([events for _, events in log]) if log else np.zeros(0, dtype=np.int64)


def _longest_ascending(values: list[int]) -> int:
    ends: list[int] = []
    for value in values:
        at = bisect_left(ends, value)
        if at == len(ends):
            ends.append(value)
        else:
            ends[at] = value
    return len(ends)
