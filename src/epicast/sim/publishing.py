"""Applications that publish, and wait while the protocol has no room."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from epicast.core import EventBatch, Publication, TraceKind
from epicast.core.host import publish_room
from epicast.sim.node import SimNode

if TYPE_CHECKING:
    from epicast.sim.simulation import Simulation


class Publishers:
    """Those of one topic keep their order; topics do not hold up each other."""

    def __init__(self, simulation: Simulation, max_waiting: int) -> None:
        self._sim = simulation
        self._max_waiting = max_waiting

    def publish(self, node: SimNode, batch: EventBatch, topic: int, level: str = "") -> None:
        if not node.alive:
            return
        if node.paused:
            node.backlog.append(partial(self.publish, node, batch, topic, level))
            return
        publication = Publication(node.id, batch.first, batch, topic, level)
        in_line = any(waiting.topic == topic for waiting in node.unpublished)
        if not in_line and _has_room(node, topic):
            self._hand_in(node, publication)
        elif len(node.unpublished) < self._max_waiting:
            node.unpublished.append(publication)
            self._sim.update_special(node)
        else:
            size = batch.payload_bytes
            self._sim.note_drop(node, node.id, "too many publications wait", size)

    def admit(self, node: SimNode) -> None:
        """The node has done something: there may be room."""
        if any(_has_room(node, waiting.topic) for waiting in node.unpublished):
            self._sim.scheduler.at(self._sim.now, self._publish_waiting, node)

    def _publish_waiting(self, node: SimNode, _: Any) -> None:
        """The first that there is room for; carrying it out admits the next."""
        if node.paused:
            return
        for index, publication in enumerate(node.unpublished):
            if _has_room(node, publication.topic):
                del node.unpublished[index]
                self._sim.update_special(node)
                self._hand_in(node, publication)
                return

    def _hand_in(self, node: SimNode, publication: Publication) -> None:
        self._sim.record_batch(node, TraceKind.PUBLISH, publication.batch)
        self._sim.stimulate(node, "on_publish", (publication,))


def _has_room(node: SimNode, topic: int) -> bool:
    return publish_room(node.protocol, topic) > 0
