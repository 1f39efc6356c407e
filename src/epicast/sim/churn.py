"""Nodes that come and go: at a rate, or as a trace says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from epicast.core import MAX_NODE_ID, ConfigError, NodeId
from epicast.core.sampling import choose
from epicast.deployment import Duration, Fraction, FractionRate, parse_duration, without_unit
from epicast.sim.faults import Injector
from epicast.sim.simulation import Simulation


class Churn(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename=without_unit):
    """A share of the nodes leaves per time, and is replaced by as many new ones."""

    rate: FractionRate
    """Such as "3%/min", of the nodes alive at the start of the churn."""
    from_ns: Duration = 0
    for_ns: Annotated[Duration, Meta(gt=0)]
    crashes: Fraction = 1.0
    """Share of departures without a goodbye."""
    replace: bool = True
    spare: list[int] = []
    """Nodes that stay."""


class ChurnEvent(NamedTuple):
    at_ns: int
    action: Literal["join", "leave", "crash"]
    node: NodeId


AddNode = Callable[[NodeId | None], None]


def schedule_churn(simulation: Simulation, churn: Churn, add_node: AddNode, rng: Random) -> None:
    """Departures at random instants, on average `rate` of the nodes per time."""

    def begin(_: Any, __: Any) -> None:
        expected = churn.rate * len(simulation.live_nodes()) * churn.for_ns / 1e9
        departures = int(expected) + (rng.random() < expected % 1)
        for instant in sorted(rng.random() for _ in range(departures)):
            at = simulation.now + int(instant * churn.for_ns)
            simulation.scheduler.at(at, depart)

    def depart(_: Any, __: Any) -> None:
        candidates = [node for node in simulation.live_nodes() if node.id not in churn.spare]
        if not candidates:
            return
        node = choose(rng, candidates)
        if rng.random() < churn.crashes:
            simulation.crash(node)
        else:
            simulation.stop(node)
        if churn.replace:
            add_node(None)

    simulation.scheduler.at(churn.from_ns, begin)


def schedule_trace(
    simulation: Simulation, events: Sequence[ChurnEvent], add_node: AddNode, injector: Injector
) -> None:
    def act(event: ChurnEvent, _: Any) -> None:
        node = simulation.nodes.get(event.node)
        if event.action == "join":
            if node is None:
                add_node(event.node)
            else:
                injector.restart(node)
        elif node is not None and event.action == "leave":
            simulation.stop(node)
        elif node is not None:
            simulation.crash(node)

    for event in events:
        simulation.scheduler.at(event.at_ns, act, event)


def parse_churn_trace(text: str, source_name: str, nodes: int) -> list[ChurnEvent]:
    """A line per event: time, action, node, such as `12.5s crash 17`; `#` starts a comment.

    `nodes` are there without being named in the trace, from 1 on.
    """
    lines: dict[int, int] = {}
    events = []
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        try:
            at, action, node = fields
            if action not in ("join", "leave", "crash") or not 1 <= int(node) < MAX_NODE_ID:
                raise ValueError
            events.append(ChurnEvent(parse_duration(at), action, int(node)))  # type: ignore[arg-type]
            lines.setdefault(int(node), number)
        except (ValueError, ConfigError):
            raise ConfigError(
                f"{source_name}, line {number}: expected a time, join, leave or crash, and a node, "
                f"such as '12.5s crash 17'; found '{line.strip()}'"
            ) from None
    joining = {event.node for event in events if event.action == "join"}
    for stranger, number in lines.items():
        if stranger > nodes and stranger not in joining:
            raise ConfigError(
                f"{source_name}, line {number}: node {stranger} never joins and is not one of "
                f"1..{nodes}"
            )
    return sorted(events, key=lambda event: event.at_ns)  # those of one instant as written
