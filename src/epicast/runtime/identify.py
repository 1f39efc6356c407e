"""Asking who is at an address: a node says so to everybody who connects."""

from __future__ import annotations

import asyncio
import ssl

from epicast.core import Peer, WireError
from epicast.deployment.certificates import CertificateNames, names_of
from epicast.runtime.errors import DriverError
from epicast.runtime.tls import Tls, explain
from epicast.wire import Handshake, Hello
from epicast.wire.handshake import MAX_HANDSHAKE_BYTES

_NOBODY = 2**64 - 2
"""The id of who asks; it is never sent."""


class Unreachable(DriverError):
    """Nobody answered at an address, or not a node of this kind."""


class NotTrusted(Unreachable):
    """Who answered is not trusted, or does not trust us: no encrypted connection came about."""


class _Silence(Exception):
    """The connection was closed before anybody introduced themselves."""


async def identify(host: str, port: int, timeout_s: float = 5.0) -> Hello:
    """The node that listens there; `Unreachable` if there is none."""
    return (await find_node(host, port, timeout_s))[0]


async def find_node(
    host: str, port: int, timeout_s: float = 5.0, tls: Tls | None = None
) -> tuple[Hello, CertificateNames | None]:
    """The node that listens there, and its certificate; `Unreachable` if there is none."""
    where = f"{host}:{port}"
    try:
        async with asyncio.timeout(timeout_s):
            name = None if tls is None else tls.server_name or host
            reader, writer = await asyncio.open_connection(
                host, port, ssl=None if tls is None else tls.dialing, server_hostname=name
            )
            try:
                hello = await _read_hello(reader)
                found = writer.get_extra_info("ssl_object")
                return hello, None if found is None else names_of(found.getpeercert())
            finally:
                writer.close()
    except TimeoutError:
        hint = "" if tls is not None else "; if it uses TLS, its address begins with epicasts://"
        raise Unreachable(f"{where} did not answer within {timeout_s:g} s{hint}") from None
    except ssl.SSLError as error:
        raise NotTrusted(f"{where} cannot be connected to with TLS: {explain(error)}") from None
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unreachable(f"{where} cannot be reached: {reason}") from None
    except _Silence:
        if tls is None:
            what = "it closed the connection without a word: it has no room, or is no proxy"
            raise Unreachable(f"{where} is not an Epicast node, or not now: {what}") from None
        raise NotTrusted(
            f"{where} closed the encrypted connection at once: it does not accept the certificate "
            "shown, because it has expired or comes from an authority that is not trusted there, "
            "or it has no room; its log says which"
        ) from None
    except WireError as error:
        if error.reason == "unknown_version":
            raise Unreachable(f"{where} cannot be talked to: {error.detail}") from None
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
    raise _Silence
