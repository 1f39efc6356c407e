"""The order in which a node hears of things while it stands still or is busy.

Messages wait where service takes time. Reports of connections that come up or end wait with them:
nothing sent before a down may be handled after the next up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from epicast.core import AnyMessage, NodeId
from epicast.sim.node import Report, SimNode, Waiting

if TYPE_CHECKING:
    from epicast.sim.simulation import Simulation


class Service(Struct, frozen=True):
    """Processing time; messages wait while a node is busy."""

    per_message_ns: int = 0
    per_byte_ns: float = 0.0

    def cost_ns(self, waiting: Sequence[Waiting]) -> int:
        return sum(
            self.per_message_ns + int(size * self.per_byte_ns)
            for source, _, size in waiting
            if source is not None
        )


class Processor:
    def __init__(self, simulation: Simulation, service: Service | None) -> None:
        self._sim = simulation
        self._service = service

    def take(self, node: SimNode, source: NodeId, message: AnyMessage, size: int) -> None:
        """A message has arrived: handle it now, or when its turn comes."""
        service = node.service or self._service
        if service is None:
            self._sim.stimulate(node, "on_messages", source, (message,))
            return
        node.inbox.append((source, message, size))
        if not node.being_served:
            self._serve(node, service)

    def tell(self, node: SimNode, report: Report) -> None:
        """Call `report` once the node has dealt with all that came before it."""
        if node.being_served:
            node.inbox.append((None, report, 0))
        else:
            _tell_now(node, report)

    def _serve(self, node: SimNode, service: Service) -> None:
        """Take everything that waits into one step, which takes its time."""
        waiting, node.inbox = node.inbox, []
        node.being_served = True
        done = self._sim.now + service.cost_ns(waiting)
        self._sim.scheduler.at(done, self._serve_done, (node, node.incarnation), waiting)

    def _serve_done(self, servant: tuple[SimNode, int], served: list[Waiting]) -> None:
        node, incarnation = servant
        if node.incarnation != incarnation or not node.alive:
            return
        for source, messages in gather_by_source(served):
            if source is not None:
                self._sim.stimulate(node, "on_messages", source, messages)
                continue
            for report in messages:
                _tell_now(node, report)
        node.being_served = False
        service = node.service or self._service
        if node.inbox and service is not None:
            self._serve(node, service)


def _tell_now(node: SimNode, report: Report) -> None:
    if node.paused:
        node.backlog.append(report)
    else:
        report()


def gather_by_source(waiting: Sequence[Waiting]) -> list[tuple[NodeId | None, list[Any]]]:
    """Neighbouring messages of the same source as one step's worth; reports have no source."""
    runs: list[tuple[NodeId | None, list[Any]]] = []
    for source, message, _ in waiting:
        if runs and runs[-1][0] == source:
            runs[-1][1].append(message)
        else:
            runs.append((source, [message]))
    return runs
