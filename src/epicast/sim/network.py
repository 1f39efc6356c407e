"""The simulated network: what happens to messages on their way.

Datagrams may be lost, duplicated and reordered. Connections are reliable and ordered while they
last: loss shows as delay (retransmission), a cut path holds messages back and breaks the connection
if it lasts. `plain` says that none of this is in force; then a send costs one queue entry per
target and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappush
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from epicast.core import (
    DATA,
    DATAGRAM,
    AnyMessage,
    Channel,
    ConfigError,
    Group,
    NodeId,
)
from epicast.core.effects import Destination, Send
from epicast.sim.bandwidth import Bandwidth, Interface, Outgoing
from epicast.sim.connections import Connections
from epicast.sim.latency import Latency
from epicast.sim.link import Link
from epicast.sim.node import Life, SimNode
from epicast.sim.scheduler import BUCKET_BITS, BUCKET_MASK
from epicast.wire import DATAGRAM_HEADER_BYTES

if TYPE_CHECKING:
    from epicast.sim.simulation import Simulation

_RETRANSMISSIONS = 8


class Conditions(Struct, frozen=True, kw_only=True):
    """What the network does to messages besides delaying them."""

    loss: float = 0.0
    """Share of packets lost."""
    duplication: float = 0.0
    """Share of datagrams that arrive twice."""
    reordering: float = 0.0
    """Share of datagrams delayed by up to `reorder_window_ns` more."""
    reorder_window_ns: int = 100_000_000
    retransmit_ns: int = 200_000_000
    """What a lost packet costs on a connection."""
    connect_timeout_ns: int = 3_000_000_000
    break_after_ns: int = 5_000_000_000
    """How long a connection bears with a cut path."""
    idle_close_ns: int = 10_000_000_000
    """How long a connection that not both ends asked for stays open unused."""
    datagram_mtu: int = 1400
    """Bytes of a datagram; checked where addresses are."""
    max_held: int = 10_000
    """Messages a connection holds back while its path is cut."""
    max_waiting: int = 100_000
    """Messages that wait for a node which is paused or busy."""

    def __post_init__(self) -> None:
        for name in ("loss", "duplication", "reordering"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name}: {getattr(self, name)} is not in [0, 1)")
        for name in self.__struct_fields__:
            if getattr(self, name) < 0:
                raise ConfigError(f"{name}: {getattr(self, name)} is negative")

    @property
    def harmless(self) -> bool:
        return not (self.loss or self.duplication or self.reordering)


Cut = Callable[[NodeId, NodeId], bool]
"""Whether packets from the first node to the second are stopped."""


SendObserver = Callable[[NodeId, Destination, AnyMessage], None]
"""Told who sends what to whom."""


class Held:
    """What a connection keeps while its path is cut: senders and what they sent."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[tuple[SimNode, Outgoing]] = []


class Network:
    def __init__(
        self, simulation: Simulation, latency: Latency, conditions: Conditions, seed: int
    ) -> None:
        self._sim = simulation
        self._scheduler = simulation.scheduler
        self.latency = latency
        self.conditions = conditions
        self.sent = 0
        """Messages sent, one per target; one to a group counts once."""
        self.sent_bytes = 0
        """Counted where bandwidth or a trace needs sizes."""
        self.on_send: SendObserver | None = None
        self._rng = Random(seed)
        self._cuts: list[Cut] = []
        self._held: dict[Link, Held] = {}
        self._groups: dict[int, dict[NodeId, SimNode]] = {}
        self.connections = Connections(simulation, self)
        self.plain = False
        self.update_plain()

    # -- sending ---------------------------------------------------------------------------------

    def transmit(self, sender: SimNode, sends: Sequence[Send]) -> None:
        for to, message, channel in sends:
            if self.on_send is not None:
                self.on_send(sender.id, to, message)
            if self.plain and type(to) is not Group:
                targets = (to,) if type(to) is int else to
                if channel == DATAGRAM:
                    self._post(sender, targets, message)
                else:
                    self._post_on_links(sender, targets, message)
            else:
                self._transmit_with_care(sender, to, message, channel)

    def _post(self, sender: SimNode, targets: Any, message: AnyMessage) -> None:
        """The fast path: datagrams on a network that does nothing but delay."""
        scheduler = self._scheduler
        now, sequence, current = scheduler.now, scheduler.sequence, scheduler.bucket
        buckets = scheduler.buckets
        nodes = self._sim.nodes
        parcel = (sender.id, message, sender.life, 0)
        self.sent += len(targets)
        for target, delay in zip(targets, self.latency.draw(sender.id, targets), strict=True):
            node = nodes.get(target)
            if node is None:
                continue
            sequence += 1
            time = now + delay
            bucket = time >> BUCKET_BITS
            entry = (time & BUCKET_MASK, sequence, None, node, parcel)
            if bucket == current:
                heappush(scheduler.soon, entry)
            else:
                buckets[bucket].append(entry)
        scheduler.sequence = sequence

    def _post_on_links(self, sender: SimNode, targets: Any, message: AnyMessage) -> None:
        """The fast path of connections."""
        scheduler, links = self._scheduler, sender.links
        now, constant = scheduler.now, self.latency.constant
        for target in targets:
            link = links.get(target)
            if link is None or now < link.ready_at:
                self._send_on_link(sender, target, message, DATA, 0)
                continue
            ends, arrivals = link.ends, link.arrivals
            towards = 0 if ends[1] is sender else 1
            delay = constant
            if delay is None:
                delay = self.latency.draw(sender.id, (target,))[0]
            time = now + delay
            if time < arrivals[towards]:
                time = arrivals[towards]
            arrivals[towards] = time
            link.used_at = now
            self.sent += 1
            scheduler.sequence += 1
            parcel = (sender.id, message, link, 0)
            scheduler.put(time, scheduler.sequence, None, ends[towards], parcel)

    def _transmit_with_care(
        self, sender: SimNode, to: Destination, message: AnyMessage, channel: Channel
    ) -> None:
        size = message.wire_size() if self._sim.counts_bytes else 0
        if isinstance(to, Group):
            self._send_to_group(sender, to, message, size)
            return
        for target in (to,) if isinstance(to, int) else to:
            self._sim.note_send(sender, target, message, size)
            if sender.known is not None and target not in sender.known:
                self._sim.note_drop(sender, target, "address unknown", size)
            elif channel == DATAGRAM:
                self._send_datagram(sender, target, message, size)
            else:
                self._send_on_link(sender, target, message, channel, size)

    def _send_datagram(
        self, sender: SimNode, target: NodeId, message: AnyMessage, size: int
    ) -> None:
        receiver = self._sim.nodes.get(target)
        if receiver is not None:
            self._send_packet(sender, Outgoing((receiver,), message, size, DATAGRAM, None))
            return
        self.sent += 1
        self.latency.draw(sender.id, (target,))  # as the fast path does: same draws in both

    def _send_to_group(self, sender: SimNode, group: Group, message: AnyMessage, size: int) -> None:
        """One packet, which the network copies."""
        self._sim.note_send(sender, 0, message, size)
        members = self._groups.get(group.id, {})
        if sender.id not in members:
            self._sim.note_drop(sender, 0, "group not joined", size)
            return
        receivers = tuple(node for node in members.values() if node is not sender)
        if receivers:
            self._send_packet(sender, Outgoing(receivers, message, size, DATAGRAM, None))

    def _send_packet(self, sender: SimNode, item: Outgoing) -> None:
        too_large = item.size + DATAGRAM_HEADER_BYTES > self.conditions.datagram_mtu
        if too_large and sender.known is not None:
            self._sim.note_drop(sender, 0, "datagram too large", item.size)
            return
        self.sent += 1
        self.sent_bytes += item.size
        if sender.interface is not None:
            self._enqueue(sender, sender.interface, item)
        else:
            self._propagate_datagram(sender, item)

    def _propagate_datagram(self, sender: SimNode, item: Outgoing) -> None:
        conditions, rng = self.conditions, self._rng
        parcel = (sender.id, item.message, sender.life, item.size)
        for receiver in item.receivers:
            copies = 2 if conditions.duplication and rng.random() < conditions.duplication else 1
            for _ in range(copies):
                if self.is_cut(sender.id, receiver.id):
                    self._sim.note_drop(sender, receiver.id, "cut", item.size)
                    continue
                if conditions.loss and rng.random() < conditions.loss:
                    self._sim.note_drop(sender, receiver.id, "lost", item.size)
                    continue
                delay = self.latency.draw(sender.id, (receiver.id,))[0]
                if conditions.reordering and rng.random() < conditions.reordering:
                    delay += int(rng.random() * conditions.reorder_window_ns)
                self._arrive_at(self._scheduler.now + delay, receiver, parcel)

    def _send_on_link(
        self, sender: SimNode, target: NodeId, message: AnyMessage, channel: Channel, size: int
    ) -> None:
        self.sent += 1
        self.sent_bytes += size
        link = sender.links.get(target) or self.connections.open(sender, target)
        item = Outgoing((link.other(sender),), message, size, channel, link)
        if sender.interface is not None:
            self._enqueue(sender, sender.interface, item)
        else:
            self._propagate_on_link(sender, item)

    def _propagate_on_link(self, sender: SimNode, item: Outgoing) -> None:
        link = item.link
        assert link is not None
        receiver = item.receivers[0]
        if not link.alive:
            self._sim.note_drop(sender, receiver.id, "connection lost", item.size)
            return
        towards = link.end_of(receiver)
        if self._cuts and (link in self._held or self.is_cut(sender.id, receiver.id)):
            self._hold(link, sender, item)
            return
        now = self._scheduler.now
        constant = self.latency.constant
        delay = (
            constant if constant is not None else self.latency.draw(sender.id, (receiver.id,))[0]
        )
        if self.conditions.loss:
            for _ in range(_RETRANSMISSIONS):
                if self._rng.random() >= self.conditions.loss:
                    break
                delay += self.conditions.retransmit_ns
        if item.size:
            delay += self.latency.transfer_ns(now, sender.id, receiver.id, item.size)
        time = (now if now > link.ready_at else link.ready_at) + delay
        if time < link.arrivals[towards]:
            time = link.arrivals[towards]
        link.arrivals[towards] = time
        link.used_at = now
        self._arrive_at(time, receiver, (sender.id, item.message, link, item.size))

    def refusal(self, node: SimNode, way: Link | Life) -> str:
        """Why `node` does not get what arrives for it on `way`; empty if it does."""
        if not way.alive:
            return "connection lost" if isinstance(way, Link) else "earlier incarnation"
        if not node.alive:
            return "node down"
        if isinstance(way, Link) and way.gone is node:
            self.connections.reset(way, node)
            return "connection lost"
        if len(node.backlog) + len(node.inbox) >= self.conditions.max_waiting:
            if isinstance(way, Link):  # a connection cannot lose a message and go on
                self.connections.break_link(way)
            return "overloaded"
        return ""

    def _arrive_at(self, time: int, receiver: SimNode, parcel: tuple[Any, ...]) -> None:
        action = None if receiver.interface is None else self._receive
        self._scheduler.sequence += 1
        self._scheduler.put(time, self._scheduler.sequence, action, receiver, parcel)

    # -- limited bandwidth -----------------------------------------------------------------------

    def set_bandwidth(self, node: SimNode, bandwidth: Bandwidth) -> None:
        node.interface = Interface(bandwidth)

    def reset_interface(self, node: SimNode) -> None:
        """What was queued is gone."""
        if node.interface is not None:
            node.interface = Interface(node.interface.bandwidth)

    def _enqueue(self, sender: SimNode, interface: Interface, item: Outgoing) -> None:
        if not interface.enqueue(item):
            self._sim.note_drop(sender, item.receivers[0].id, "queue full", item.size)
            if item.link is not None:  # a connection cannot lose a message and go on
                self.connections.break_link(item.link)
        elif interface.current is None:
            self._send_next(sender, interface)

    def _send_next(self, sender: SimNode, interface: Interface) -> None:
        item = interface.take()
        if item is not None:
            finish = self._scheduler.now + interface.send_ns(item.size)
            self._scheduler.at(finish, self._sent, sender, interface)

    def _sent(self, sender: SimNode, interface: Interface) -> None:
        if sender.interface is not interface:
            return  # it has crashed meanwhile
        item = interface.finish()
        if item.link is None:
            self._propagate_datagram(sender, item)
        else:
            self._propagate_on_link(sender, item)
        self._send_next(sender, interface)
        for peer in interface.ready_peers():
            self._sim.stimulate(sender, "on_ready", peer, interface.free_bytes)

    def _receive(self, receiver: SimNode, parcel: tuple[Any, ...]) -> None:
        """The first byte is here: the message is once the last one is."""
        interface, now, size = receiver.interface, self._scheduler.now, parcel[3]
        assert interface is not None
        # Connections slow down instead, which is what waiting for the downlink amounts to.
        if isinstance(parcel[2], Life) and not interface.has_receive_room(now, size):
            self._sim.note_drop(receiver, parcel[0], "downlink full", size)
            return
        complete = interface.received_at(now, size)
        self._scheduler.sequence += 1
        self._scheduler.put(complete, self._scheduler.sequence, None, receiver, parcel)

    # -- cut paths -------------------------------------------------------------------------------

    def cut(self, cut: Cut) -> None:
        self._cuts.append(cut)
        self.update_plain()

    def mend(self, cut: Cut) -> None:
        """Undo one cut; connections that bore with it send what they held back."""
        self._cuts.remove(cut)
        self.update_plain()
        for link in list(self._held):
            a, b = link.ends
            if self.is_cut_either_way(a.id, b.id):
                continue
            for sender, item in self._held.pop(link).items:
                self._propagate_on_link(sender, item)

    def is_cut(self, source: NodeId, target: NodeId) -> bool:
        return any(cut(source, target) for cut in self._cuts)

    def is_cut_either_way(self, one: NodeId, other: NodeId) -> bool:
        return any(cut(one, other) or cut(other, one) for cut in self._cuts)

    def _hold(self, link: Link, sender: SimNode, item: Outgoing) -> None:
        held = self._held.get(link)
        if held is None:
            until = self._scheduler.now + self.conditions.break_after_ns
            held = self._held[link] = Held()
            self._scheduler.at(until, self._give_up, link, held)
        held.items.append((sender, item))
        if len(held.items) > self.conditions.max_held:
            self.connections.break_link(link)

    def _give_up(self, link: Link, held: Held) -> None:
        if self._held.get(link) is held:
            self.connections.break_link(link)

    def drop_held(self, link: Link) -> None:
        """The connection is broken, and what it held back is lost."""
        held = self._held.pop(link, None)
        for sender, item in held.items if held is not None else ():
            self._sim.note_drop(sender, item.receivers[0].id, "connection lost", item.size)

    # -- groups and modes ------------------------------------------------------------------------

    def join(self, node: SimNode, group: Group) -> None:
        self._groups.setdefault(group.id, {})[node.id] = node

    def leave(self, node: SimNode, group: Group) -> None:
        members = self._groups.get(group.id, {})
        members.pop(node.id, None)
        if not members:
            self._groups.pop(group.id, None)

    def leave_all(self, node: SimNode) -> None:
        for group in list(self._groups):
            self.leave(node, Group(group))

    def set_conditions(self, conditions: Conditions) -> None:
        self.conditions = conditions
        self.update_plain()

    def update_plain(self) -> None:
        self.plain = self.conditions.harmless and not self._cuts and not self._sim.needs_care
