"""Whoever takes too much is refused or slowed down; the others do not notice."""

import asyncio
import ssl
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from epicast.core import Peer
from epicast.deployment.access import Verdict
from epicast.deployment.certificates import CertificateNames
from epicast.geo.certificate_authority import Authority
from epicast.runtime import Limits
from epicast.runtime.complaints import Complaints
from epicast.runtime.gate import Security
from epicast.runtime.identify import Unreachable, find_node
from epicast.runtime.messages import Accepted, DeclineCode, Declined
from epicast.runtime.meter import Meter
from epicast.runtime.tls import Tls, TlsFiles, accepting_context, dialing_context
from epicast.wire import FrameEncoder, Handshake, Hello
from epicast.wire.handshake import MAX_HANDSHAKE_BYTES
from tests.integration.runtime.conftest import Run, run
from tests.integration.runtime.support import Node, eventually, hand_made, node
from tests.unit.wire.samples import Fields

__all__ = ["run"]  # the fixture

SECOND = 1_000_000_000


def number(value: int) -> Fields:
    return Fields(value, "", b"")


class ByNode:
    """A gate that believes everybody; nodes below 100 share an identity."""

    def examine(self, node: int, token: str, names: CertificateNames | None) -> Verdict:
        return Verdict("crowd" if node < 100 else f"node{node}")


@pytest.fixture(scope="module")
def security(tmp_path_factory: pytest.TempPathFactory) -> Security:
    folder: Path = tmp_path_factory.mktemp("authority")
    authority = Authority(folder / "ca.pem")
    authority.create("test")
    issued = authority.issue("agent", "test", "node", hosts=["127.0.0.1"])
    files = TlsFiles(str(folder / "ca.pem"), str(issued.certificate), str(issued.key))
    tls = Tls(dialing_context(files, by_host=True), accepting_context(files))
    return Security(tls, ByNode())


async def still_served(served: Node, steady: Node) -> None:
    """A message of somebody who has done nothing wrong arrives."""

    def came() -> int:
        return sum(entry[:2] == ("message", steady.peer.id) for entry in served.log)

    before = came()
    steady.do(lambda fx: fx.send(served.peer.id, number(0)))
    await eventually(lambda: came() > before, "others are not served any more")


@pytest.mark.parametrize("encrypted", [False, True])
def test_connections_from_one_address(run: Run, security: Security, encrypted: bool) -> None:
    async def main() -> None:
        limits = Limits(max_connections_per_address=3)
        chosen = security if encrypted else None
        async with (
            node(500, limits=limits, security=chosen) as one,
            node(501, [one.peer], security=chosen) as steady,
            AsyncExitStack() as others,
        ):
            await eventually(lambda: steady.reports(500) == ["up"])
            for node_id in (1, 2):
                visitor = node(node_id, [one.peer], security=chosen)
                await others.enter_async_context(visitor)
            await eventually(lambda: one.count("connections") == 3)
            refused = await others.enter_async_context(node(3, [one.peer], security=chosen))
            await eventually(lambda: refused.reports(500) == ["down"])
            assert one.count("drop.too many connections") >= 1
            await still_served(one, steady)

    run(main())


def test_one_that_finds_no_room_is_told(run: Run) -> None:
    async def main() -> None:
        async with node(500, limits=Limits(max_connections=1)) as one:
            async with hand_made(one.peer, 600):
                await eventually(lambda: one.count("connections") == 1)
                async with hand_made(one.peer, 601, introduce=False) as refused:
                    greeting = await refused.reader.readexactly(20)
                    assert greeting[:4] == b"EPIC"
                    assert b"max_connections" in await refused.reader.read()
            # There is room again as soon as somebody has left.
            await eventually(lambda: one.count("connections") == 0)
            async with hand_made(one.peer, 601):
                await eventually(lambda: one.count("connections") == 1)

    run(main())


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_log_says_who_found_no_room(
    run: Run, security: Security, encrypted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        chosen = security if encrypted else None
        limits = Limits(max_connections_per_address=1)
        async with (
            node(500, limits=limits, security=chosen) as one,
            node(501, [one.peer], security=chosen) as steady,
        ):
            await eventually(lambda: steady.reports(500) == ["up"])
            for _ in range(60):
                reader, writer = await asyncio.open_connection(one.peer.host, one.peer.port)
                await _rest(reader)
                writer.close()
            await eventually(lambda: one.count("drop.too many connections") == 60)

    run(main())
    lines = [record.getMessage() for record in caplog.records]
    said = [line for line in lines if "has no room for a connection from 127.0.0.1" in line]
    assert said and "(max_connections_per_address)" in said[0]
    assert len(said) <= 2 * 20, "twenty a minute, and two minutes at the most"


def test_who_finds_no_room_for_an_encrypted_connection_can_tell(
    run: Run, security: Security
) -> None:
    """It is closed before there is anything to say it over."""

    async def main() -> None:
        limits = Limits(max_connections_per_address=1)
        async with (
            node(500, limits=limits, security=security) as one,
            node(501, [one.peer], security=security) as steady,
        ):
            await eventually(lambda: steady.reports(500) == ["up"])
            with pytest.raises(Unreachable, match=r"it has no room now \(max_connections"):
                await find_node(one.peer.host, one.peer.port, 5.0, security.tls)

    run(main())


def test_a_plain_address_of_who_speaks_tls(run: Run, security: Security) -> None:
    async def main() -> None:
        async with node(500, security=security) as one, node(501) as plain:
            began = time.monotonic()
            with pytest.raises(Unreachable, match="speaks TLS: its address begins with epicasts"):
                await find_node(one.peer.host, one.peer.port)
            assert time.monotonic() - began < 4, "before its own patience is over"
            hello, _ = await find_node(plain.peer.host, plain.peer.port)
            assert hello.node.id == 501

    run(main())


def test_who_is_slow_to_answer_is_waited_for(run: Run) -> None:
    """It is asked meanwhile whether it speaks TLS, which it does not understand."""
    hello = Handshake(Hello(Peer(7, "127.0.0.1", 1), 1, "epicast")).outgoing

    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())  # type: ignore[arg-type]
        await asyncio.sleep(1.5)
        writer.write(hello)
        await _rest(reader)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            found, _ = await find_node(*server.sockets[0].getsockname()[:2])
            assert found.node.id == 7
            await asyncio.gather(*served)
        assert len(served) == 2, "it was asked"

    run(main())


def test_garbage_does_not_fill_the_log(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with node(500) as one:
            for _ in range(60):
                reader, writer = await asyncio.open_connection(one.peer.host, one.peer.port)
                writer.write(b"GET / HTTP/1.1\r\n\r\n" + bytes(40))
                await _rest(reader)
                writer.close()
            counts = one.driver.statistics()
            assert sum(n for name, n in counts.items() if name.startswith("wire_error.")) == 60

    run(main())
    closed = [each for each in caplog.records if "closes the connection" in each.getMessage()]
    assert 1 <= len(closed) <= 2 * 20, "twenty a minute, and two minutes at the most"


def test_what_strangers_say_is_no_line_of_its_own(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """A name with a line break, or with a sequence that a terminal obeys, is written as text."""
    forged = "x\nERROR everything is lost \x1b[2J\u202e"

    async def main() -> None:
        async with node(500) as one, hand_made(one.peer, 600) as visitor:
            await eventually(lambda: one.count("connections") == 1)
            visitor.send(Declined(DeclineCode.BUSY, forged + "!" * 10_000))
            await eventually(lambda: one.count("drop.declined by the peer") == 1)

    run(main())
    [line] = [each.getMessage() for each in caplog.records if "is not let in by" in each.message]
    assert "x\\nERROR everything is lost \\x1b[2J\\u202e" in line
    assert line.isprintable() and len(line) < 600


def test_connections_of_one_identity(run: Run, security: Security) -> None:
    async def main() -> None:
        limits = Limits(max_connections_per_identity=1)
        heard: list[Declined] = []
        async with (
            node(500, limits=limits, security=security) as one,
            node(501, [one.peer], security=security) as steady,
            node(1, [one.peer], security=security) as first,
        ):
            await eventually(lambda: first.reports(500) == ["up"])
            options = {"security": security, "on_declined": lambda _, text: heard.append(text)}
            async with node(2, [one.peer], **options):
                await eventually(lambda: heard)
            assert heard[0].code is DeclineCode.BUSY
            assert "'crowd' has 1 connections" in heard[0].reason
            await still_served(one, steady)

    run(main())


def test_an_identity_that_leaves_makes_room(run: Run, security: Security) -> None:
    async def main() -> None:
        limits = Limits(max_connections_per_identity=1)
        async with node(500, limits=limits, security=security) as one:
            for node_id in (1, 2, 3):
                async with node(node_id, [one.peer], security=security) as visitor:
                    await eventually(lambda each=visitor: each.reports(500) == ["up"])
                await eventually(lambda: one.count("connections") == 0)

    run(main())


def test_somebody_elses_id(run: Run, security: Security) -> None:
    """An id belongs to who has it, also while that node is away."""

    class ByToken:
        def examine(self, node: int, token: str, names: CertificateNames | None) -> Verdict:
            return Verdict(token or "server")

    async def main() -> None:
        gate = ByToken()
        heard: list[Declined] = []
        async with node(500, security=Security(security.tls, gate)) as one:
            victim = Security(security.tls, gate, "victim")
            async with node(7, [one.peer], security=victim) as first:
                await eventually(lambda: first.reports(500) == ["up"])
            await eventually(lambda: one.count("connections") == 0)
            thief = {
                "security": Security(security.tls, gate, "thief"),
                "on_declined": lambda _, text: heard.append(text),
            }
            async with node(7, [one.peer], **thief) as second:
                await eventually(lambda: heard)
                await eventually(lambda: second.reports(500)[-1:] == ["down"])
            assert heard[0].code is DeclineCode.IDENTITY and "somebody else" in heard[0].reason
            async with node(7, [one.peer], security=victim) as again:
                await eventually(lambda: again.reports(500) == ["up"])

    run(main())


@pytest.mark.parametrize("encrypted", [False, True])
def test_those_who_never_finish_knocking(run: Run, security: Security, encrypted: bool) -> None:
    """Slowloris: connected, silent or a byte at a time, and never done."""

    async def main() -> None:
        limits = Limits(max_knocking=3, connect_timeout_ns=SECOND)
        chosen = security if encrypted else None
        async with (
            node(500, limits=limits, security=chosen) as one,
            node(501, [one.peer], security=chosen) as steady,
        ):
            await eventually(lambda: steady.reports(500) == ["up"])
            writers = []
            for _ in range(3):
                reader, writer = await asyncio.open_connection(one.peer.host, one.peer.port)
                writer.write(b"\x16\x03\x01" if encrypted else b"EPI")
                writers.append((reader, writer))
            reader, writer = await asyncio.open_connection(one.peer.host, one.peer.port)
            writers.append((reader, writer))
            await eventually(lambda: one.count("drop.too many connections") == 1)
            await still_served(one, steady)
            for reader, writer in writers:
                await asyncio.wait_for(_rest(reader), 20)  # the node closes it
                writer.close()
            # They are gone, and there is room for those who mean it.
            async with node(600, [one.peer], security=chosen) as late:
                await eventually(lambda: late.reports(500)[-1:] == ["up"])

    run(main())


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def test_oversized_greeting(run: Run, security: Security) -> None:
    async def main() -> None:
        async with (
            node(500, security=security) as one,
            node(501, [one.peer], security=security) as steady,
        ):
            await eventually(lambda: steady.reports(500) == ["up"])
            reader, writer = await asyncio.open_connection(
                one.peer.host, one.peer.port, ssl=security.tls.dialing
            )
            good = Handshake(Hello(steady.peer, 1, "epicast", token="t" * 200)).outgoing
            claims = good[:8] + (60_000).to_bytes(2, "little") + good[10:16]
            writer.write(claims + bytes(10 * MAX_HANDSHAKE_BYTES))
            await _rest(reader)
            writer.close()
            assert one.count("wire_error.handshake") == 1
            await still_served(one, steady)

    run(main())


def test_frame_that_is_too_large(run: Run, security: Security) -> None:
    async def main() -> None:
        limits = Limits(max_frame_bytes=2048)
        async with (
            node(500, limits=limits, security=security) as one,
            node(501, [one.peer], security=security) as steady,
            node(600, [one.peer], security=security) as offender,
        ):
            await eventually(lambda: steady.reports(500) == offender.reports(500) == ["up"])
            offender.do(lambda fx: fx.send(500, Fields(1, "x" * 5000, b"")))
            await eventually(lambda: offender.reports(500) == ["up", "down"])
            assert one.count("wire_error.too_large") == 1
            await still_served(one, steady)

    run(main())


@pytest.mark.parametrize("encrypted", [False, True])
def test_rate_of_one_connection(run: Run, security: Security, encrypted: bool) -> None:
    """Who sends too much is read later, and loses nothing; others are read at once."""

    async def main() -> None:
        limits = Limits(max_messages_per_second=100)
        chosen = security if encrypted else None
        async with (
            node(500, limits=limits, security=chosen) as one,
            node(501, [one.peer], security=chosen) as steady,
            node(600, [one.peer], security=chosen) as offender,
        ):
            await eventually(lambda: steady.reports(500) == offender.reports(500) == ["up"])
            for value in range(3):
                offender.do(
                    lambda fx, first=100 * value: [
                        fx.send(500, number(first + each)) for each in range(100)
                    ]
                )
                await asyncio.sleep(0.01)
            await eventually(lambda: one.count("throttled") >= 1)
            await still_served(one, steady)

            def came() -> list[int]:
                return [entry[2].number for entry in one.log
                        if entry[0] == "message" and entry[1] == 600]  # fmt: skip

            await eventually(lambda: len(came()) == 300)
            assert came() == list(range(300))

    run(main())


def test_meter() -> None:
    meter = Meter(Limits(max_messages_per_second=10, max_receive_bytes_per_second=1000), 0)
    assert meter.take(0, 10, 100) == 0  # a second's worth at once
    assert meter.take(0, 1, 10) == SECOND // 10
    assert meter.take(SECOND // 10, 0, 0) == 0
    assert meter.take(100 * SECOND, 1, 1500) == SECOND // 2, "bytes count, too; nothing is saved up"
    assert Meter.wanted(Limits(), 0) is None


def test_complaints_are_counted_instead_of_logged(caplog: pytest.LogCaptureFixture) -> None:
    import logging

    complaints = Complaints(logging.getLogger("epicast.test"))
    for _ in range(1000):
        complaints.warn(0, "refused %s", "somebody")
    assert len(caplog.records) == 20
    complaints.warn(60 * SECOND, "refused %s", "another")
    assert [record.getMessage() for record in caplog.records[20:]] == [
        "980 more of these were not logged", "refused another",
    ]  # fmt: skip


def test_recorded_bytes_are_worth_nothing(run: Run, security: Security) -> None:
    """A replayed connection: TLS makes both sides prove themselves anew each time."""

    async def main() -> None:
        async with (
            node(500, security=security) as one,
            node(501, [one.peer], security=security) as steady,
        ):
            await eventually(lambda: steady.reports(500) == ["up"])
            recorded = await _record(one, security.tls.dialing)
            before = one.count("connections_made"), len(one.log)
            reader, writer = await asyncio.open_connection(one.peer.host, one.peer.port)
            writer.write(recorded)
            await asyncio.wait_for(_rest(reader), 20)
            writer.close()
            await eventually(lambda: one.count("drop.not encrypted") == 1)
            assert (one.count("connections_made"), len(one.log)) == before
            await still_served(one, steady)

    run(main())


async def _record(one: Node, context: ssl.SSLContext) -> bytes:
    """Everything a client sent on an encrypted connection that was accepted."""
    recorded = bytearray()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=one.peer.host)
    reader, writer = await asyncio.open_connection(one.peer.host, one.peer.port)

    async def exchange() -> None:
        sent = outgoing.read()
        recorded.extend(sent)
        writer.write(sent)

    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            await exchange()
            incoming.write(await reader.read(1 << 16))
    tls.write(Handshake(Hello(Peer(9, "127.0.0.1", 1), 1, "epicast")).outgoing)
    tls.write(b"".join(bytes(part) for part in FrameEncoder().encode(Accepted())))
    await exchange()
    await eventually(lambda: one.count("connections") == 2)
    writer.close()
    await eventually(lambda: one.count("connections") == 1)
    return bytes(recorded)
