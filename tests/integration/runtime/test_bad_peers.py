"""Input that is wrong closes the connection it came on, is counted, and harms nothing else."""

import logging
from struct import pack_into

import pytest
from crc32c import crc32c

from epicast.core import Peer
from epicast.runtime import NodeDriver
from epicast.runtime.messages import Accepted
from epicast.wire import FrameEncoder, Handshake, Hello, VersionRange
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import eventually, hand_made, node, start, turns
from tests.integration.runtime.test_connections import IMPATIENT
from tests.unit.wire.samples import Fields, Ping


def frame_of_ping() -> bytearray:
    return bytearray(b"".join(FrameEncoder().encode(Ping())))


def corrupt() -> bytes:
    frame = frame_of_ping()
    frame[-1] ^= 1
    return bytes(frame)


def too_large() -> bytes:
    frame = frame_of_ping()
    pack_into("<I", frame, 0, 2**31)
    return bytes(frame)


def unknown_type() -> bytes:
    frame = frame_of_ping()
    pack_into("<H", frame, 8, 65535)
    pack_into("<I", frame, 4, crc32c(memoryview(frame)[8:]))
    return bytes(frame)


def malformed() -> bytes:
    frame = frame_of_ping()
    frame[-1] = 0xC1  # never used in MessagePack
    pack_into("<I", frame, 4, crc32c(memoryview(frame)[8:]))
    return bytes(frame)


BAD_FRAMES = {
    "corrupt": corrupt,
    "too_large": too_large,
    "malformed": malformed,
}


@pytest.mark.parametrize("reason", sorted(BAD_FRAMES))
def test_bad_frame(run: Run, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with node(1) as one, node(3, [one.peer]) as witness, hand_made(one.peer, 2) as bad:
            one.do(lambda fx: fx.connect(bad.handshake._local.node))
            await eventually(lambda: one.reports(2) == witness.reports(1) == ["up"])
            good = b"".join(FrameEncoder().encode(Fields(1, "before", b"")))
            bad.writer.write(good + BAD_FRAMES[reason]() + good)
            assert await bad.is_closed()
            await eventually(lambda: one.reports(2) == ["up", "down"])
            assert one.messages() == [Fields(1, "before", b"")], "what came before counts"
            assert one.count(f"wire_error.{reason}") == 1
            witness.do(lambda fx: fx.send(1, Ping()))
            await eventually(lambda: one.messages()[-1] == Ping())
            assert witness.reports(1) == ["up"]

    with caplog.at_level(logging.WARNING, "epicast.runtime"):
        run(main())
    assert f"{reason}: " in caplog.text
    assert "2@127.0.0.1" in caplog.text


def test_a_message_of_a_later_version_is_passed_over(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with node(1) as one, hand_made(one.peer, 2) as newer:
            one.do(lambda fx: fx.connect(newer.handshake._local.node))
            await eventually(lambda: one.reports(2) == ["up"])
            good = b"".join(FrameEncoder().encode(Fields(1, "around it", b"")))
            newer.writer.write(good + unknown_type() + unknown_type() + good)
            await eventually(lambda: one.messages() == 2 * [Fields(1, "around it", b"")])
            assert one.count("wire_error.unknown_type") == 2
            assert one.reports(2) == ["up"]

    with caplog.at_level(logging.WARNING, "epicast.runtime"):
        run(main())
    assert caplog.text.count("passes over messages of type 65535 from 2@127.0.0.1") == 1


HELLO = Hello(Peer(2), 1, "epicast")


def bad_greetings() -> dict[str, tuple[str, bytes]]:
    good = Handshake(HELLO).outgoing
    damaged = bytearray(good)
    damaged[-1] ^= 1
    return {
        "garbage": ("handshake", b"GET / HTTP/1.1\r\nHost: epicast\r\n\r\n"),
        "version": ("unknown_version", Handshake(HELLO, versions=VersionRange(7, 9)).outgoing),
        "cluster": ("handshake", Handshake(Hello(HELLO.node, 1, "staging")).outgoing),
        "damage": ("corrupt", bytes(damaged)),
    }


@pytest.mark.parametrize("kind", sorted(bad_greetings()))
def test_bad_greeting(run: Run, kind: str) -> None:
    reason, greeting = bad_greetings()[kind]

    async def main() -> None:
        async with node(1) as one, node(3, [one.peer]) as witness:
            await eventually(lambda: witness.reports(1) == ["up"])
            async with hand_made(one.peer, 2, introduce=False) as bad:
                bad.writer.write(greeting)
                await eventually(lambda: one.count(f"wire_error.{reason}") == 1)
            assert one.log == []
            assert one.count("connections") == 1
            assert witness.reports(1) == ["up"]

    run(main())


def test_wrong_node_at_the_address(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, node(2, limits=IMPATIENT) as two:
            impostor = Peer(7, one.peer.host, one.peer.port)
            two.do(lambda fx: fx.connect(impostor))
            await eventually(lambda: two.reports(7) == ["down"])
            assert two.count("wire_error.handshake") == 2, "once per attempt"
            assert one.log == []

    run(main())


def test_frame_before_the_agreement(run: Run) -> None:
    """The node with the lower id speaks first, and says `Accepted`."""

    async def main() -> None:
        async with node(1) as one, hand_made(one.peer, 2, introduce=False) as bad:
            bad.writer.write(bad.handshake.outgoing + bytes(frame_of_ping()))
            await eventually(lambda: one.messages() == [Ping()])  # it came after ours: fine
        async with node(9) as nine, hand_made(nine.peer, 2, introduce=False) as bad:
            bad.writer.write(bad.handshake.outgoing + bytes(frame_of_ping()))
            await eventually(lambda: nine.count("wire_error.malformed") == 1)
            assert nine.log == []

    run(main())


def test_second_agreement_is_a_message_like_any_other(run: Run) -> None:
    async def main() -> None:
        async with node(9) as nine, hand_made(nine.peer, 2) as peer:
            peer.send(Accepted(), Ping())
            await eventually(lambda: nine.messages() == [Accepted(), Ping()])

    run(main())


def test_connection_cut_in_the_middle_of_a_frame(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one:
            async with hand_made(one.peer, 2) as bad:
                one.do(lambda fx: fx.connect(bad.handshake._local.node))
                await eventually(lambda: one.reports(2) == ["up"])
                bad.writer.write(bytes(frame_of_ping()[:10]))
                await turns()
            await eventually(lambda: one.reports(2) == ["up", "down"])
            assert one.messages() == []

    run(main())


def test_protocol_that_raises_stops_the_node_loudly(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with node(1) as one:
            driver = NodeDriver(2)
            two = await start(driver, [one.peer])
            one.do(lambda fx: fx.connect(two.peer))
            await eventually(lambda: one.reports(2) == two.reports(1) == ["up"])
            two.do(lambda fx: {}["broken"])
            with pytest.raises(KeyError, match="broken"):
                await driver.wait()
            await eventually(lambda: one.reports(2) == ["up", "down"])
            with pytest.raises(Exception, match="the node failed"):
                two.do(lambda fx: None)
            await driver.stop()

    run(main())
    assert "node 2 fails" in caplog.text
