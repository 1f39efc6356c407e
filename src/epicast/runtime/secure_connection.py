"""A connection that is encrypted before anybody introduces themselves.

TLS works on memory here, between the transport and the decoder: what comes is decrypted straight
into the decoder's memory. So an encrypted connection stands at the door, is counted and timed like
any other from its first byte on; a refusal is told before it is closed; and our side can still be
shut alone.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from typing import cast

from epicast.core import Buffer
from epicast.deployment.certificates import CertificateNames, names_of
from epicast.runtime.connection import Connection, Owner
from epicast.runtime.limits import Limits
from epicast.runtime.tls import explain
from epicast.wire import Handshake

SCRATCH_BYTES = 256 << 10
_PORTION_BYTES = 64 << 10
"""Encrypted at a time. Larger pieces of memory come from the system each time, and cost more than
their encryption."""


class SecureConnection(Connection):
    """`scratch` is where encrypted bytes are received: a transport fills it and says so at once, so
    all connections of a loop may share one."""

    def __init__(
        self,
        owner: Owner,
        limits: Limits,
        handshake: Handshake,
        *,
        context: ssl.SSLContext,
        server_name: str | None,
        scratch: memoryview,
    ) -> None:
        """`server_name`: of who is dialled; None for who knocks."""
        super().__init__(owner, limits, handshake, dialed=server_name is not None)
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._context = context
        self._server_name = server_name
        self._tls: ssl.SSLObject
        self._scratch = scratch
        self._encrypted = False

    @property
    def certificate(self) -> CertificateNames | None:
        return names_of(self._tls.getpeercert())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._take(cast(asyncio.Transport, transport))
        # Not before: a name that cannot be one has been found out by now.
        self._tls = self._context.wrap_bio(
            self._received,
            self._to_send,
            server_side=self._server_name is None,
            server_hostname=self._server_name,
        )
        self._owner.on_open(self)
        if not self.transport.is_closing():
            self._encrypt()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        if self._failed:
            return
        self._received.write(self._scratch[:nbytes])
        if self._encrypted or self._encrypt():
            self._decrypt()

    def _encrypt(self) -> bool:
        """One more step towards an encrypted connection; whether it is one."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError as error:
            self._fail_to_encrypt(error)
            return False
        self._encrypted = True
        self.write([self._handshake.outgoing])
        return True

    def _decrypt(self) -> None:
        more = True
        while more and not self._failed:
            buffer = super().get_buffer(-1)
            room, count = len(buffer), 0
            try:
                while count < room:
                    # With a buffer to read into, the number of bytes is what is returned.
                    got = cast(int, self._tls.read(room - count, buffer[count:]))
                    count += got
                    if not got:  # the peer says that it sends no more
                        more = False
                        asyncio.get_running_loop().call_soon(self._end_of_input)
                        break
            except ssl.SSLWantReadError:
                more = False
            except ssl.SSLError as error:  # such as: it does not accept our certificate
                self._fail_to_encrypt(error)
            del buffer  # or it would pin the decoder's memory
            if count:
                super().buffer_updated(count)
        if self._to_send.pending:
            self._flush()

    def _end_of_input(self) -> None:
        if not self._failed and not self.transport.is_closing():
            self.eof_received()
            self.transport.close()

    def _fail_to_encrypt(self, error: ssl.SSLError) -> None:
        self._failed = True
        self._flush()  # which tells the peer, in the words of TLS
        self._owner.on_not_encrypted(self, explain(error))

    def write(self, buffers: list[Buffer]) -> None:
        if not self._encrypted or self.transport.is_closing():
            return
        encrypted = []
        for data in _portions(buffers):
            while data:
                data = data[self._tls.write(data) :]
            encrypted.append(self._to_send.read())
        self.transport.writelines(encrypted)

    def _flush(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self._to_send.read())


def _portions(buffers: list[Buffer]) -> Iterator[memoryview]:
    """The same bytes, small buffers together and large ones in parts."""
    small: list[Buffer] = []
    size = 0
    for buffer in buffers:
        if size + len(buffer) > _PORTION_BYTES and small:
            yield memoryview(b"".join(small))
            small, size = [], 0
        if len(buffer) < _PORTION_BYTES:
            small.append(buffer)
            size += len(buffer)
        else:
            view = memoryview(buffer)
            for start in range(0, len(view), _PORTION_BYTES):
                yield view[start : start + _PORTION_BYTES]
    if size:
        yield memoryview(b"".join(small))
