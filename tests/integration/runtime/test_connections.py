"""Up, down and up again: what the contract promises about connections."""

import asyncio
import socket
from contextlib import suppress

import pytest

from epicast.core import CONTROL, DATA, Effects, Peer
from epicast.runtime import Limits, NodeDriver
from epicast.runtime.messages import Accepted
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import eventually, hand_made, node, start, turns
from tests.unit.wire.samples import Fields, Ping

IMPATIENT = Limits(
    connect_attempts=2, backoff_first_ns=1_000_000, backoff_max_ns=2_000_000,
    connect_timeout_ns=500_000_000,
)  # fmt: skip


def number(value: int) -> Fields:
    return Fields(value, "", b"")


def test_connect_is_answered_by_up_on_the_side_that_asked(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, node(2, [one.peer]) as two:
            await eventually(lambda: two.reports(1) == ["up"])
            await turns()
            assert two.reports(1) == ["up"]
            assert one.reports(2) == []
            assert one.count("connections") == two.count("connections") == 1

    run(main())


def test_connect_again_is_answered_again(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, node(2, [one.peer]) as two:
            await eventually(lambda: two.reports(1) == ["up"])
            two.do(lambda fx: fx.connect(one.peer))
            await eventually(lambda: two.reports(1) == ["up", "up"])
            one.do(lambda fx: fx.connect(two.peer), lambda fx: fx.connect(two.peer))
            await eventually(lambda: one.reports(2))
            await turns()
            assert one.reports(2) == ["up"], "two questions before the answer get one"
            assert one.count("connections_made") == two.count("connections_made") == 1

    run(main())


@pytest.mark.parametrize(("listener", "dialer"), [(1, 2), (2, 1)])
def test_messages_in_order_both_ways(run: Run, listener: int, dialer: int) -> None:
    async def main() -> None:
        async with node(listener) as one, node(dialer, [one.peer]) as two:
            await eventually(lambda: two.reports(listener) == ["up"])
            sent = [number(value) for value in range(500)]
            for message in sent:
                two.do(lambda fx, message=message: fx.send(listener, message, DATA))
                one.do(lambda fx, message=message: fx.send([dialer], message, CONTROL))
            await eventually(lambda: len(one.messages()) == len(two.messages()) == 500)
            assert one.messages() == two.messages() == sent

    run(main())


def test_unreachable_peer_is_down_once(run: Run) -> None:
    async def main() -> None:
        async with node(1, limits=IMPATIENT) as one:
            nowhere = Peer(7, "127.0.0.1", 1)
            one.do(lambda fx: fx.connect(nowhere), lambda fx: fx.send(7, Ping()))
            await eventually(lambda: one.reports(7) == ["down"])
            await turns()
            assert one.reports(7) == ["down"]
            assert one.count("dial_attempts") == 2
            assert one.count("drop.unreachable") == 1
            assert one.count("queued_frames") == 0

    run(main())


@pytest.mark.parametrize("address", [("", 0), ("no such host\0", 1), ("127.0.0.1", 70000)])
def test_impossible_address_is_down(run: Run, address: tuple[str, int]) -> None:
    async def main() -> None:
        async with node(1, limits=IMPATIENT) as one:
            one.do(lambda fx: fx.connect(Peer(7, *address)))
            await eventually(lambda: one.reports(7) == ["down"])

    run(main())


def test_connecting_to_itself_is_down(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one:
            one.do(lambda fx: fx.connect(one.peer))
            await eventually(lambda: one.reports(1) == ["down"])

    run(main())


def test_stopped_peer_is_down_after_its_last_words(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one:
            two = await start(NodeDriver(2), [one.peer])
            one.do(lambda fx: fx.connect(two.peer))
            await eventually(lambda: one.reports(2) == two.reports(1) == ["up"])
            last_words = [number(value) for value in range(2000)]

            def goodbye(now: int, fx: Effects) -> None:
                for message in last_words:
                    fx.send(1, message)

            two.protocol.on_stop = goodbye  # type: ignore[method-assign]
            await two.driver.stop()
            await eventually(lambda: one.reports(2) == ["up", "down"])
            assert one.messages() == last_words
            assert one.log[-1] == ("down", 2)

    run(main())


def test_disconnect_is_silent_and_the_other_side_keeps_its_connection(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, node(2, [one.peer]) as two:
            one.do(lambda fx: fx.connect(two.peer))
            await eventually(lambda: one.reports(2) == two.reports(1) == ["up"])
            one.do(lambda fx: fx.disconnect(2))
            two.do(lambda fx: fx.send(1, Ping()))
            await eventually(lambda: one.messages() == [Ping()])
            await turns()
            assert one.reports(2) == two.reports(1) == ["up"]

    run(main())


def test_disconnect_withdraws_an_answer_that_is_under_way(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, node(2, [one.peer]) as two:
            await eventually(lambda: two.reports(1) == ["up"])
            two.do(lambda fx: fx.connect(one.peer), lambda fx: fx.disconnect(1))
            await turns()
            assert two.reports(1) == ["up"]
            nowhere = Peer(7, "127.0.0.1", 1)
            two.do(lambda fx: fx.connect(nowhere))
            two.do(lambda fx: fx.disconnect(7))
            await turns()
            assert two.reports(7) == []

    run(main())


def test_simultaneous_connects_end_as_one_connection(run: Run) -> None:
    async def main() -> None:
        for round_number in range(20):
            low, high = 10 * round_number + 1, 10 * round_number + 2
            async with node(low) as one, node(high) as two:
                # Both dial in the same turn of the loop: neither has heard of the other.
                one.do(lambda fx, peer=two.peer: fx.connect(peer))
                two.do(lambda fx, peer=one.peer: fx.connect(peer))
                for value in range(50):
                    one.do(lambda fx, to=high, value=value: fx.send(to, number(value)))
                    two.do(lambda fx, to=low, value=value: fx.send(to, number(value)))
                await eventually(lambda: len(one.messages()) == len(two.messages()) == 50)
                await turns()
                expected = [number(value) for value in range(50)]
                assert one.messages() == two.messages() == expected
                assert one.reports(high) == two.reports(low) == ["up"]
                assert one.count("connections_made") == two.count("connections_made") == 1

    run(main())


def test_many_nodes_connect_to_each_other_at_once(run: Run) -> None:
    async def main() -> None:
        nodes = [await start(NodeDriver(node_id)) for node_id in range(1, 9)]
        for one in nodes:
            for other in nodes:
                if one is not other:
                    one.do(
                        lambda fx, peer=other.peer: fx.connect(peer),
                        lambda fx, to=other.peer.id, me=one.peer.id: fx.send(to, number(me)),
                    )
        await eventually(lambda: all(len(one.messages()) == 7 for one in nodes))
        await turns()
        for one in nodes:
            others = [other.peer.id for other in nodes if other is not one]
            assert all(one.reports(other) == ["up"] for other in others)
            assert sorted(m.number for m in one.messages() if isinstance(m, Fields)) == others
            assert one.count("connections") == 7
        for one in nodes:
            await one.driver.stop()

    run(main())


def test_late_listener_is_found_by_retries(run: Run) -> None:
    async def main() -> None:
        async with node(1) as probe:
            address = probe.peer
        limits = Limits(connect_attempts=1000, backoff_first_ns=1_000_000, backoff_max_ns=5_000_000)
        async with node(2, limits=limits) as two:
            two.do(lambda fx: fx.connect(address), lambda fx: fx.send(1, Ping()))
            await eventually(lambda: two.count("reconnects") > 3)
            assert two.log == []
            late = await start(NodeDriver(1, port=address.port))
            await eventually(lambda: late.messages() == [Ping()])
            assert two.reports(1) == ["up"]
            await late.driver.stop()

    run(main())


def test_send_to_a_known_peer_connects_on_demand(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, node(2) as two:
            two.do(lambda fx: fx.know(one.peer), lambda fx: fx.send(1, Ping(), DATA))
            await eventually(lambda: one.messages() == [Ping()])
            assert two.log == [], "nobody asked to be told of the connection"
            one.do(lambda fx: fx.send(2, number(5)))
            await eventually(lambda: two.messages() == [number(5)])
            assert one.count("connections_made") == 1

    run(main())


def test_send_to_an_unknown_peer_is_dropped_and_counted(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one:
            one.do(lambda fx: fx.send([5, 6], Ping()), lambda fx: fx.send(1, Ping()))
            await eventually(lambda: one.count("drop.address unknown") == 3)
            assert one.count("dial_attempts") == 0

    run(main())


def test_address_learned_from_a_greeting(run: Run) -> None:
    async def main() -> None:
        short = Limits(idle_close_ns=50_000_000)
        async with node(1, limits=short) as one, node(2) as two:
            two.do(lambda fx: fx.know(one.peer), lambda fx: fx.send(1, Ping()))
            await eventually(one.messages)
            await eventually(lambda: one.count("connections") == 0)
            one.do(lambda fx: fx.send(2, Ping()))
            await eventually(lambda: two.messages() == [Ping()])

    run(main())


def test_idle_connection_is_closed_and_made_again_without_loss(run: Run) -> None:
    async def main() -> None:
        short = Limits(idle_close_ns=20_000_000)
        async with node(1, limits=short) as one, node(2, limits=short) as two:
            sent = 0
            for _ in range(5):
                before = two.count("connections_made")
                for _ in range(30):
                    two.do(
                        lambda fx: fx.know(one.peer),
                        lambda fx, value=sent: fx.send(1, number(value), DATA),
                    )
                    sent += 1
                    await asyncio.sleep(0.003)
                await eventually(lambda: len(one.messages()) == sent)  # noqa: B023
                await eventually(lambda: one.count("connections") == two.count("connections") == 0)
                assert two.count("connections_made") > before or before == 0
            assert one.messages() == [number(value) for value in range(sent)]
            assert two.log == []

    run(main())


@pytest.mark.parametrize("node_id", [1, 9])
def test_rest_of_a_closed_connection_comes_before_its_successor(run: Run, node_id: int) -> None:
    """Whoever decides: with id 9 the peer's first message comes together with its `Accepted`."""

    async def main() -> None:
        limits = Limits(idle_close_ns=20_000_000)
        async with node(node_id, limits=limits) as one, hand_made(one.peer, 2) as first:
            first.send(number(1))
            await eventually(lambda: one.count("connections") == 0, "found idle")
            assert await first.is_closed(), "on the node's side, that is"
            async with hand_made(one.peer, 2, introduce=False) as second:
                second.writer.write(second.handshake.outgoing)
                if node_id == 9:
                    second.send(Accepted(), number(3))
                else:
                    second.send(number(3))
                await eventually(lambda: one.count("connections") == 1)
                await turns()
                assert one.messages() == [number(1)]
                first.send(number(2))
                await eventually(lambda: len(one.messages()) == 2)
                await first.close()
                second.send(number(4))
                await eventually(lambda: len(one.messages()) == 4)
                assert one.messages() == [number(value) for value in (1, 2, 3, 4)]

    run(main())


def test_wanted_connection_is_not_closed_by_its_side(run: Run) -> None:
    async def main() -> None:
        short = Limits(idle_close_ns=20_000_000)
        async with node(1) as one, node(2, [one.peer], limits=short) as two:
            await eventually(lambda: two.reports(1) == ["up"])
            await asyncio.sleep(0.1)
            assert two.count("connections") == 1
            two.do(lambda fx: fx.disconnect(1))
            await eventually(lambda: two.count("connections") == 0)
            assert two.reports(1) == ["up"]

    run(main())


def test_connection_the_other_side_found_idle_is_down(run: Run) -> None:
    async def main() -> None:
        short = Limits(idle_close_ns=20_000_000)
        async with node(1, limits=short) as one, node(2, [one.peer]) as two:
            await eventually(lambda: two.reports(1) == ["up", "down"])
            two.do(lambda fx: fx.connect(one.peer))
            await eventually(lambda: two.reports(1)[:3] == ["up", "down", "up"])

    run(main())


def test_too_many_connections(run: Run) -> None:
    async def main() -> None:
        async with (
            node(1, limits=Limits(max_connections=2)) as one,
            node(2, [one.peer]) as two,
            node(3, [one.peer]) as three,
        ):
            await eventually(lambda: two.reports(1) == three.reports(1) == ["up"])
            async with node(4, [one.peer], limits=IMPATIENT) as four:
                await eventually(lambda: four.reports(1) == ["down"])
            one.do(lambda fx: fx.connect(Peer(9, "127.0.0.1", 1)))
            await eventually(lambda: one.reports(9) == ["down"])
            assert one.count("drop.too many connections") >= 2
            assert two.reports(1) == three.reports(1) == ["up"]

    run(main())


def test_silent_visitor_is_shown_out(run: Run) -> None:
    async def main() -> None:
        limits = Limits(connect_timeout_ns=50_000_000)
        async with (
            node(1, limits=limits) as one,
            hand_made(one.peer, 2, introduce=False) as visitor,
        ):
            with suppress(ConnectionError):
                await visitor.reader.read()
            assert one.count("wire_error.handshake") == 0

    run(main())


def test_system_watches_over_silent_connections(run: Run) -> None:
    async def main() -> None:
        limits = Limits(keep_alive_ns=7_000_000_000)
        async with node(1, limits=limits) as one, node(2, [one.peer]) as two:
            await eventually(lambda: two.reports(1) == ["up"])
            connection = one.driver._links.links[2].connection
            assert connection is not None
            sock = connection.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 7

    run(main())
