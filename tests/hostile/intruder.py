"""A hostile node on a real connection."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from epicast.core import AnyMessage, Message, NodeId, Peer, WireError
from epicast.runtime.messages import Accepted, Declined
from epicast.wire import WIRE_REVISION, FrameDecoder, FrameEncoder, Handshake, encode_datagram
from epicast.wire.handshake import Hello

TIMEOUT_S = 20.0
LEFT_IN_SOCKET = 1 << 20


class Closed(Exception):
    """The other side has ended the connection, as it may."""


class Intruder:
    """Speaks the handshake and the frames of the product, blocking, under an id of its choice."""

    def __init__(
        self,
        address: tuple[str, int],
        cluster: str,
        node: Peer,
        incarnation: int,
        heard: Callable[[AnyMessage], None],
    ) -> None:
        self.node = node
        self.remote: NodeId = 0
        self._address, self._incarnation = address, incarnation
        self._heard = heard
        self._encoder, self._decoder = FrameEncoder(), FrameDecoder()
        self._socket = socket.create_connection(address, TIMEOUT_S)
        try:
            self._shake_hands(cluster, incarnation)
        except BaseException:
            self.close()
            raise

    def _shake_hands(self, cluster: str, incarnation: int) -> None:
        hello = Hello(self.node, incarnation, cluster, WIRE_REVISION)
        handshake = Handshake(hello)
        self._socket.sendall(handshake.outgoing)
        data = b""
        while handshake.remote is None:
            part = self._socket.recv(4096)
            if not part:
                raise Closed("during the handshake")
            data += part
            data = data[handshake.received(data) :]
        self.remote = handshake.remote.node.id
        accepted = False
        for message in self._decoder.feed(data):
            accepted |= self._take(message)
        if self.node.id < self.remote:
            self.send([Accepted()])
            return
        deadline = time.monotonic() + TIMEOUT_S
        while not accepted:
            if time.monotonic() > deadline:
                raise Closed("not accepted")
            accepted = any(map(self._take, self._receive()))

    def send(self, messages: Sequence[AnyMessage]) -> None:
        """Send, and read answers meanwhile: a node does not read from a peer that does not read."""
        data = memoryview(b"".join(b"".join(self._encoder.encode(each)) for each in messages))
        deadline = time.monotonic() + TIMEOUT_S
        while data:
            readable, writable, _ = select.select([self._socket], [self._socket], [], 1.0)
            if readable:
                for message in self._receive():
                    self._take(message)
            if writable:
                with suppress(BlockingIOError):
                    data = data[self._write(data) :]
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing was read for {TIMEOUT_S} s")

    def send_datagrams(self, messages: Sequence[AnyMessage]) -> None:
        """To the same port."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for message in messages:
                with suppress(WireError):  # too large
                    data = encode_datagram(self.node.id, self._incarnation, [message])
                    sender.sendto(data, self._address)

    def _write(self, data: memoryview) -> int:
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise Closed(str(error)) from error

    def _receive(self) -> list[AnyMessage]:
        try:
            part = self._socket.recv(LEFT_IN_SOCKET)
        except TimeoutError:
            return []
        except OSError as error:
            raise Closed(str(error)) from error
        if not part:
            raise Closed("in good order")
        messages = self._decoder.feed(part)
        if self._decoder.error is not None:
            raise AssertionError(f"what it answers is no frame: {self._decoder.error}")
        return messages

    def _take(self, message: AnyMessage) -> bool:
        if isinstance(message, Declined):
            raise Closed(message.reason)
        if isinstance(message, Accepted):
            return True
        self._heard(message)
        return False

    def close(self) -> None:
        self._socket.close()


def wants(kind: str, node: Peer) -> list[Message]:
    """Return the messages that make a node the kind of sender it claims to be."""
    from epicast.protocols.reinforcement.messages import ViewExchange
    from epicast.protocols.sprinkler.messages import Attach

    if kind == "client":
        return [Attach(node, False)]
    if kind == "member":
        return [Attach(node, True), ViewExchange(node, (), True)]
    return []
