"""The driver of simulated nodes: deterministic, from one seed.

A step is one stimulus (a message, a timer, a connection going up or down) handed to one node's
protocol, after which its effects are carried out. Randomness comes from generators derived from the
seed by name, so adding a node or a fault does not change what others draw.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop
from random import Random
from typing import Any

from epicast.core import (
    NEVER,
    Effects,
    EventBatch,
    NodeId,
    Peer,
    Publication,
    Recovered,
    Trace,
    TraceKind,
)
from epicast.core.effects import Connect, Know
from epicast.core.message import AnyMessage, Layered
from epicast.core.sampling import derive_seed
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.clock import DriftingClock
from epicast.sim.disk import SimDisk
from epicast.sim.latency import ConstantLatency, Latency
from epicast.sim.network import Conditions, Network
from epicast.sim.node import ProtocolFactory, SimNode
from epicast.sim.operations import OperationRunner
from epicast.sim.publishing import Publishers
from epicast.sim.scheduler import BUCKET_BITS, Entry, Scheduler
from epicast.sim.service import Processor, Service

WALL_OFFSET_NS = 1_700_000_000_000_000_000
"""Simulated wall-clock time starts in November 2023."""


DeliveryObserver = Callable[[int, NodeId, EventBatch], None]
TopicObserver = Callable[[int, NodeId, int, EventBatch], None]
"""Told the topic or subscription too."""
NoticeObserver = Callable[[int, NodeId, int, Any], None]
"""Told the time, the node, the topic and what the notice says."""
AnswerObserver = Callable[[NodeId, Publication, int], None]
"""Told where, of which publication, and the number of its last event."""
RefusalObserver = Callable[[NodeId, Publication, str], None]


class Simulation:
    def __init__(
        self,
        seed: int,
        *,
        latency: Latency | None = None,
        conditions: Conditions | None = None,
        bandwidth: Bandwidth | None = None,
        service: Service | None = None,
        disk_sync_ns: int | None = None,
        trace: Trace | None = None,
        check_addresses: bool = False,
        max_unpublished: int = 1024,
        on_delivery: DeliveryObserver | None = None,
    ) -> None:
        self.seed = seed
        self.scheduler = Scheduler()
        self.nodes: dict[NodeId, SimNode] = {}
        self.roster: list[SimNode] = []
        """All nodes there ever were, to be drawn from by position."""
        self.trace = trace
        self.on_delivery = on_delivery
        self.on_topic_delivery: TopicObserver | None = None
        self.on_notice: NoticeObserver | None = None
        self.on_acknowledge: AnswerObserver | None = None
        self.on_refuse: RefusalObserver | None = None
        self.delivered_events = 0
        self.drops: dict[str, int] = {}
        self.membership_changes = 0
        """Grows whenever a node goes up or down."""
        self._bandwidth = bandwidth
        self._disk_sync_ns = disk_sync_ns
        self._check_addresses = check_addresses
        self.counts_bytes = bool(
            trace or bandwidth or check_addresses or (service and service.per_byte_ns)
        )
        self.needs_care = bool(trace or bandwidth or service or check_addresses)
        """Whether every message needs more than delaying and handing over."""
        self.fx = Effects()
        self.fx.wall_offset = WALL_OFFSET_NS
        self.fx.room = self._room
        self._active: SimNode | None = None
        self.network = Network(
            self, latency or ConstantLatency(1_000_000), conditions or Conditions(),
            derive_seed(seed, "network"),
        )  # fmt: skip
        self._operations = OperationRunner(self)
        self._publishers = Publishers(self, max_unpublished)
        self.processor = Processor(self, service)

    @property
    def now(self) -> int:
        return self.scheduler.now

    # -- nodes -----------------------------------------------------------------------------------

    def add_node(
        self,
        factory: ProtocolFactory,
        contacts: Sequence[Peer] = (),
        node_id: NodeId | None = None,
        clock: DriftingClock | None = None,
        disk: SimDisk | None = None,
        bandwidth: Bandwidth | None = None,
        service: Service | None = None,
    ) -> SimNode:
        """A new node, started now; with a disk, bandwidth or pace of its own, if given."""
        identity = len(self.nodes) + 1 if node_id is None else node_id
        if identity in self.nodes:
            raise ValueError(f"there is a node {identity} already")
        node = SimNode(Peer(identity), factory)
        node.clock = clock
        if disk is not None:
            node.disk = disk
        elif self._disk_sync_ns is not None:
            node.disk = SimDisk(self._disk_sync_ns)
        bandwidth = bandwidth or self._bandwidth
        if bandwidth is not None:
            self.network.set_bandwidth(node, bandwidth)
        node.service = service
        if bandwidth is not None or service is not None:
            self._take_care()
        if self._check_addresses:
            node.known = set()
        self.nodes[identity] = node
        self.roster.append(node)
        self.start(node, contacts)
        return node

    def start(self, node: SimNode, contacts: Sequence[Peer] = ()) -> None:
        """(Re)start a node that is down, with whatever its disk remembers."""
        if node.alive:
            raise ValueError(f"node {node.id} is up already")
        node.begin_life()
        self.network.reset_interface(node)
        self.membership_changes += 1
        node.started = self.membership_changes
        rng = Random(derive_seed(self.seed, "node", node.id, node.incarnation))
        node.install(node.factory(node.peer, rng))
        if node.known is not None:
            node.known = {contact.id for contact in contacts}
        self.update_special(node)
        self.record(node, TraceKind.START)
        if node.disk is not None:
            recovered = node.disk.recovered(node.incarnation)
        else:
            recovered = Recovered(node.incarnation)
        self.stimulate(node, "on_start", tuple(contacts), recovered)

    def stop(self, node: SimNode) -> None:
        """Leave in good order: the protocol may say goodbye first, and nothing is lost on disk."""
        if node.alive:
            self.resume(node)
            self.stimulate(node, "on_stop")
            self._operations.finish_writes(node)
            self._take_down(node, TraceKind.STOP, silently=False)

    def crash(self, node: SimNode, *, lose_disk: bool = False, silently: bool = False) -> None:
        """Stop at once. Silently: no connection reset tells the peers (the machine is gone)."""
        if node.alive:
            if node.disk is not None:
                node.disk.crash(lose_everything=lose_disk)
            self.network.reset_interface(node)
            self._take_down(node, TraceKind.CRASH, silently=silently)

    def pause(self, node: SimNode) -> None:
        """Stand still, like a process that is stopped or swapped out; nothing is lost."""
        if node.alive:
            node.paused = True
            self.update_special(node)

    def resume(self, node: SimNode) -> None:
        if not node.paused:
            return
        node.paused = False
        self.update_special(node)
        backlog, node.backlog = node.backlog, []
        for report in backlog:
            report()
        self._fire_timer(node, None)
        self._publishers.admit(node)

    def set_clock(self, node: SimNode, clock: DriftingClock | None) -> None:
        node.clock = clock
        self.update_special(node)
        node.alarms.clear()
        node.armed = NEVER
        self._arm(node)

    def publish(self, node: SimNode, batch: EventBatch, topic: int = 0, level: str = "") -> None:
        """Publish on behalf of the application at `node`, which waits while the protocol has no
        room; ignored if the node is down."""
        self._publishers.publish(node, batch, topic, level)

    def wake(self, node: SimNode) -> None:
        """The application has changed the protocol from outside, as by `Edge.subscribe`."""
        if node.alive and not node.paused:
            self._arm(node)

    def live_nodes(self) -> list[SimNode]:
        return [node for node in self.nodes.values() if node.alive]

    # -- running ---------------------------------------------------------------------------------

    def run_until(self, time: int) -> None:
        """Advance to `time`. Nothing made during a run is cyclic, so the collector rests."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            self.scheduler.run(time, self._work_off)
        finally:
            if collecting:
                gc.enable()

    def run_for(self, duration: int) -> None:
        self.run_until(self.scheduler.now + duration)

    def _work_off(self, opened: list[Entry], soon: list[Entry]) -> None:
        """The loop all time is spent in: an entry without action is a message for a node.

        Written out flat, and handing a message straight to its handler where the protocol does not
        override `on_messages`, because a call here costs as much as the work it would name.
        """
        scheduler, fx = self.scheduler, self.fx
        sends, deliveries, operations = fx.sends, fx.deliveries, fx.operations
        transmit, finish_effects, arm = self.network.transmit, self._finish_effects, self._arm
        begun = scheduler.bucket << BUCKET_BITS
        while opened or soon:
            if not soon or (opened and opened[-1] < soon[0]):
                offset, _, action, node, parcel = opened.pop()
            else:
                offset, _, action, node, parcel = heappop(soon)
            scheduler.now = time = begun + offset
            if action is not None:
                action(node, parcel)
                continue
            source, message, link, _ = parcel
            if node.special or not link.alive:
                self._deliver_specially(node, parcel)
                continue
            handler = node.handlers.get(type(message))
            if handler is not None:
                handler(node.protocol, time, source, message, fx)
            else:
                node.on_messages(time, source, (message,), fx)
            if sends:
                transmit(node, sends)
                sends.clear()
            if deliveries or operations:
                finish_effects(node)
            if node.timers.earliest < node.armed:
                arm(node)

    def stimulate(self, node: SimNode, method: str, *arguments: Any) -> None:
        """Call a handler of a node's protocol and carry out the effects."""
        if node.paused:
            node.backlog.append(partial(self.stimulate, node, method, *arguments))
            return
        if not node.alive:
            return
        now = self.scheduler.now
        if node.clock is not None:
            now = node.clock.local(now)
        if method == "on_peer_up":
            self.record(node, TraceKind.PEER_UP, peer=arguments[0])
        elif method == "on_peer_down":
            self.record(node, TraceKind.PEER_DOWN, peer=arguments[0])
        self._active = node
        getattr(node.protocol, method)(now, *arguments, self.fx)
        self._carry_out(node)

    def _carry_out(self, node: SimNode) -> None:
        fx = self.fx
        # A peer may be sent to in the step that makes it known.
        if fx.operations and node.known is not None:
            node.known.update(
                operation.peer.id
                for operation in fx.operations
                if isinstance(operation, (Connect, Know))
            )
        if fx.sends:
            sends = fx.sends.copy()
            fx.sends.clear()
            self.network.transmit(node, sends)
        if fx.deliveries or fx.operations:
            self._finish_effects(node)
        if node.timers.earliest < node.armed:
            self._arm(node)
        if node.unpublished:
            self._publishers.admit(node)

    def _finish_effects(self, node: SimNode) -> None:
        """Empties the buffer first: an application may publish in answer to a delivery."""
        fx = self.fx
        if not fx.operations and self.on_delivery is None and self.trace is None:
            for batch in fx.deliveries:  # nobody looks: they are only counted
                self.delivered_events += batch.rows
            fx.deliveries.clear()
            return
        deliveries = fx.deliveries.copy()
        fx.deliveries.clear()
        operations = fx.operations.copy()
        fx.operations.clear()
        for batch in deliveries:
            self.hand_over(node, batch)
        self._operations.run(node, operations)

    def hand_over(self, node: SimNode, batch: EventBatch, topic: int = 0) -> None:
        """Deliver to the application."""
        self.delivered_events += batch.rows
        if self.trace is not None:
            self.record_batch(node, TraceKind.DELIVER, batch)
        if self.on_delivery is not None:
            self.on_delivery(self.scheduler.now, node.id, batch)
        if topic and self.on_topic_delivery is not None:
            self.on_topic_delivery(self.scheduler.now, node.id, topic, batch)

    # -- nodes with special circumstances ----------------------------------------------------------

    def _deliver_specially(self, node: SimNode, parcel: tuple[Any, ...]) -> None:
        source, message, link, size = parcel
        refusal = self.network.refusal(node, link)
        if refusal:
            self.note_drop(node, source, refusal, size)
            return
        if node.known is not None:
            node.known.add(source)
        if self.trace is not None:
            now, kind, name = self.scheduler.now, TraceKind.RECEIVE, message_name(message)
            self.trace.add(now, node.id, kind, source, 0, 0, 0, size, name)
        self.processor.take(node, source, message, size)

    def _take_down(self, node: SimNode, kind: TraceKind, *, silently: bool) -> None:
        self.record(node, kind)
        self.membership_changes += 1
        node.end_life(silently=silently)
        self.update_special(node)
        self.network.leave_all(node)
        self.network.connections.drop_all(node, silently=silently)

    def update_special(self, node: SimNode) -> None:
        node.special = bool(
            self.needs_care
            or not node.alive
            or node.paused
            or node.clock is not None
            or node.unpublished
            or node.ghosts
        )

    def _take_care(self) -> None:
        """One node with limits is enough for sizes to matter everywhere."""
        if not (self.needs_care and self.counts_bytes):
            self.needs_care = self.counts_bytes = True
            self.network.update_plain()
            for node in self.roster:
                self.update_special(node)

    def _room(self, peer: NodeId) -> int:
        node = self._active
        if node is None or node.interface is None:
            return 1 << 62
        return node.interface.room(peer)

    # -- timers ----------------------------------------------------------------------------------

    def _arm(self, node: SimNode) -> None:
        """Have the node woken at its earliest deadline, unless it will be before that anyway.

        An alarm that turns out to be early is cheap. One for each change of the deadline is not:
        protocols move deadlines with every message, and alarms stay queued until their time.
        """
        earliest = node.timers.earliest
        if earliest < node.armed:
            # A deadline in the past (what an application did outside of a step) is due now. Were it
            # armed as it is, it would be taken for earlier than an alarm of this very instant.
            now = self.scheduler.now if node.clock is None else node.clock.local(self.scheduler.now)
            earliest = max(earliest, now)
            if earliest >= node.armed:
                return
            node.alarms.append(earliest)
            node.armed = earliest
            at = earliest if node.clock is None else node.clock.true(earliest)
            self.scheduler.at(at, self._fire_timer, node, earliest)

    def _fire_timer(self, node: SimNode, alarm: int | None) -> None:
        if alarm is not None:
            if alarm != node.armed:
                return  # of an earlier life, or set by another clock
            node.alarms.pop()
            node.armed = node.alarms[-1] if node.alarms else NEVER
        if not node.alive or node.paused:
            return
        now = self.scheduler.now if node.clock is None else node.clock.local(self.scheduler.now)
        if node.timers.earliest <= now:
            self.stimulate(node, "on_timer")
        else:
            self._arm(node)

    # -- records ---------------------------------------------------------------------------------

    def note_send(self, sender: SimNode, target: NodeId, message: AnyMessage, size: int) -> None:
        if self.trace is not None:
            name = message_name(message)
            now, kind = self.scheduler.now, TraceKind.SEND
            self.trace.add(now, sender.id, kind, target, 0, 0, 0, size, name)

    def note_drop(self, node: SimNode, peer: NodeId, reason: str, size: int) -> None:
        self.drops[reason] = self.drops.get(reason, 0) + 1
        if self.trace is not None:
            self.record(node, TraceKind.DROP, peer=peer, nbytes=size, detail=reason)

    def record_fault(self, description: str) -> None:
        if self.trace is not None:
            self.trace.add(self.scheduler.now, 0, TraceKind.FAULT, detail=description)

    def record(self, node: SimNode, kind: TraceKind, **columns: Any) -> None:
        if self.trace is not None:
            self.trace.add(self.scheduler.now, node.id, kind, **columns)

    def record_batch(self, node: SimNode, kind: TraceKind, batch: EventBatch) -> None:
        self.record(
            node, kind, stream=batch.stream, first=batch.first, last=batch.last,
            nbytes=batch.payload_bytes,
        )  # fmt: skip


def message_name(message: AnyMessage) -> str:
    while isinstance(message, Layered):
        message = message.message
    return type(message).__name__
