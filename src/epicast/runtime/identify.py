"""Asking who is at an address: a node says so to everybody who connects."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress

from epicast.core import Peer, WireError
from epicast.deployment.certificates import CertificateNames, names_of
from epicast.runtime.errors import DriverError
from epicast.runtime.tls import Tls, TlsFiles, accepting_context, dialing_context, explain
from epicast.wire import Handshake, Hello
from epicast.wire.handshake import MAX_HANDSHAKE_BYTES

_TLS_RECORDS = (b"\x15", b"\x16")
"""How an alert and an answer to a greeting begin."""
_NOBODY = 2**64 - 2
"""The id of who asks; it is never sent."""


class Unreachable(DriverError):
    """Nobody answered at an address, or not a node of this kind."""


class NotTrusted(Unreachable):
    """Who answered is not trusted, or does not trust us: no encrypted connection came about."""


_SOON_S = 1.0
"""A node that does not encrypt says who it is at once. Who is silent for longer is asked whether it
speaks TLS, while it may still answer."""


class _SpeaksTls(Exception):
    """Whoever listens there waits for us to begin an encrypted connection."""


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
                patience_s = None if tls is not None else min(_SOON_S, timeout_s / 3)
                hello = await _hello_of(reader, host, port, patience_s)
                found = writer.get_extra_info("ssl_object")
                return hello, None if found is None else names_of(found.getpeercert())
            finally:
                writer.close()
    except TimeoutError:
        hint = "" if tls is not None else "; if it uses TLS, its address begins with epicasts://"
        raise Unreachable(f"{where} did not answer within {timeout_s:g} s{hint}") from None
    except ssl.SSLError as error:
        reason = explain(error)
        if reason == "it refused our certificate":  # TLS has no word for more
            reason += ", which may not be valid yet: `epicast certificate show` says from when on"
        raise NotTrusted(f"{where} cannot be connected to with TLS: {reason}") from None
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        nobody_listens = isinstance(error, ConnectionRefusedError)
        if tls is not None and isinstance(error, ConnectionError) and not nobody_listens:
            reason = (
                "it closed the connection before it was encrypted: it has no room now "
                "(max_connections…, max_knocking; its log says which), or is no Epicast node"
            )
        raise Unreachable(f"{where} cannot be reached: {reason or repr(error)}") from None
    except _SpeaksTls:
        raise Unreachable(
            f"{where} speaks TLS: its address begins with epicasts://, and it wants to know who "
            "you are (a token or a certificate)"
        ) from None
    except _Silence:
        if tls is None:
            what = "it closed the connection without a word: it has no room, or is no proxy"
            raise Unreachable(f"{where} is not an Epicast node, or not now: {what}") from None
        raise NotTrusted(
            f"{where} closed the encrypted connection at once: it does not accept the certificate "
            "shown, because it has expired, is not valid yet or comes from an authority that it "
            "does not trust, or it has no room; its log says which"
        ) from None
    except WireError as error:
        if error.reason == "unknown_version":
            raise Unreachable(f"{where} cannot be talked to: {error.detail}") from None
        raise Unreachable(f"{where} is not an Epicast node: {error}") from None


def own_names(files: TlsFiles) -> CertificateNames:
    """What others read in this node's own certificate, which is verified as they do: shown to
    itself, in memory. `NotTrusted` if nobody would accept it."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    judge = accepting_context(files, everybody_has_one=True).wrap_bio(there, back, server_side=True)
    context = dialing_context(files, by_host=False)
    context.verify_mode = ssl.CERT_NONE
    shown = context.wrap_bio(back, there)
    try:
        for side in (shown, judge, shown, judge):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    except ssl.SSLError as error:
        raise NotTrusted(f"{files.certificate}: {explain(error)}") from None
    names = names_of(judge.getpeercert())
    assert names is not None, "who verifies wants one"
    return names


async def _hello_of(
    reader: asyncio.StreamReader, host: str, port: int, patience_s: float | None
) -> Hello:
    """`patience_s`: after which it is asked whether it speaks TLS; None: it does."""
    reading = asyncio.ensure_future(_read_hello(reader))
    probing: asyncio.Future[bool] | None = None
    try:
        await asyncio.wait([reading], timeout=patience_s)
        if not reading.done():
            probing = asyncio.ensure_future(_speaks_tls(host, port))
            await asyncio.wait([reading, probing], return_when=asyncio.FIRST_COMPLETED)
            if probing.done() and probing.result():
                raise _SpeaksTls
        return await reading
    finally:
        reading.cancel()
        if probing is not None:
            probing.cancel()


async def _speaks_tls(host: str, port: int) -> bool:
    """Whether a greeting of TLS is answered with TLS; nothing more is said."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(received, to_send).do_handshake()
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    try:
        writer.write(to_send.read())
        return await reader.read(1) in _TLS_RECORDS
    except OSError:
        return False
    finally:
        writer.close()


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
