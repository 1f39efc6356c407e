"""A peer that restarts: down before anything of its new life, nothing of the old one after."""

from epicast.core import CONTROL, DATA, DATAGRAM
from epicast.runtime import MemoryStorage, NodeDriver
from epicast.wire import encode_datagram
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import eventually, hand_made, node, start, turns
from tests.unit.wire.samples import Fields


def number(value: int) -> Fields:
    return Fields(value, "", b"")


def test_restarted_peer_is_down_and_can_be_connected_again(run: Run) -> None:
    async def main() -> None:
        storage = MemoryStorage()
        async with node(1) as one:
            two = await start(NodeDriver(2, storage=storage), [one.peer])
            port = two.peer.port
            one.do(lambda fx: fx.connect(two.peer))
            await eventually(lambda: one.reports(2) == ["up"])
            two.do(lambda fx: fx.send(1, number(1)))
            await two.driver.stop()
            two = await start(NodeDriver(2, port=port, storage=storage))
            assert two.protocol.recovered.incarnation == 2
            await eventually(lambda: one.reports(2) == ["up", "down"])
            one.do(lambda fx: fx.connect(two.peer))
            await eventually(lambda: one.reports(2) == ["up", "down", "up"])
            two.do(lambda fx: fx.know(one.peer), lambda fx: fx.send(1, number(2)))
            await eventually(lambda: len(one.messages()) == 2)
            kinds = [entry[0] for entry in one.log]
            assert kinds == ["up", "message", "down", "up", "message"]
            await two.driver.stop()

    run(main())


def test_new_incarnation_replaces_a_connection_that_looks_alive(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, hand_made(one.peer, 2, incarnation=5) as old:
            one.do(lambda fx: fx.connect(old.handshake._local.node))
            await eventually(lambda: one.reports(2) == ["up"])
            old.send(number(1))
            async with hand_made(one.peer, 2, incarnation=6) as new:
                new.send(number(2))
                await eventually(lambda: len(one.messages()) == 2)
                assert one.log == [
                    ("up", 2),
                    ("message", 2, number(1)),
                    ("down", 2),
                    ("message", 2, number(2)),
                ]
                assert await old.is_closed()
                old.send(number(3))
                new.send(number(4))
                await eventually(lambda: len(one.messages()) == 3)
                assert one.messages()[-1] == number(4)

    run(main())


def test_queue_for_the_old_incarnation_is_not_sent_to_the_new(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, hand_made(one.peer, 2, incarnation=5):
            big = Fields(0, "", bytes(1 << 20))
            for _ in range(12):  # the peer does not read: most of it stays in our queue
                one.do(lambda fx: fx.send(2, big, DATA))
            await eventually(lambda: one.count("queued_data_bytes") > 1 << 20)
            async with hand_made(one.peer, 2, incarnation=6) as new:
                assert one.count("queued_data_bytes") == 0
                assert one.count("drop.connection lost") > 0
                one.do(lambda fx: fx.send(2, number(7), DATA))
                assert await new.receive() == number(7)

    run(main())


def test_earlier_incarnation_is_refused(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, hand_made(one.peer, 2, incarnation=5) as current:
            async with hand_made(one.peer, 2, incarnation=4, introduce=False) as stale:
                stale.writer.write(stale.handshake.outgoing)
                await eventually(lambda: one.count("drop.earlier incarnation") == 1)
            current.send(number(1))
            await eventually(lambda: one.messages() == [number(1)])

    run(main())


def test_second_connection_of_the_same_dialer_replaces_the_first(run: Run) -> None:
    """Who opens another one has lost the first, even if we have not noticed."""

    async def main() -> None:
        async with node(1) as one, hand_made(one.peer, 2) as first:
            one.do(lambda fx: fx.connect(first.handshake._local.node))
            await eventually(lambda: one.reports(2) == ["up"])
            async with hand_made(one.peer, 2) as second:
                await eventually(lambda: one.reports(2) == ["up", "down"])
                assert await first.is_closed()
                second.send(number(1))
                await eventually(lambda: one.messages() == [number(1)])

    run(main())


def test_peer_that_decides_replaces_its_own_connection(run: Run) -> None:
    """The same from the side of the higher id, which follows what the lower one accepts."""

    async def main() -> None:
        async with node(9) as nine, hand_made(nine.peer, 2) as first:
            nine.do(lambda fx: fx.connect(first.handshake._local.node))
            await eventually(lambda: nine.reports(2) == ["up"])
            async with hand_made(nine.peer, 2, incarnation=2) as second:
                second.send(number(1))
                await eventually(lambda: nine.messages() == [number(1)])
                assert nine.log == [("up", 2), ("down", 2), ("message", 2, number(1))]
                nine.do(lambda fx: fx.send(2, number(2), CONTROL))
                assert await second.receive() == number(2)

    run(main())


def test_datagrams_of_an_earlier_incarnation_are_dropped(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, hand_made(one.peer, 2, incarnation=5), node(3) as helper:
            transport = helper.driver._datagrams._transport
            assert transport is not None
            address = (one.peer.host, one.peer.port)
            for incarnation in (4, 5, 6):
                data = encode_datagram(2, incarnation, [number(incarnation)])
                transport.sendto(data, address)
            helper.do(lambda fx: fx.know(one.peer), lambda fx: fx.send(1, number(0), DATAGRAM))
            await eventually(lambda: len(one.messages()) == 3)
            await turns()
            assert [entry[2] for entry in one.log if entry[1] == 2] == [number(5), number(6)]
            assert one.count("drop.earlier incarnation") == 1

    run(main())
