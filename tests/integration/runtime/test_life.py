"""Listening, starting, stopping; the `run` fixture checks that nothing is left behind."""

import asyncio
import socket
import subprocess
import sys

import pytest

from epicast.core import DATA, ConfigError, Effects, Peer
from epicast.runtime import DriverError, Limits, NodeDriver
from epicast.runtime import run as run_in_best_loop
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import (
    TRIGGER,
    Scripted,
    eventually,
    hand_made,
    node,
    start,
    turns,
)
from tests.unit.wire.samples import Fields, Ping


def test_tcp_and_udp_share_a_port(run: Run) -> None:
    async def main() -> None:
        driver = NodeDriver(1)
        peer = await driver.listen()
        assert peer == driver.node == Peer(1, "127.0.0.1", peer.port)
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as other, pytest.raises(OSError):
                other.bind(("127.0.0.1", peer.port))
        await driver.stop()
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as other:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                other.bind(("127.0.0.1", peer.port))

    run(main())


def test_port_taken_by_udp_is_not_chosen(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        driver = NodeDriver(1)
        opened: list[int] = []
        real = driver._datagrams.open

        async def taken_at_first(family: socket.AddressFamily, host: str, port: int) -> None:
            opened.append(port)
            if len(opened) <= 3:
                raise OSError("address in use")
            await real(family, host, port)

        monkeypatch.setattr(driver._datagrams, "open", taken_at_first)
        peer = await driver.listen()
        assert len(opened) == 4
        assert peer.port == opened[-1]
        await driver.stop()

    run(main())


def test_fixed_port_that_is_taken_is_an_error_that_says_so(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one:
            second = NodeDriver(2, port=one.peer.port)
            with pytest.raises(DriverError, match=str(one.peer.port)):
                await second.listen()
            await second.stop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind(("127.0.0.1", 0))
            third = NodeDriver(3, port=udp.getsockname()[1])
            with pytest.raises(DriverError, match="UDP"):
                await third.listen()

    run(main())


def test_order_of_calls_is_checked(run: Run) -> None:
    async def main() -> None:
        driver = NodeDriver(1)
        assert driver.statistics()["connections"] == 0
        await driver.stop()
        with pytest.raises(DriverError, match="listen"):
            await driver.start(Scripted(driver.node))
        with pytest.raises(DriverError, match="not running"):
            driver.publish_nowait(TRIGGER)
        with pytest.raises(DriverError, match="not started"):
            await driver.wait()
        one = await start(driver)
        with pytest.raises(DriverError, match="once"):
            await driver.start(one.protocol)
        with pytest.raises(DriverError, match="once"):
            await driver.listen()
        await asyncio.gather(driver.stop(), driver.stop(), driver.wait())
        await driver.stop()
        with pytest.raises(DriverError, match="not running"):
            await driver.publish(TRIGGER)

    run(main())


def test_nobody_is_let_in_before_the_start(run: Run) -> None:
    async def main() -> None:
        driver = NodeDriver(1)
        peer = await driver.listen()
        with pytest.raises(OSError):
            await asyncio.open_connection(peer.host, peer.port)
        await driver.start(Scripted(peer))
        async with hand_made(peer, 2):
            pass
        await driver.stop()

    run(main())


def test_failing_start_closes_everything_and_raises(run: Run) -> None:
    class Broken(Scripted):
        def on_start(self, *arguments: object) -> None:
            raise LookupError("cannot start")

    async def main() -> None:
        driver = NodeDriver(1)
        peer = await driver.listen()
        with pytest.raises(LookupError, match="cannot start"):
            await driver.start(Broken(peer))
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((peer.host, peer.port))

    run(main())


def test_stop_in_the_middle_of_everything(run: Run) -> None:
    """Dials under way, a stalled peer, full queues, a visitor at the door, waiting publishers."""

    async def main() -> None:
        limits = Limits(stop_timeout_ns=100_000_000, backoff_first_ns=10**9, backoff_max_ns=10**9)
        async with node(2) as two, node(1, [two.peer], limits=limits) as one:
            await eventually(lambda: one.reports(2) == ["up"])
            async with (
                hand_made(one.peer, 3) as stalled,
                hand_made(one.peer, 4, introduce=False),
            ):
                big = Fields(0, "", bytes(1 << 20))
                one.do(*[lambda fx: fx.send([2, 3], big, DATA)] * 10)
                one.do(lambda fx: fx.connect(Peer(7, "127.0.0.1", 1)))
                one.do(lambda fx: fx.connect(Peer(8, "203.0.113.1", 9)))
                await turns()
                one.protocol.room_for_publications = 0
                waiting = asyncio.ensure_future(one.driver.publish(TRIGGER))
                await turns()
                await one.driver.stop()
                with pytest.raises(DriverError, match="stopped"):
                    await waiting
                assert one.protocol.stopped
                assert one.count("connections") == 0
                await eventually(lambda: len(two.messages()) == 10)
                with pytest.raises(ConnectionError):
                    for _ in range(11):
                        await stalled.receive()

    run(main())


def test_everything_queued_is_written_before_the_end(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one:
            two = await start(NodeDriver(2), [one.peer])
            await eventually(lambda: two.reports(1) == ["up"])
            two.do(*[lambda fx: fx.send(1, Fields(0, "", bytes(100_000)), DATA)] * 100)
            await two.driver.stop()
            await eventually(lambda: len(one.messages()) == 100)

    run(main())


def test_no_handler_is_called_after_on_stop(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one:
            two = await start(NodeDriver(2), [one.peer])
            await eventually(lambda: two.reports(1) == ["up"])
            seen: list[int] = []

            def note(now: int, fx: Effects) -> None:
                seen.append(len(two.log))

            two.protocol.on_stop = note  # type: ignore[method-assign]
            one.do(*[lambda fx: fx.send(2, Ping())] * 1000)
            await two.driver.stop()
            assert seen == [len(two.log)]

    run(main())


def test_timers_fire_in_order_and_not_early(run: Run) -> None:
    async def main() -> None:
        fired: list[tuple[str, int]] = []

        class Timed(Scripted):
            def on_deadline(self, now: int, name: str, fx: Effects) -> None:
                fired.append((name, now))

        driver = NodeDriver(1)
        protocol = Timed(await driver.listen())
        armed: dict[str, int] = {}

        def arm(now: int, publications: object, fx: Effects) -> None:
            for name, delay in (("c", 30_000_000), ("a", 1), ("b", 15_000_000), ("never", 10**15)):
                armed[name] = now + delay
                protocol.timers.set(name, now + delay)

        protocol.on_publish = arm  # type: ignore[method-assign,assignment]
        await driver.start(protocol)
        driver.publish_nowait(TRIGGER)
        await eventually(lambda: len(fired) == 3)
        assert [name for name, _ in fired] == ["a", "b", "c"]
        assert all(at >= armed[name] for name, at in fired)
        assert [at for _, at in fired] == sorted(at for _, at in fired)
        await driver.stop()

    run(main())


def test_wall_clock_offset(run: Run) -> None:
    async def main() -> None:
        import time

        async with node(1) as one:
            seen: list[int] = []
            one.do(lambda fx: seen.append(fx.wall_offset))
            await eventually(lambda: seen)
            assert abs(time.monotonic_ns() + seen[0] - time.time_ns()) < 10**9

    run(main())


def test_run_uses_the_faster_loop() -> None:
    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run_in_best_loop(main()) == "uvloop"


SCRIPT = """
import asyncio
from epicast.runtime import NodeDriver, run
from tests.integration.runtime.support import eventually, start

async def main():
    one = await start(NodeDriver(1))
    two = await start(NodeDriver(2), [one.peer])
    await eventually(lambda: two.reports(1) == ["up"])
    await one.driver.stop()
    await two.driver.stop()

run(main(), debug=True)
asyncio.run(main(), debug=True)
print("done")
"""


def test_process_ends_without_a_word() -> None:
    """With every warning an error and asyncio's debug mode, nothing reaches stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.parametrize(
    "wrong",
    [
        {"data_queue_bytes": 0},
        {"connect_attempts": -1},
        {"max_frame_bytes": 100},
        {"datagram_mtu": 20},
        {"datagram_mtu": 70_000},
        {"backoff_first_ns": 100, "backoff_max_ns": 50},
    ],
)
def test_impossible_limits(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong)).split("_")[0]):
        Limits(**wrong)
