"""Running a `geoplex.toml` in the simulator, from start to verdict."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import numpy as np
from msgspec import Struct

from epicast.core import EventBatch, NodeId, Publication, Trace
from epicast.core.sampling import derive_seed, sample
from epicast.deployment import Geoplex, NodeBudget
from epicast.protocols.sprinkler import Restarted
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.geoplex import SimGeoplex
from epicast.sim.geoplex_ledger import GeoplexLedger, Session, StreamTruth
from epicast.sim.geoplex_section import (
    AnyRegionFault,
    CrashRegion,
    CutRegions,
    FullDisk,
    GeoplexSimulation,
    IsolateRegion,
    PauseRegion,
)
from epicast.sim.geoplex_workload import Workload
from epicast.sim.history_disk import HistoryDisk
from epicast.sim.node import SimNode
from epicast.sim.runner import Progress, run_watched

_SYNC_NS = 1_000_000
"""What a disk takes to store; a fair solid-state disk."""


class GeoplexOutcome(Struct, frozen=True):
    scenario: str
    seed: int
    simulated_s: float
    nodes_alive: int
    published_events: int
    acknowledged_events: int
    refused_events: int
    delivered_events: int
    tombstoned_events: int
    owed: int
    """Event numbers owed to all subscriptions of all agents together."""
    delivery: float
    """The share of them delivered, as events or as tombstones."""
    lost: int
    """Owed and missing at the end, or acknowledged and forgotten by their owner."""
    out_of_order: int
    restarts: int
    """Subscriptions that had to start over because an owner lost its disk."""
    delay_ms: dict[str, float]
    messages: int
    bytes: int
    drops: dict[str, int]
    heads: dict[str, dict[str, int]]
    """By region and stream: how far its proxy is."""
    digest: str
    failures: list[str]

    @property
    def passed(self) -> bool:
        return not self.failures


class GeoplexRun:
    """One seed of one file."""

    def __init__(
        self,
        geoplex: Geoplex,
        seed: int | None = None,
        trace: Trace | None = None,
        batch: int | None = None,
    ) -> None:
        """`batch`: publish at most so many events at a time."""
        self.geoplex = geoplex
        self.section = geoplex.simulation(GeoplexSimulation)
        self.seed = self.section.seed if seed is None else seed
        self._batch = batch
        self._trace = trace or Trace(keep=False)
        self.sim = SimGeoplex(
            geoplex,
            self.seed,
            inside_ns=self.section.latency_ns,
            sync_ns=_SYNC_NS,
            proxy_bandwidth=_bandwidth(geoplex.budget.proxy),
            agent_bandwidth=_bandwidth(geoplex.budget.agent),
            trace=self._trace,
        )
        self.simulation = self.sim.simulation
        self.ledger = GeoplexLedger(
            {info.id: StreamTruth(name, info.owner) for name, info in self.sim.streams.items()}
        )
        self._rng = Random(derive_seed(self.seed, "faults"))
        self._observe()

    def _observe(self) -> None:
        for node in self.sim.proxies.values():
            assert isinstance(node.disk, HistoryDisk)
            node.disk.on_stored = partial(self.ledger.on_stored, node.id)
        self.simulation.on_topic_delivery = self._on_delivery
        self.simulation.on_notice = self._on_notice
        self.simulation.on_acknowledge = self._on_acknowledge
        self.simulation.on_refuse = self._on_refuse

    def run(self, progress: Progress | None = None) -> GeoplexOutcome:
        """To the end; what is lost is told in the outcome, an impossible state raises."""
        self._schedule()
        end_ns = self.section.duration_ns + self.section.drain_ns
        run_watched(self.simulation, end_ns, self.replay_line(), progress)
        return self._outcome()

    def replay_line(self) -> str:
        batch = f" --batch {self._batch}" if self._batch else ""
        return f"epicast simulate {self.geoplex.source_name} --seed {self.seed}{batch}"

    def describe(self) -> str:
        agents = sum(self.section.agents_in(region) for region in self.sim.regions)
        parts = [f"{len(self.sim.regions)} regions", f"{len(self.sim.streams)} streams"]
        parts += [f"{agents} agents", f"{self.section.duration_ns / 1e9:g} s"]
        if self.section.faults:
            parts.append(f"{len(self.section.faults)} faults")
        return ", ".join(parts)

    # -- schedule --------------------------------------------------------------------------------

    def _schedule(self) -> None:
        section = self.section
        for region in self.sim.regions:
            for index in range(section.agents_in(region)):
                self._at(index * section.join_every_ns, partial(self._join, region))
        for number, plan in enumerate(section.workloads(self.sim.streams), 1):
            info = self.sim.streams[plan.stream]
            seed = derive_seed(self.seed, "keys", number)
            workload = Workload(plan, info.id, number, seed)
            region = plan.region or info.region
            publisher = self.sim.add_client(region, f"{region}/publisher-{number}")
            for time in workload.times(section.duration_ns):
                self._at(time, partial(self._publish, publisher, workload))
        for fault in section.faults:
            self._at(fault.at_ns, partial(self._strike, fault))

    def _at(self, time: int, action: Callable[[], None]) -> None:
        self.simulation.scheduler.at(time, _call, action)

    def _join(self, region: str) -> None:
        node = self.sim.add_agent(region)
        for number, info in enumerate(self.sim.streams.values(), 1):
            self.ledger.sessions[node.id, number] = Session(info.id, self.simulation.now)
        self._subscribe(node)

    def _subscribe(self, node: SimNode) -> None:
        for number, name in enumerate(self.sim.streams, 1):
            session = self.ledger.sessions[node.id, number]
            self.sim.subscribe(node, number, name, epoch=session.epoch, after=session.end)

    def _publish(self, node: SimNode, workload: Workload) -> None:
        remaining = workload.plan.batch
        while remaining:
            count = min(remaining, self._batch or remaining)
            remaining -= count
            batch = workload.next_batch(count)
            self.ledger.on_publish(self.simulation.now, node.id, batch)
            self.sim.publish(node, batch)

    # -- what is observed ------------------------------------------------------------------------

    def _on_delivery(self, now: int, node: NodeId, number: int, batch: EventBatch) -> None:
        self.ledger.on_delivery(now, node, number, batch)
        self.sim.consumed(self.simulation.nodes[node], number, batch.last)

    def _on_notice(self, _: int, node: NodeId, number: int, value: Any) -> None:
        if isinstance(value, Restarted):
            self.ledger.on_restarted(node, number, value.epoch, value.seq)

    def _on_acknowledge(self, _: NodeId, publication: Publication, seq: int) -> None:
        self.ledger.on_acknowledge(publication, seq)

    def _on_refuse(self, _: NodeId, publication: Publication, __: str) -> None:
        self.ledger.on_refuse(publication)

    # -- faults ----------------------------------------------------------------------------------

    def _strike(self, fault: AnyRegionFault) -> None:
        sim = self.simulation
        sim.record_fault(f"{type(fault).__name__} {' '.join(fault.regions())}")
        match fault:
            case CrashRegion():
                for node in self._victims(fault.region, fault.agents):
                    sim.crash(node, lose_disk=fault.lose_disk, silently=fault.silently)
                    self._at(sim.now + fault.restart_after_ns, partial(self._restart, node))
            case PauseRegion():
                for node in self._victims(fault.region, fault.agents):
                    sim.pause(node)
                    self._at(sim.now + fault.for_ns, partial(sim.resume, node))
            case FullDisk():
                disk = self.sim.proxies[fault.region].disk
                assert disk is not None
                disk.fill()
                self._at(sim.now + fault.for_ns, disk.free)
            case CutRegions():
                one, other = (self.sim.proxies[region].id for region in fault.between)
                ways = {(one, other)} if fault.one_way else {(one, other), (other, one)}
                self._cut(lambda source, target: (source, target) in ways, fault.for_ns)
            case IsolateRegion():
                alone = self.sim.proxies[fault.region].id
                proxies = {node.id for node in self.sim.proxies.values()}
                self._cut(
                    lambda source, target: (
                        (source == alone and target in proxies)
                        or (target == alone and source in proxies)
                    ),
                    fault.for_ns,
                )

    def _victims(self, region: str, agents: int | None) -> list[SimNode]:
        if agents is None:
            proxy = self.sim.proxies[region]
            return [proxy] if proxy.alive and not proxy.paused else []
        able = [node for node in self.sim.agents[region] if node.alive and not node.paused]
        return sample(self._rng, able, agents)

    def _restart(self, node: SimNode) -> None:
        self.sim.restart(node)
        if node not in self.sim.proxies.values():
            self._subscribe(node)

    def _cut(self, cut: Callable[[NodeId, NodeId], bool], for_ns: int) -> None:
        network = self.simulation.network
        network.cut(cut)
        self._at(self.simulation.now + for_ns, partial(network.mend, cut))

    # -- verdict ---------------------------------------------------------------------------------

    def _outcome(self) -> GeoplexOutcome:
        simulation, ledger = self.simulation, self.ledger
        owed, had = ledger.account()
        forgotten = ledger.forgotten()
        unanswered = ledger.published - ledger.acknowledged - ledger.refused
        failures = list(ledger.problems)
        if owed > had:
            failures.append(f"{owed - had} of {owed} owed events have not arrived")
        if forgotten:
            failures.append(f"{forgotten} acknowledged events are gone at their owner")
        if ledger.out_of_order or ledger.wrong:
            failures.append(f"{ledger.out_of_order} out of order, {ledger.wrong} wrong")
        if unanswered:
            failures.append(f"{unanswered} publications have had no answer")
        delays = np.array(ledger.delays_ns or [0]) / 1e6
        return GeoplexOutcome(
            scenario=self.geoplex.name,
            seed=self.seed,
            simulated_s=simulation.now / 1e9,
            nodes_alive=len(simulation.live_nodes()),
            published_events=ledger.published,
            acknowledged_events=ledger.acknowledged,
            refused_events=ledger.refused,
            delivered_events=ledger.delivered,
            tombstoned_events=ledger.tombstoned,
            owed=owed,
            delivery=had / owed if owed else 1.0,
            lost=owed - had + forgotten,
            out_of_order=ledger.out_of_order,
            restarts=ledger.restarts,
            delay_ms={f"p{p}": round(float(np.percentile(delays, p)), 3) for p in (50, 95, 99)},
            messages=simulation.network.sent,
            bytes=simulation.network.sent_bytes,
            drops=dict(sorted(simulation.drops.items())),
            heads={
                region: dict(self.sim.heads(region))
                for region, node in self.sim.proxies.items()
                if node.alive
            },
            digest=self._trace.digest(),
            failures=failures,
        )


def _bandwidth(budget: NodeBudget) -> Bandwidth | None:
    rate = budget.bandwidth_bytes_per_second
    if rate is None:
        return None
    return Bandwidth(rate, rate, budget.data_queue_bytes or 16 << 20)


def _call(action: Callable[[], None], _: Any) -> None:
    action()
