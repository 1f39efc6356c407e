"""What the service does besides the protocol: compaction, syncs that are due, expiry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epicast.core import EventBatch, EventKind, Publication
from epicast.deployment import node_id_of
from epicast.log import History, LogError, gc_payload
from epicast.sim.campaign.plan import MS
from epicast.sim.node import SimNode
from epicast.sim.simulation import WALL_OFFSET_NS

if TYPE_CHECKING:
    from epicast.sim.campaign.world import World

_EVERY_NS = 500 * MS
_COMPACTED_AT_A_TIME = 16 << 10


class Upkeep:
    def __init__(self, world: World) -> None:
        self._world = world

    def start(self) -> None:
        self._world.at(self._world.simulation.now + _EVERY_NS, self._keep_up)

    def _keep_up(self) -> None:
        now = self._world.simulation.now
        for _, node in self._world.all_replicas():
            if node.alive and not node.paused:
                local = now if node.clock is None else node.clock.local(now)
                self._keep_up_one(node, WALL_OFFSET_NS + local)
        self.start()

    def _keep_up_one(self, node: SimNode, wall_ns: int) -> None:
        disk = self._world.disk_of(node)
        disk.maintain(wall_ns, _COMPACTED_AT_A_TIME)
        proxy: Any = node.protocol
        for stream, history in disk.histories():
            self._world.oracles.retention.note(history)
            region = self._world.oracles.streams[stream].region
            # Who is not the head would refuse the publication.
            is_owner = node in self._world.replicas(region) and proxy._is_head
            if is_owner and history.policy.max_age_ns is not None:
                self._expire(region, node, stream, history, wall_ns)

    def _expire(
        self, region: str, node: SimNode, stream: int, history: History, wall_ns: int
    ) -> None:
        try:
            predicate = history.expiry(wall_ns)
        except (LogError, OSError):
            return
        if predicate is not None:
            publisher = node_id_of(f"{region}/expiry")
            first = history.publishers().get(publisher, 0) + 1
            batch = EventBatch.build(
                stream, first, [gc_payload(predicate)], kinds=[int(EventKind.GC)]
            )
            publication = Publication(publisher, first, batch)
            self._world.simulation.stimulate(node, "on_publish", (publication,))
