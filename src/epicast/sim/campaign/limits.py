"""Bounds on memory and queues, looked at from outside every now and then.

This looks inside of nodes: bounds are about what is there, not about what is said. How much of a
window an application holds is looked at where it is delivered, see `applications`.
"""

from __future__ import annotations

from typing import Any

from epicast.protocols.sprinkler import Agent, Client, Proxy, ReplicaProxy
from epicast.sim.campaign.truth import Broken
from epicast.sim.campaign.world import World

_STEP = 64 << 10
"""What comes in one step is taken as a whole, before the bound is looked at again."""
_MOST_ROWS = 500
"""Of one publication: it is taken as a whole if there is room for any."""
_MOST_REQUESTS = 1000


def check_limits(world: World) -> None:
    slack = world.slack_bytes
    for node in world.simulation.live_nodes():
        protocol: Any = node.protocol
        if isinstance(protocol, Proxy):
            _check_proxy(protocol, slack)
        elif isinstance(protocol, (Agent, Client)):
            _check_edge(protocol)


def _check_proxy(proxy: Proxy, slack: int) -> None:
    config = proxy.config
    for state in proxy._states.values():
        name = f"{proxy.node.id}, {state.info.name}"
        _hold(name, "not stored yet", state.hidden_bytes,
              max(config.max_unstable_bytes, config.window_bytes) + slack + _STEP)  # fmt: skip
        _hold(name, "at hand", state.recent._bytes, config.recent_bytes)
    everybody = [proxy._cursors]
    if isinstance(proxy, ReplicaProxy):
        everybody.append(proxy._links.cursors)
    for cursor in (
        c for all_of in everybody for by in all_of._by_peer.values() for c in by.values()
    ):
        name = f"{proxy.node.id} for {cursor.peer}"
        _hold(name, "under way", cursor.in_flight, cursor.window + slack)
        if cursor.in_flight < 0:
            raise Broken(f"{name}: {cursor.in_flight} bytes under way")
    _hold(str(proxy.node.id), "neighbours", len(proxy._view), config.view_size)
    _hold(str(proxy.node.id), "subscriptions", proxy._cursors.count, config.max_subscriptions)


def _check_edge(edge: Agent | Client) -> None:
    config, outbox = edge.config, edge._outbox
    name = str(edge.node.id)
    _hold(name, "events without an answer", outbox._events,
          config.max_unacknowledged_events + _MOST_ROWS)  # fmt: skip
    if outbox._events < 0 or outbox._bytes < 0:
        raise Broken(f"{name}: {outbox._events} events without an answer, {outbox._bytes} bytes")
    if isinstance(edge, Agent):
        for following in edge._followed.values():
            of = f"{name}, {following.info.name}"
            _hold(of, "early", following._early_bytes, edge.config.early_bytes)
            _hold(of, "outstanding requests", len(following.outstanding), _MOST_REQUESTS)
        _hold(name, "neighbours", len(edge._view), edge.config.view_size)


def _hold(name: str, what: str, there: int, most: int) -> None:
    if there > most:
        raise Broken(f"{name}: {there} {what}, at most {most} are allowed")
