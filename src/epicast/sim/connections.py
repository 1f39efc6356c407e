"""How simulated connections come about and end, and who is told.

An answer to `connect`, or the end of a connection that was wanted, is told by a call of its own:
we are often in the middle of carrying out somebody's effects. It counts at the moment it is told.
Until then a `disconnect` takes it back, and a `connect` that comes before a down was told is
answered by it, as on the network.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from epicast.core import NodeId, Peer
from epicast.sim.link import ASKED, TOLD, UNWANTED, Link
from epicast.sim.node import SimNode

if TYPE_CHECKING:
    from epicast.sim.network import Network
    from epicast.sim.simulation import Simulation


class Connections:
    def __init__(self, simulation: Simulation, network: Network) -> None:
        self._sim = simulation
        self._scheduler = simulation.scheduler
        self._network = network

    # -- what protocols want ---------------------------------------------------------------------

    def connect(self, node: SimNode, target: NodeId) -> None:
        if target in node.ended:
            return  # the down it has not heard of yet is the answer
        link = node.links.get(target) or self.open(node, target)
        end = link.end_of(node)
        link.wanted[end] = ASKED
        if link.established:
            self._scheduler.at(self._scheduler.now, self._tell_up, link, end)

    def disconnect(self, node: SimNode, target: NodeId) -> None:
        node.ended.pop(target, None)
        link = node.links.get(target)
        if link is not None:
            link.wanted[link.end_of(node)] = UNWANTED
            link.used_at = max(link.used_at, self._scheduler.now)
            self._watch_idle(link)

    # -- beginning -------------------------------------------------------------------------------

    def open(self, opener: SimNode, target: NodeId) -> Link:
        other = self._sim.nodes.get(target)
        if other is None or other is opener:
            other = SimNode(Peer(target), opener.factory)  # nobody, who refuses
        network, now = self._network, self._scheduler.now
        there = network.latency.draw(opener.id, (target,))[0]
        back = network.latency.draw(target, (opener.id,))[0]
        link = opener.links[target] = Link(opener, other, now + there + back)
        if other.vanished or network.is_cut_either_way(opener.id, target):
            link.ready_at = now + network.conditions.connect_timeout_ns
            self._scheduler.at(link.ready_at, self._break, link)
            return link
        stale = other.links.get(opener.id)
        if stale is not None:
            self.break_link(stale)
        if other.alive:
            other.links[opener.id] = link
        self._scheduler.at(link.ready_at, self._establish, link)
        return link

    def _establish(self, link: Link, _: Any) -> None:
        opener, other = link.ends
        if not link.alive:
            return
        if opener.links.get(other.id) is not link or other.links.get(opener.id) is not link:
            self.break_link(link)  # refused, or one of them has died meanwhile
            return
        link.established = True
        for end in (0, 1):
            self._tell_up(link, end)
        self._watch_idle(link)

    def _tell_up(self, link: Link, end: int) -> None:
        if link.wanted[end] == ASKED:
            self._sim.processor.tell(link.ends[end], partial(self._say_up, link, end))

    def _say_up(self, link: Link, end: int) -> None:
        node, peer = link.ends[end], link.ends[1 - end]
        if link.alive and link.wanted[end] == ASKED and node.alive:
            link.wanted[end] = TOLD
            if node.known is not None:
                node.known.add(peer.id)
            self._sim.stimulate(node, "on_peer_up", peer.id)

    # -- the end ---------------------------------------------------------------------------------

    def break_link(self, link: Link) -> None:
        """End a connection; an end that wanted it is told."""
        if not link.alive:
            return
        link.alive = False
        self._network.drop_held(link)
        if link.gone is not None:
            link.gone.ghosts -= 1
            self._sim.update_special(link.gone)
        for end, node in enumerate(link.ends):
            peer = link.ends[1 - end]
            if node.links.get(peer.id) is link:
                del node.links[peer.id]
            if link.wanted[end]:
                link.wanted[end] = UNWANTED
                node.ended[peer.id] = link
                self._scheduler.at(self._scheduler.now, self._tell_down, node, link)

    def _break(self, link: Link, _: Any) -> None:
        self.break_link(link)

    def _tell_down(self, node: SimNode, link: Link) -> None:
        self._sim.processor.tell(node, partial(self._say_down, node, link))

    def _say_down(self, node: SimNode, link: Link) -> None:
        peer = link.other(node).id
        if node.ended.get(peer) is link:
            del node.ended[peer]
            self._sim.stimulate(node, "on_peer_down", peer)

    def drop_all(self, node: SimNode, *, silently: bool) -> None:
        """The node is gone: its peers find out after a moment, or, silently, only by trying."""
        now, network = self._scheduler.now, self._network
        links, node.links = node.links, {}
        for link in links.values():
            peer = link.other(node)
            link.wanted[link.end_of(node)] = UNWANTED
            if link.gone is not None:  # now nobody is left at either end
                self.break_link(link)
                continue
            link.gone = node
            node.ghosts += 1
            if silently or network.is_cut(node.id, peer.id):
                at = now + network.conditions.break_after_ns
                self._scheduler.at(at, self._break, link)
                continue
            at = now + network.latency.draw(node.id, (peer.id,))[0]
            if node.interface is not None:
                at += node.interface.drain_ns()
            self._scheduler.at(at, self._farewell, link, peer)

    def _farewell(self, link: Link, peer: SimNode) -> None:
        """The end of the connection reaches `peer`, behind all that was sent before it."""
        now, last = self._scheduler.now, link.arrivals[link.end_of(peer)]
        if last > now:
            self._scheduler.at(last, self._farewell, link, peer)
        elif peer.interface is not None:
            self._scheduler.at(peer.interface.received_at(now, 0), self._break, link)
        else:
            self.break_link(link)

    def reset(self, link: Link, node: SimNode) -> None:
        """`node` has died and come back, and knows nothing of this connection: it says so."""
        delay = self._network.latency.draw(node.id, (link.other(node).id,))[0]
        self._scheduler.at(self._scheduler.now + delay, self._break, link)

    # -- idleness --------------------------------------------------------------------------------

    def _watch_idle(self, link: Link) -> None:
        if not link.checked and link.alive and not all(link.wanted):
            link.checked = True
            at = self._scheduler.now + self._network.conditions.idle_close_ns
            self._scheduler.at(at, self._close_if_idle, link)

    def _close_if_idle(self, link: Link, _: Any) -> None:
        link.checked = False
        if not link.alive or all(link.wanted):
            return
        now = self._scheduler.now
        idle = now - link.used_at >= self._network.conditions.idle_close_ns
        busy = max(link.arrivals) > now or any(
            end.interface is not None and end.interface.is_busy(now) for end in link.ends
        )
        if idle and not busy:
            self.break_link(link)
        else:
            self._watch_idle(link)
