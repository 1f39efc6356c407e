"""Running a scenario from start to verdict."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from msgspec import Struct

from epicast.core import EpicastError, EventBatch, NodeId, Trace
from epicast.core.sampling import choose, derive_seed
from epicast.protocols.catalog import stack_factory
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.checkers import DeliveryLedger, Published, check_nodes, overlay
from epicast.sim.churn import schedule_churn, schedule_trace
from epicast.sim.faults import Injector
from epicast.sim.network import Conditions
from epicast.sim.scenario import LoadedScenario, Scenario
from epicast.sim.service import Service
from epicast.sim.simulation import Simulation

_LOOKS = 100
"""How often during a run invariants are checked and progress is told."""

Progress = Callable[[float, str], None]
"""Told the share done and a word about it."""


class ScenarioFailed(EpicastError):
    """A run broke a rule; the message ends with the command that repeats it."""


def run_watched(
    simulation: Simulation, end_ns: int, replay_line: str, progress: Progress | None
) -> None:
    """To the end, with a look at all nodes now and then; what goes wrong says how to repeat it."""
    try:
        for look in range(1, _LOOKS + 1):
            simulation.run_until(end_ns * look // _LOOKS)
            check_nodes(simulation)
            if progress is not None:
                progress(look / _LOOKS, f"{simulation.now / 1e9:.1f} s simulated")
    except Exception as error:
        what = str(error) if isinstance(error, EpicastError) else repr(error)
        raise ScenarioFailed(f"{what}\nrepeat with: {replay_line}") from error


class Outcome(Struct, frozen=True):
    scenario: str
    seed: int
    simulated_s: float
    nodes_alive: int
    published_events: int
    delivered_events: int
    delivery: float
    delay_ms: dict[str, float]
    messages: int
    bytes: int
    drops: dict[str, int]
    connected: bool
    mean_degree: float
    digest: str
    failures: list[str]

    @property
    def passed(self) -> bool:
        return not self.failures


class ScenarioRun:
    """One seed of one scenario."""

    def __init__(
        self,
        loaded: LoadedScenario,
        seed: int | None = None,
        trace: Trace | None = None,
        batch: int | None = None,
    ) -> None:
        scenario = loaded.scenario
        self.loaded = loaded
        self.scenario = scenario
        self.seed = scenario.seed if seed is None else seed
        self._batch = batch
        self.trace = trace or Trace(keep=False)
        network = scenario.network
        limits, service = network.bandwidth, scenario.service
        self.simulation = Simulation(
            self.seed,
            latency=loaded.latency(derive_seed(self.seed, "latency")),
            conditions=Conditions(
                loss=network.loss,
                duplication=network.duplication,
                reordering=network.reordering,
            ),
            bandwidth=Bandwidth(limits.up, limits.down, limits.queue) if limits else None,
            service=(
                Service(service.per_message_ns, service.per_kilobyte_ns / 1000) if service else None
            ),
            disk_sync_ns=scenario.disk_sync_ns,
            trace=self.trace,
            check_addresses=True,
        )
        self.ledger = DeliveryLedger(self.simulation)
        self._factory = stack_factory(scenario.stack, scenario.configs)
        self._rng = Random(derive_seed(self.seed, "scenario"))
        self._injector = Injector(self.simulation, Random(derive_seed(self.seed, "faults")))
        # Ids that newcomers cannot take: nodes that join later have them already.
        self._newest = max((scenario.nodes, *(event.node for event in loaded.trace)))
        self._sequences: dict[NodeId, int] = {}
        self._published: list[list[Published]] = [[] for _ in scenario.workload]

    def run(self, progress: Progress | None = None) -> Outcome:
        """To the end; broken expectations are listed in the outcome, broken rules raise."""
        self._schedule()
        run_watched(self.simulation, self.scenario.duration_ns, self.replay_line(), progress)
        return self._outcome()

    def replay_line(self) -> str:
        batch = f" --batch {self._batch}" if self._batch else ""
        return f"epicast {self.loaded.source} --seed {self.seed}{batch}"

    # -- schedule --------------------------------------------------------------------------------

    def _schedule(self) -> None:
        scenario, scheduler = self.scenario, self.simulation.scheduler
        for index in range(scenario.nodes):
            scheduler.at(index * scenario.join_every_ns, self._add_node, index + 1)
        for number, workload in enumerate(scenario.workload):
            for index in range(workload.count):
                at = workload.from_ns + index * workload.every_ns
                scheduler.at(at, self._publish, number, index)
        self._injector.schedule(scenario.faults)
        if scenario.churn is not None:
            churn_rng = Random(derive_seed(self.seed, "churn"))
            schedule_churn(self.simulation, scenario.churn, self._add_node, churn_rng)
        schedule_trace(self.simulation, self.loaded.trace, self._add_node, self._injector)

    def _add_node(self, node: NodeId | None = None, _: Any = None) -> None:
        if node is None:
            self._newest += 1
        identity = self._newest if node is None else node
        if identity in self.simulation.nodes:
            return
        contacts = self._injector.contacts(identity)
        self.simulation.add_node(self._factory, contacts, identity)

    def _publish(self, number: int, index: int) -> None:
        workload = self.scenario.workload[number]
        if workload.publishers:
            chosen = workload.publishers[index % len(workload.publishers)]
            node = self.simulation.nodes.get(chosen)
        else:
            running = [node for node in self.simulation.live_nodes() if not node.paused]
            node = choose(self._rng, running) if running else None
        if node is None or not node.alive or node.paused:
            return
        remaining = workload.batch
        while remaining:
            rows = min(remaining, self._batch or remaining)
            remaining -= rows
            first = self._sequences.get(node.id, 0) + 1
            self._sequences[node.id] = first + rows - 1
            payloads = [self._payload(node.id, first + i, workload.size_bytes) for i in range(rows)]
            batch = EventBatch.build(node.id, first, payloads, time=self.simulation.now)
            self._published[number].append(self.ledger.publish(batch))
            self.simulation.publish(node, batch)

    @staticmethod
    def _payload(node: NodeId, seq: int, size: int) -> bytes:
        """Distinct for each event, so that a mix-up is noticed."""
        stamp = f"{node}:{seq}:".encode()
        return (stamp * (size // len(stamp) + 1))[:size]

    # -- verdict ---------------------------------------------------------------------------------

    def _outcome(self) -> Outcome:
        simulation, expect = self.simulation, self.scenario.expect
        graph = overlay(simulation)
        largest = int(np.bincount(graph.components()).max(initial=0))
        connected = largest == graph.nodes
        delivery = self.ledger.ratio()
        failures = []
        if delivery < expect.delivery:
            failures.append(f"delivery {delivery:.4%} is below the expected {expect.delivery:.4%}")
        for number, workload in enumerate(self.scenario.workload):
            part = self.ledger.ratio(self._published[number])
            if workload.expect_delivery is not None and part < workload.expect_delivery:
                wanted = f"{workload.expect_delivery:.4%}"
                failures.append(f"workload[{number}]: delivery {part:.4%} is below {wanted}")
        if expect.connected and not connected:
            failures.append(
                f"the overlay is split: its largest part has {largest} of {graph.nodes}"
            )
        delays = np.array(self.ledger.delays_ns or [0]) / 1e6
        return Outcome(
            scenario=self.scenario.name,
            seed=self.seed,
            simulated_s=simulation.now / 1e9,
            nodes_alive=len(simulation.live_nodes()),
            published_events=sum(each.batch.rows for each in self.ledger.published),
            delivered_events=self.ledger.deliveries,
            delivery=delivery,
            delay_ms={f"p{p}": round(float(np.percentile(delays, p)), 3) for p in (50, 95, 99)},
            messages=simulation.network.sent,
            bytes=simulation.network.sent_bytes,
            drops=dict(sorted(simulation.drops.items())),
            connected=connected,
            mean_degree=float(graph.out_degrees().mean()) if graph.nodes else 0.0,
            digest=self.trace.digest(),
            failures=failures,
        )


def describe(scenario: Scenario) -> str:
    parts = [f"{scenario.nodes} nodes", " + ".join(scenario.stack)]
    parts.append(f"{scenario.duration_ns / 1e9:g} s")
    if scenario.faults or scenario.churn or scenario.churn_trace:
        parts.append(f"{len(scenario.faults)} faults" + (", churn" if scenario.churn else ""))
    return ", ".join(parts)
