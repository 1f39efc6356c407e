"""Asking who is at an address: a node says so to everybody who connects."""

from __future__ import annotations

import asyncio

from epicast.core import Peer, WireError
from epicast.runtime.errors import DriverError
from epicast.wire import Handshake, Hello
from epicast.wire.handshake import MAX_HANDSHAKE_BYTES

_NOBODY = 2**64 - 2
"""The id of who asks; it is never sent."""


class Unreachable(DriverError):
    """Nobody answered at an address, or not a node of this kind."""


async def identify(host: str, port: int, timeout_s: float = 5.0) -> Hello:
    """The node that listens there; `Unreachable` if there is none."""
    where = f"{host}:{port}"
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                return await _read_hello(reader)
            finally:
                writer.close()
    except TimeoutError:
        raise Unreachable(f"{where} did not answer within {timeout_s:g} s") from None
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unreachable(f"{where} cannot be reached: {reason}") from None
    except WireError as error:
        raise Unreachable(f"{where} is not an Epicast node: {error}") from None


async def _read_hello(reader: asyncio.StreamReader) -> Hello:
    received = b""
    while len(received) <= MAX_HANDSHAKE_BYTES:
        some = await reader.read(MAX_HANDSHAKE_BYTES)
        if not some:
            break
        received += some
        # Whatever cluster it belongs to: who asks does not know yet.
        handshake = Handshake(Hello(Peer(_NOBODY), 0, ""), any_cluster=True)
        if handshake.received(received):
            assert handshake.remote is not None
            return handshake.remote
    raise WireError("handshake", "it closed the connection without a word")
