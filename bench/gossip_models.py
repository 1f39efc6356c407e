"""The same push gossip: our protocol in our simulator, three ways on SimPy, and bare.

One event a second is published, by ten nodes in turn; a node that gets an event for the first
time sends it to `FANOUT` distinct other nodes; delays are uniform. All return messages per second
of processor time spent inside the run (set-up excluded), after checking that the event reached
nearly everyone.
"""

from heapq import heappop, heappush
from random import Random
from time import process_time

import simpy

from epicast.core import EventBatch
from epicast.protocols.gossip import PushGossip, PushGossipConfig
from epicast.protocols.membership import FullMembership
from epicast.sim.latency import UniformLatency
from epicast.sim.simulation import Simulation

FANOUT = 5
PUBLISHERS = 10
LOW_S, HIGH_S = 0.01, 0.1
SECOND = 1_000_000_000


def epicast_gossip(nodes: int, events: int) -> float:
    """The protocol class users run, through driver, effects and scheduler."""
    simulation = Simulation(1, latency=UniformLatency(int(LOW_S * 1e9), int(HIGH_S * 1e9), seed=1))
    everybody = list(range(nodes))
    config = PushGossipConfig(fanout=FANOUT)
    for node in everybody:
        simulation.add_node(
            lambda peer, rng: PushGossip(
                peer, config, rng, FullMembership(peer.id, everybody, rng)
            ),
            node_id=node,
        )
    for event in range(events):
        publisher = simulation.nodes[event % PUBLISHERS]
        batch = EventBatch.build(publisher.id, event // PUBLISHERS + 1, [b"0123456789"])
        simulation.scheduler.at(event * SECOND, simulation.publish, publisher, batch)
    start = process_time()
    simulation.run_until(events * SECOND)
    seconds = process_time() - start
    _check(simulation.delivered_events, nodes, events)
    return simulation.network.sent / seconds


def simpy_stores(nodes: int, events: int) -> float:
    """A process per node that gets from its store, a process per message that puts into one."""
    env = simpy.Environment()
    rng = Random(1)
    stores = [simpy.Store(env) for _ in range(nodes)]
    counts = [0, 0]

    def message(target, event):  # type: ignore[no-untyped-def]
        yield env.timeout(LOW_S + rng.random() * (HIGH_S - LOW_S))
        stores[target].put(event)

    def node(identity):  # type: ignore[no-untyped-def]
        seen = set()
        while True:
            event = yield stores[identity].get()
            if event in seen:
                continue
            seen.add(event)
            counts[0] += 1
            for target in _ordinary_targets(rng, identity, nodes):
                counts[1] += 1
                env.process(message(target, event))

    def publisher():  # type: ignore[no-untyped-def]
        for event in range(events):
            stores[event % PUBLISHERS].put(event)
            yield env.timeout(1)

    for identity in range(nodes):
        env.process(node(identity))
    env.process(publisher())
    return _time_simpy(env, nodes, events, counts)


def simpy_callbacks(nodes: int, events: int) -> float:
    """SimPy without processes: a timeout per message, a closure as its callback."""
    env = simpy.Environment()
    rng = Random(1)
    seen: list[set[int]] = [set() for _ in range(nodes)]
    counts = [0, 0]

    def receive(node: int, event: int) -> None:
        if event in seen[node]:
            return
        seen[node].add(event)
        counts[0] += 1
        for target in _ordinary_targets(rng, node, nodes):
            counts[1] += 1
            send(LOW_S + rng.random() * (HIGH_S - LOW_S), target, event)

    def send(delay: float, target: int, event: int) -> None:
        env.timeout(delay).callbacks.append(lambda _: receive(target, event))

    for event in range(events):
        send(event, event % PUBLISHERS, event)
    return _time_simpy(env, nodes, events, counts)


def simpy_callbacks_lean(nodes: int, events: int) -> float:
    """The same with every trick we know: no closure, hand-made sampling."""
    env = simpy.Environment()
    rng = Random(1)
    seen: list[set[int]] = [set() for _ in range(nodes)]
    counts = [0, 0]

    def receive(timeout):  # type: ignore[no-untyped-def]
        node, event = timeout.value
        if event in seen[node]:
            return
        seen[node].add(event)
        counts[0] += 1
        for target in _lean_targets(rng, node, nodes):
            counts[1] += 1
            delay = LOW_S + rng.random() * (HIGH_S - LOW_S)
            env.timeout(delay, (target, event)).callbacks.append(receive)

    for event in range(events):
        env.timeout(event, (event % PUBLISHERS, event)).callbacks.append(receive)
    return _time_simpy(env, nodes, events, counts)


def bare_loop(nodes: int, events: int) -> float:
    """A heap, a list of sets and nothing else."""
    rng = Random(1)
    random = rng.random
    seen: list[set[int]] = [set() for _ in range(nodes)]
    heap = [(float(event), event, event % PUBLISHERS, event) for event in range(events)]
    sequence, sent, delivered = events, 0, 0
    span = HIGH_S - LOW_S
    start = process_time()
    while heap:
        now, _, node, event = heappop(heap)
        if event in seen[node]:
            continue
        seen[node].add(event)
        delivered += 1
        targets: list[int] = []
        while len(targets) < FANOUT:
            target = int(random() * nodes)
            if target != node and target not in targets:
                targets.append(target)
        for target in targets:
            sequence += 1
            heappush(heap, (now + LOW_S + random() * span, sequence, target, event))
        sent += FANOUT
    seconds = process_time() - start
    _check(delivered, nodes, events)
    return sent / seconds


def _time_simpy(env: simpy.Environment, nodes: int, events: int, counts: list[int]) -> float:
    start = process_time()
    env.run(until=events)
    seconds = process_time() - start
    _check(counts[0], nodes, events)
    return counts[1] / seconds


def _ordinary_targets(rng: Random, node: int, nodes: int) -> list[int]:
    """What the standard library offers: one more than needed, without ourselves."""
    chosen = rng.sample(range(nodes), FANOUT + 1)
    if node in chosen:
        chosen.remove(node)
    return chosen[:FANOUT]


def _lean_targets(rng: Random, node: int, nodes: int) -> list[int]:
    random = rng.random
    targets: list[int] = []
    while len(targets) < FANOUT:
        target = int(random() * nodes)
        if target != node and target not in targets:
            targets.append(target)
    return targets


def _check(delivered: int, nodes: int, events: int) -> None:
    share = delivered / (nodes * events)
    if share < 0.97:
        raise RuntimeError(f"only {share:.1%} delivered: this run is not the same gossip")
