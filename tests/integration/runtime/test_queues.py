"""Bounded queues, control before data, room and readiness, under a peer that does not read."""

import pytest

from epicast.core import CONTROL, DATA, Effects, NodeId, Peer
from epicast.runtime import Limits
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import eventually, hand_made, node, turns
from tests.unit.wire.samples import Fields

KB = 1 << 10
MB = 1 << 20
BIG = Fields(0, "", bytes(256 * KB))


def test_control_overtakes_data_under_a_stalled_reader(run: Run) -> None:
    async def main() -> None:
        limits = Limits(data_queue_bytes=64 * MB)
        async with node(1, limits=limits) as one, hand_made(one.peer, 2) as stalled:
            count = 0
            while one.count("queued_data_bytes") < 8 * MB:
                message = Fields(count, "data", bytes(256 * KB))
                one.do(lambda fx, message=message: fx.send(2, message, DATA))
                count += 1
                await turns(2)
            one.do(lambda fx: fx.send(2, Fields(-1, "control", b""), CONTROL))
            one.do(lambda fx: fx.send(2, Fields(-2, "control", b""), CONTROL))
            await turns()
            received = []
            for _ in range(count + 2):
                message = await stalled.receive()
                assert isinstance(message, Fields)
                received.append(message.number)
            at = received.index(-1)
            assert received[at + 1] == -2, "control keeps its own order"
            assert [n for n in received if n >= 0] == list(range(count)), "and so does data"
            assert len(received) - at > 25, "most of the data was overtaken"

    run(main())


def test_full_data_queue_ends_the_connection(run: Run) -> None:
    async def main() -> None:
        limits = Limits(data_queue_bytes=4 * MB)
        async with node(1, limits=limits) as one, hand_made(one.peer, 2) as stalled:
            one.do(lambda fx: fx.connect(stalled.handshake._local.node))
            await eventually(lambda: one.reports(2) == ["up"])
            highest = 0
            while one.reports(2) == ["up"]:
                one.do(lambda fx: fx.send(2, BIG, DATA))
                await turns(2)
                highest = max(highest, one.count("queued_data_bytes"))
            assert one.reports(2) == ["up", "down"]
            assert 3 * MB < highest <= 4 * MB
            assert one.count("drop.queue full") == 1
            assert one.count("queued_data_bytes") == 0
            with pytest.raises(ConnectionError):
                while True:
                    await stalled.receive()

    run(main())


def test_full_control_queue_ends_the_connection(run: Run) -> None:
    async def main() -> None:
        limits = Limits(control_queue_bytes=1 * MB)
        async with node(1, limits=limits) as one, hand_made(one.peer, 2) as stalled:
            one.do(lambda fx: fx.connect(stalled.handshake._local.node))
            await eventually(lambda: one.reports(2) == ["up"])
            while one.reports(2) == ["up"]:
                one.do(lambda fx: fx.send(2, BIG, CONTROL))
                await turns(2)
                assert one.count("queued_control_bytes") <= 1 * MB
            assert one.count("drop.queue full") == 1

    run(main())


def test_queue_of_a_peer_that_is_being_dialed_is_bounded(run: Run) -> None:
    async def main() -> None:
        limits = Limits(data_queue_bytes=1 * MB, backoff_first_ns=10**9, backoff_max_ns=10**9)
        async with node(1, limits=limits) as one:
            nowhere = Peer(7, "127.0.0.1", 1)
            one.do(lambda fx: fx.connect(nowhere))
            one.do(*[lambda fx: fx.send(7, BIG, DATA)] * 3)
            await turns()
            assert 0 < one.count("queued_data_bytes") <= 1 * MB
            one.do(lambda fx: fx.send(7, BIG, DATA))
            await eventually(lambda: one.reports(7) == ["down"])
            assert one.count("queued_data_bytes") == 0

    run(main())


def test_empty_queue_takes_a_message_larger_than_itself(run: Run) -> None:
    async def main() -> None:
        limits = Limits(data_queue_bytes=100 * KB, control_queue_bytes=100 * KB)
        async with node(1, limits=limits) as one, node(2, [one.peer], limits=limits) as two:
            two.do(lambda fx: fx.send(1, BIG, DATA), lambda fx: fx.send(1, BIG, CONTROL))
            await eventually(lambda: one.messages() == [BIG, BIG])
            assert two.reports(1) == ["up"]

    run(main())


def test_one_stalled_peer_does_not_hold_up_another(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, hand_made(one.peer, 2), node(3, [one.peer]) as three:
            await eventually(lambda: three.reports(1) == ["up"])
            for _ in range(40):
                one.do(lambda fx: fx.send([2, 3], BIG, DATA))
                await turns(2)
            await eventually(lambda: len(three.messages()) == 40)
            assert one.count("queued_data_bytes") > 1 * MB

    run(main())


def test_room_shrinks_and_readiness_is_told(run: Run) -> None:
    async def main() -> None:
        limits = Limits(data_queue_bytes=4 * MB)
        async with node(1, limits=limits) as one, hand_made(one.peer, 2) as stalled:
            rooms: list[int] = []

            def fill(fx: Effects) -> None:
                room = fx.room(2)
                rooms.append(room)
                for _ in range(room // BIG.wire_size()):
                    fx.send(2, BIG, DATA)

            while not rooms or rooms[-1] > BIG.wire_size():
                one.do(fill)
                await turns(2)
            assert rooms[0] == 4 * MB
            assert one.count("connections") == 1, "who respects the room never overflows"
            assert not [entry for entry in one.log if entry[0] == "ready"][1:]
            one.log.clear()
            for _ in range(60):
                await stalled.receive()
                if any(entry[0] == "ready" for entry in one.log):
                    break
            await eventually(lambda: [entry for entry in one.log if entry[0] == "ready"])
            ready = [entry for entry in one.log if entry[0] == "ready"]
            assert ready[0][1] == 2
            assert ready[0][2] >= 3 * MB

    run(main())


def test_pulling_by_room_and_readiness_sends_everything(run: Run) -> None:
    """A protocol that sends only as there is room never stalls, whatever the message size."""

    total = 40

    async def main() -> None:
        for size in (10, 100 * KB, 900 * KB, 3 * MB):
            limits = Limits(data_queue_bytes=1 * MB)
            async with node(1) as one, node(2, [one.peer], limits=limits) as two:
                sent = 0

                def pull(fx: Effects, room: int, size: int = size) -> None:
                    nonlocal sent
                    message = Fields(sent, "", bytes(size))
                    need = min(message.wire_size(), 1 * MB)
                    while sent < total and room >= need:
                        fx.send(1, Fields(sent, "", bytes(size)), DATA)
                        sent += 1
                        room -= need

                def on_ready(now: int, peer: NodeId, room: int, fx: Effects) -> None:
                    pull(fx, room)

                two.protocol.on_ready = on_ready  # type: ignore[method-assign]
                await eventually(lambda two=two: two.reports(1) == ["up"])
                two.do(*[lambda fx: pull(fx, fx.room(1))] * 5)  # as five layers would
                await eventually(lambda one=one: len(one.messages()) == total)
                numbers = [m.number for m in one.messages() if isinstance(m, Fields)]
                assert numbers == list(range(total))

    run(main())


def test_room_of_peers_without_connection(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one:
            rooms: list[int] = []
            one.do(lambda fx: fx.know(Peer(5, "127.0.0.1", 1)))
            one.do(lambda fx: rooms.append(fx.room(5)), lambda fx: rooms.append(fx.room(6)))
            await eventually(lambda: rooms == [Limits().data_queue_bytes, 0])

    run(main())


def test_message_larger_than_a_frame_is_dropped(run: Run) -> None:
    async def main() -> None:
        limits = Limits(max_frame_bytes=1 * MB)
        async with node(1) as one, node(2, [one.peer], limits=limits) as two:
            await eventually(lambda: two.reports(1) == ["up"])
            two.do(lambda fx: fx.send(1, Fields(0, "", bytes(MB)), DATA))
            two.do(lambda fx: fx.send(1, Fields(1, "", bytes(MB - 100)), DATA))
            await eventually(one.messages)
            assert len(one.messages()) == 1
            assert two.count("drop.cannot be sent: too_large") == 1

    run(main())


def test_flood_is_handled_in_portions(run: Run) -> None:
    """A peer that sends faster than we handle is left waiting in its socket."""

    async def main() -> None:
        limits = Limits(inbound_bytes=300 * KB, receive_block_bytes=128 * KB)
        largest = 0
        async with node(1, limits=limits) as one, node(2, [one.peer]) as two:
            on_messages = one.protocol.on_messages

            def measuring(now: int, source: NodeId, messages: list[Fields], fx: Effects) -> None:
                nonlocal largest
                largest = max(largest, sum(len(message.data) for message in messages))
                on_messages(now, source, messages, fx)

            one.protocol.on_messages = measuring  # type: ignore[method-assign,assignment]
            await eventually(lambda: two.reports(1) == ["up"])
            two.do(*[lambda fx: fx.send(1, Fields(0, "", bytes(50 * KB)), DATA)] * 300)
            await eventually(lambda: len(one.messages()) == 300)
            assert largest <= 450 * KB, "the limit, and one block on top of it"

    run(main())
