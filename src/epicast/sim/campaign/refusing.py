"""Owners that refuse: rights that publishers do not have, and what provokes other refusals."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec import structs

from epicast.core import NodeId
from epicast.deployment import node_id_of
from epicast.deployment.access import Action
from epicast.protocols.sprinkler import StreamInfo
from epicast.sim.campaign.damage import DiskFull
from epicast.sim.campaign.faults import Fault, KillEdge
from epicast.sim.campaign.plan import MS, Plan, PlannedEdge, PlannedRegion, PlannedStream

_NEVER_NS = 1 << 62
_MOST_REFUSED = 40
"""The most refusals of a publisher, on average. What follows a refusal waits for a round trip."""
_TENS = 3
"""Publishers are refused in every third ten of seeds."""


class Rights:
    """A `Permit` of all proxies and sidecars."""

    def __init__(self, plan: Plan, now: Callable[[], int]) -> None:
        self._now = now
        self._forbidden = {
            node_id_of(edge.name): edge.publishing.forbidden
            for edge in plan.edges
            if edge.publishing is not None and edge.publishing.forbidden
        }

    def __call__(self, node: NodeId, action: Action, stream: StreamInfo | None) -> str:
        if action is not Action.PUBLISH or stream is None:
            return ""
        for name, begin, end in self._forbidden.get(node, ()):
            if name == stream.name and begin <= self._now() < end:
                return f"no right to publish to {name!r} until {end / 1e9:.3f} s"
        return ""

    def never(self, node: NodeId, stream: str) -> bool:
        """Whether a publisher has no right to a stream at any time. If it has the right at some
        time, a copy of what is refused may have been stored, or may still be."""
        return any(
            name == stream and end == _NEVER_NS for name, _, end in self._forbidden.get(node, ())
        )


def is_refusing(seed: int) -> bool:
    return seed // 10 % _TENS == 1


def refuse(rng: Random, edges: tuple[PlannedEdge, ...], within: tuple[int, int]) -> tuple[
    PlannedEdge, ...
]:  # fmt: skip
    """Return the edges with publishers that send bursts, some of them publications that owners
    must refuse."""
    begin, end = within
    found = []
    for edge in edges:
        plan = edge.publishing
        if plan is not None:
            burst = rng.choice((1, 3, 8))
            forbidden = []
            for stream in plan.streams:
                if rng.random() < 0.1:
                    forbidden.append((stream, 0, _NEVER_NS))
                elif rng.random() < 0.3:
                    first = rng.randrange(begin, end)
                    forbidden.append((stream, first, rng.randrange(first, end)))
            plan = structs.replace(
                plan,
                burst=burst,
                every_ns=plan.every_ns * burst,
                unsound_share=min(rng.choice((0.05, 0.2)), _MOST_REFUSED * plan.every_ns / end),
                forbidden=tuple(forbidden),
            )
        found.append(structs.replace(edge, publishing=plan))
    return tuple(found)


def draw_interruptions(
    rng: Random,
    edges: tuple[PlannedEdge, ...],
    regions: tuple[PlannedRegion, ...],
    streams: tuple[PlannedStream, ...],
    within: tuple[int, int],
) -> tuple[Fault, ...]:
    """Publishers that are killed while something is on its way, and owners whose disk is full."""
    begin, end = within
    faults: list[Fault] = []
    publishers = [edge.name for edge in edges if edge.publishing is not None]
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(begin, end - 500 * MS)
        until = at + rng.randrange(50 * MS, 500 * MS)
        silently = rng.random() < 0.3
        faults.append(
            KillEdge(at_ns=at, until_ns=until, edge=rng.choice(publishers), silently=silently)
        )
    replicas = {region.name: region.replicas for region in regions}
    for _ in range(rng.choice((0, 1, 2))):
        at = rng.randrange(begin, end - 500 * MS)
        owner = rng.choice(streams).owner
        replica = rng.randrange(replicas[owner])
        until = at + rng.randrange(100 * MS, 500 * MS)
        faults.append(DiskFull(at_ns=at, until_ns=until, region=owner, replica=replica))
    return tuple(faults)
