"""The UDP side of a node: datagrams to peers and to multicast groups."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import cast

from epicast.core import AnyMessage, BodyCodec, Group, Layered, NodeId, Peer, WireError
from epicast.runtime.addresses import AddressBook
from epicast.runtime.inbox import Inbox
from epicast.runtime.limits import Limits
from epicast.runtime.recorder import Recorder
from epicast.runtime.resolver import Resolver
from epicast.runtime.send_budget import SendBudget
from epicast.wire import Hello, decode_datagram, pack_datagrams

log = logging.getLogger("epicast.runtime")

Address = tuple[str, int]
_MAX_DATAGRAM_BYTES = 65_535
_READS_PER_TURN = 64


class DatagramPort(asyncio.DatagramProtocol):
    """What a step sends to one destination is packed into as few datagrams as possible."""

    def __init__(
        self,
        limits: Limits,
        book: AddressBook,
        inbox: Inbox,
        recorder: Recorder,
        wake: Callable[[], None],
        budget: SendBudget,
        *,
        usable: bool = True,
    ) -> None:
        """Datagrams are not encrypted: where connections are, they are not `usable`, and what would
        go as one goes through the connection. There is no sending to groups then."""
        self.usable = usable
        self.receiving = False
        """Datagrams that come before the protocol has started are for nobody."""
        self._limits = limits
        self._book = book
        self._inbox = inbox
        self._recorder = recorder
        self._wake = wake
        self._budget = budget
        self._resolver = Resolver(limits, recorder)
        self._codec = BodyCodec()
        self._hello: Hello
        self._transport: asyncio.DatagramTransport | None = None
        self._closed: asyncio.Future[None] | None = None
        self._groups: dict[Group, socket.socket] = {}
        self._outgoing: dict[Address, list[bytes]] = {}
        self._paused = False
        self._waiting = 0

    async def open(self, family: socket.AddressFamily, host: str, port: int) -> None:
        """Bind to a numeric address; OSError if the port is taken."""
        sock = socket.socket(family, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.bind((host, port))
            if family == socket.AF_INET:
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(host))
        except OSError:
            sock.close()
            raise
        loop = asyncio.get_running_loop()
        self._closed = loop.create_future()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=sock)
        flow = cast(asyncio.WriteTransport, self._transport)
        flow.set_write_buffer_limits(high=self._limits.datagram_queue_bytes)
        self._resolver.family = family

    def introduce(self, hello: Hello) -> None:
        """Who the datagrams come from."""
        self._hello = hello

    # -- sending ---------------------------------------------------------------------------------

    def send(self, peer: NodeId, frame: bytes) -> None:
        entry = self._book.get(peer)
        if entry is None:
            self._recorder.drop("address unknown", peer, len(frame))
            return
        host = self._resolver.lookup(entry.peer.host)
        if host is None or not 1 <= entry.peer.port <= 65535:
            # Not left to the transport: some close themselves when given such an address.
            self._recorder.drop("no address for datagrams", peer, len(frame))
        else:
            self._outgoing.setdefault((host, entry.peer.port), []).append(frame)

    def send_to_group(self, group: Group, frame: bytes) -> None:
        if group in self._groups:
            self._outgoing.setdefault((group.host, group.port), []).append(frame)
        else:
            self._recorder.drop("group not joined", 0, len(frame))

    def flush(self) -> None:
        """Send what this step queued."""
        if not self._outgoing:
            return
        outgoing, self._outgoing = self._outgoing, {}
        source, incarnation = self._hello.node.id, self._hello.incarnation
        for address, frames in outgoing.items():
            mtu = self._limits.datagram_mtu
            packed, oversized = pack_datagrams(source, incarnation, frames, mtu)
            for position in oversized:
                self._recorder.drop("datagram too large", 0, len(frames[position]))
            for datagram in packed:
                self._send_packed(address, datagram)

    def _send_packed(self, address: Address, datagram: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._paused:
            self._recorder.drop("datagram queue full", 0, len(datagram))
            return
        if not self._budget.take_datagram(len(datagram)):
            self._recorder.drop("over the byte budget", 0, len(datagram))
            return
        transport.sendto(datagram, address)
        self._recorder.datagrams_sent += 1
        self._recorder.bytes_sent += len(datagram)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False

    # -- receiving -------------------------------------------------------------------------------

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if not self.receiving:
            return
        recorder = self._recorder
        if self._waiting >= self._limits.inbound_datagrams:
            recorder.drop("too many datagrams", 0, len(data))
            return
        if len(data) > self._limits.datagram_mtu:
            # Nobody here sends such; who does would have us decode more than we bargained for.
            recorder.drop("datagram too large", 0, len(data))
            return
        try:
            source, incarnation, messages, unknown = decode_datagram(data, self._codec)
        except WireError as error:
            recorder.wire_error(error.reason)
            recorder.drop("bad datagram", 0, len(data))
            log.debug("node %d drops a datagram from %s: %s", self._hello.node.id, addr, error)
            return
        if source == self._hello.node.id:
            if incarnation != self._hello.incarnation:  # else our own, come back from a group
                recorder.drop("datagram in our name", source, len(data))
            return
        # Only a connection proves an address: what a datagram claims never replaces one.
        entry = self._book.learn(Peer(source, addr[0], addr[1]), overwrite=False)
        if entry is not None and incarnation < entry.incarnation:
            recorder.drop("earlier incarnation", source, len(data))
            return
        for _ in unknown:
            recorder.wire_error("unknown_type")
        recorder.datagrams_received += 1
        recorder.bytes_received += len(data)
        accepted = list(filter(_may_be_datagram, messages))
        if len(accepted) < len(messages):
            recorder.drop("not accepted from a datagram", source, len(data))
        if accepted:
            self._waiting += 1
            self._inbox.add_messages(source, accepted)
            self._wake()

    def next_turn(self) -> None:
        """What was received has been taken."""
        self._waiting = 0

    def error_received(self, exc: Exception) -> None:
        # Nobody listens where an earlier datagram went: like a loss in the network.
        self._recorder.drop("datagram refused")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    # -- groups ----------------------------------------------------------------------------------

    def join(self, group: Group) -> None:
        if group in self._groups:
            return
        if not self.usable:
            self._recorder.drop("no groups where connections are encrypted")
            return
        if len(self._groups) >= self._limits.max_groups:
            self._recorder.drop("too many groups")
            return
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((group.host, group.port))
            membership = socket.inet_aton(group.host) + socket.inet_aton(self._hello.node.host)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        except (OSError, ValueError, OverflowError) as error:
            sock.close()
            self._recorder.drop("cannot join group")
            log.warning("node %d cannot join %s: %s", self._hello.node.id, group, error)
            return
        self._groups[group] = sock
        asyncio.get_running_loop().add_reader(sock, self._read_group, sock)

    def leave(self, group: Group) -> None:
        sock = self._groups.pop(group, None)
        if sock is not None:
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()

    def _read_group(self, sock: socket.socket) -> None:
        for _ in range(_READS_PER_TURN):
            try:
                data, address = sock.recvfrom(_MAX_DATAGRAM_BYTES)
            except OSError:
                return
            self.datagram_received(data, cast(Address, address))

    async def close(self) -> None:
        self.receiving = False
        for group in list(self._groups):
            self.leave(group)
        if self._transport is not None and self._closed is not None:
            self._transport.close()
            await self._closed
            self._transport = None
        await self._resolver.close()


def _may_be_datagram(message: AnyMessage) -> bool:
    while isinstance(message, Layered):
        message = message.message
    return message.datagrams
