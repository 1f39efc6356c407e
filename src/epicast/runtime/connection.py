"""One TCP connection: receives straight into the decoder's memory, and only reports.

Its owner decides what becomes of it. Callbacks of the loop end here: they decode, queue and wake.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, cast
from typing import Protocol as Interface

from msgspec.structs import replace

from epicast.core import AnyMessage, Buffer, WireError
from epicast.deployment.certificates import CertificateNames
from epicast.runtime.messages import Declined
from epicast.wire import FrameDecoder, Handshake
from epicast.wire.handshake import MAX_HANDSHAKE_BYTES, Hello

if TYPE_CHECKING:
    from epicast.runtime.limits import Limits
    from epicast.runtime.link import Link
    from epicast.runtime.meter import Meter


class Owner(Interface):
    """Who is told what happens on a connection."""

    def on_open(self, connection: Connection) -> None:
        """TCP is connected; nobody has introduced themselves yet."""

    def on_introduced(self, connection: Connection) -> None:
        """`connection.remote` is known."""

    def on_frames(self, connection: Connection, messages: list[AnyMessage], size: int) -> None:
        """Whole messages came, in `size` bytes."""

    def on_unknown(self, connection: Connection, type_ids: list[int]) -> None:
        """Messages came that only a later version knows; they were passed over."""

    def on_not_encrypted(self, connection: Connection, reason: str) -> None:
        """One side does not trust the other, or is not what it should be; nothing will come."""

    def on_wire_error(self, connection: Connection, error: WireError) -> None:
        """The peer sent what it must not; nothing more will come from it."""

    def on_writable(self, connection: Connection) -> None:
        """The transport takes data again."""

    def on_eof(self, connection: Connection) -> None:
        """The peer will send no more; the connection closes once our side is written."""

    def on_lost(self, connection: Connection) -> None:
        """The connection is gone; nothing is reported any more."""


class Connection(asyncio.BufferedProtocol):
    def __init__(self, owner: Owner, limits: Limits, handshake: Handshake, *, dialed: bool) -> None:
        self.dialed = dialed
        """Whether this side opened it."""
        self.outcome: asyncio.Future[bool] | None = None
        """Where someone waits to hear whether it is used."""
        self.paused = False
        """The transport has enough to write."""
        self.unhandled_bytes = 0
        """What it brought since the protocol's last step."""
        self.link: Link | None = None
        """Set while it is the link's connection, or was and is closing."""
        self.identity: str | None = None
        """Who the peer has proved to be, where that is asked."""
        self.is_agent = False
        """Whether it has proved to be an agent, where that is asked."""
        self.declined: Declined | None = None
        """What the peer said instead of using the connection."""
        self.counted_host: str | None = None
        """Under which address it counts among those who came by themselves."""
        self.counted_identity: str | None = None
        self.meter: Meter | None = None
        self.throttled = False
        """It brought too much in too little time, and is not read for a while."""
        self.transport: asyncio.Transport
        self._owner = owner
        self._limits = limits
        self._handshake = handshake
        self._greeting = bytearray(MAX_HANDSHAKE_BYTES)
        self._greeted = 0
        self._decoder: FrameDecoder | None = None
        self._unreported = 0
        self._failed = False
        self._is_open = False
        self._timer: asyncio.TimerHandle | None = None
        self._throttle_timer: asyncio.TimerHandle | None = None

    @property
    def remote(self) -> Hello:
        assert self._handshake.remote is not None
        return self._handshake.remote

    @property
    def introduced(self) -> bool:
        return self._handshake.remote is not None

    def take_token(self) -> str:
        """What the peer proves itself with; it is not kept here any longer."""
        token = self.remote.token
        if token:
            self._handshake.remote = replace(self.remote, token="")
        return token

    @property
    def certificate(self) -> CertificateNames | None:
        """The peer's, which was verified; None if it showed none."""
        return None

    @property
    def peer_host(self) -> str:
        """The address the peer's packets come from."""
        name = self.transport.get_extra_info("peername")
        return str(name[0]) if name else ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._take(cast(asyncio.Transport, transport))
        self.transport.write(self._handshake.outgoing)
        self._owner.on_open(self)

    def _take(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=self._limits.transport_buffer_bytes)
        self._set_options(transport.get_extra_info("socket"))
        self._is_open = True

    def _set_options(self, sock: socket.socket) -> None:
        """No waiting for more to send; and notice a peer whose machine is gone without a word."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        seconds = max(1, self._limits.keep_alive_ns // 1_000_000_000)
        options = (
            ("TCP_KEEPIDLE", seconds),
            ("TCP_KEEPINTVL", 1),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", 1000 * (seconds + 3)),  # also while it owes us an answer
        )
        for name, value in options:
            if hasattr(socket, name):  # not everywhere under these names
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._decoder is None:
            return memoryview(self._greeting)[self._greeted :]
        return self._decoder.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self._failed:
            return
        if self._decoder is None:
            self._greet(nbytes)
            return
        self._unreported += nbytes  # of a frame that came in several pieces: all of them
        decoder = self._decoder
        messages = decoder.received(nbytes)
        if messages:
            size, self._unreported = self._unreported, 0
            self._owner.on_frames(self, messages, size)
        self._report(decoder)

    def _greet(self, nbytes: int) -> None:
        self._greeted += nbytes
        try:
            taken = self._handshake.received(memoryview(self._greeting)[: self._greeted])
        except WireError as error:
            self._fail(error)
            return
        if not taken:
            return
        limits = self._limits
        self._decoder = FrameDecoder(limits.max_frame_bytes, limits.receive_block_bytes)
        self._owner.on_introduced(self)
        rest = self._greeting[taken : self._greeted]
        if rest and not self._failed:
            messages = self._decoder.feed(rest)
            if messages:
                self._owner.on_frames(self, messages, len(rest))
            self._report(self._decoder)

    def _report(self, decoder: FrameDecoder) -> None:
        """Whatever came besides messages."""
        if decoder.unknown:
            type_ids, decoder.unknown = decoder.unknown, []
            self._owner.on_unknown(self, type_ids)
        if decoder.error is not None and not self._failed:
            self._fail(decoder.error)

    def _fail(self, error: WireError) -> None:
        self._failed = True
        self._owner.on_wire_error(self, error)

    def write(self, buffers: list[Buffer]) -> None:
        # A write may fail and close the transport under us; `connection_lost` comes later.
        if not self.transport.is_closing():
            self.transport.writelines(buffers)

    def finish(self) -> None:
        """Shut our side once everything is written; what the peer still sends is read."""
        try:
            if not self.transport.is_closing():
                self.transport.write_eof()
        except OSError:  # lost, which the loop has not noticed yet
            self.transport.abort()

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self._owner.on_writable(self)

    def eof_received(self) -> bool:
        self._owner.on_eof(self)
        return False  # the transport closes once it has written what it holds

    def connection_lost(self, exc: Exception | None) -> None:
        self._failed = True
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        if self._is_open:
            self._is_open = False
            self._owner.on_lost(self)

    def give_up(self, *, interrupted: bool) -> None:
        """Whoever opened it does not wait any more: close it unless it came into use.

        A loop whose `create_connection` was interrupted has closed the transport, used or not, and
        may not say so.
        """
        if self._is_open and (interrupted or self.link is None):
            self.connection_lost(None)

    def shut(self) -> None:
        """Close it at once, if it is not closed; whoever waits for it waits in vain."""
        self.cancel_timer()
        if self.outcome is not None and not self.outcome.done():
            self.outcome.set_result(False)
        if not self.transport.is_closing():
            self.transport.abort()

    def close_politely(self, delay_ns: int) -> None:
        """Close it once what was written has been sent, or some time later in any case."""
        self.abort_after(delay_ns)
        if self.outcome is not None and not self.outcome.done():
            self.outcome.set_result(False)
        if not self.transport.is_closing():
            self.transport.close()

    def throttle(self, delay_ns: int, read_on: Callable[[Connection], None]) -> None:
        """Not to be read before some time has passed."""

        def over() -> None:
            self.throttled = False
            read_on(self)

        if not self.throttled:
            self.throttled = True
            self.transport.pause_reading()
            self._throttle_timer = asyncio.get_running_loop().call_later(delay_ns / 1e9, over)

    def abort_after(self, delay_ns: int) -> None:
        self.cancel_timer()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay_ns / 1e9, self.transport.abort)

    def cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
