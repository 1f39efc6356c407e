"""Children of `bench scale`: `python -m bench.overlay_models MODEL NODES` prints one JSON line."""

import json
import sys
from heapq import heappop, heappush
from random import Random
from time import process_time

from epicast.core import EventBatch
from epicast.protocols.catalog import stack_factory
from epicast.protocols.hyparview import HyParViewConfig
from epicast.sim.latency import UniformLatency
from epicast.sim.simulation import Simulation

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
LOW_S, HIGH_S = 0.001, 0.01
VIEW = 5


def hyparview(nodes: int) -> dict[str, float]:
    """Five nodes join per millisecond, each through a random one; then one event floods to all.

    Keep-alives are off: connections tell of failures, and there are none.
    """
    latency = UniformLatency(int(LOW_S * 1e9), int(HIGH_S * 1e9), seed=1)
    simulation = Simulation(1, latency=latency)
    config = HyParViewConfig(active_view=VIEW, keep_alive_period_ns=0)
    factory = stack_factory(["hyparview", "flood"], {"hyparview": config})
    rng = Random(1)

    def join(identity: int, _: object) -> None:
        contact = int(rng.random() * (identity - 1)) + 1
        contacts = [simulation.nodes[contact].peer] if identity > 1 else []
        simulation.add_node(factory, contacts, identity)

    for identity in range(1, nodes + 1):
        simulation.scheduler.at(identity * MILLISECOND // 5, join, identity)
    start = process_time()
    simulation.run_until(nodes * MILLISECOND // 5 + SECOND)
    joined, joining = simulation.network.sent, process_time() - start
    source = simulation.nodes[1]
    simulation.publish(source, EventBatch.build(source.id, 1, [bytes(100)]))
    simulation.run_for(2 * SECOND)
    total = process_time() - start
    return {
        "messages": simulation.network.sent,
        "join_messages": joined,
        "join_s": joining,
        "us_per_message": total / simulation.network.sent * 1e6,
        "seconds": total,
        "delivered": simulation.delivered_events,
    }


def bare(nodes: int) -> dict[str, float]:
    """Floods of random graphs with a heap and nothing else, until there were a million messages."""
    rng = Random(1)
    random = rng.random
    neighbors: list[list[int]] = [[] for _ in range(nodes)]
    for node in range(nodes):
        for _ in range(VIEW // 2):
            peer = int(random() * nodes)
            neighbors[node].append(peer)
            neighbors[peer].append(node)
    span = HIGH_S - LOW_S
    messages, sequence, seconds = 0, 0, 0.0
    while messages < 1_000_000:
        seen: list[set[int]] = [set() for _ in range(nodes)]
        heap = [(0.0, 0, int(random() * nodes), -1, 1)]
        start = process_time()
        while heap:
            now, _, node, source, event = heappop(heap)
            if event in seen[node]:
                continue
            seen[node].add(event)
            for peer in neighbors[node]:
                if peer != source:
                    sequence += 1
                    messages += 1
                    heappush(heap, (now + LOW_S + random() * span, sequence, peer, node, event))
        seconds += process_time() - start
    return {"messages": messages, "us_per_message": seconds / messages * 1e6}


if __name__ == "__main__":
    model = {"hyparview": hyparview, "bare": bare}[sys.argv[1]]
    print(json.dumps(model(int(sys.argv[2]))))
