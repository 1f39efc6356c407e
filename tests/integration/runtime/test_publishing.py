"""Publications, back-pressure, deliveries, acknowledgements, and the trace of it all."""

import asyncio

import pytest

from epicast.core import DATA, EventBatch, Publication, Trace, TraceKind
from epicast.runtime import Limits, NodeDriver, NoRoom
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import eventually, node, start, turns
from tests.unit.wire.samples import Events


def batch(first: int, count: int = 10) -> EventBatch:
    return EventBatch.build(1, first, [b"event"] * count)


def published(one: object) -> list[tuple[int, int]]:
    return [entry[1:] for entry in one.log if entry[0] == "publish"]  # type: ignore[attr-defined]


def test_publishers_wait_for_room_in_order(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one:
            one.protocol.room_for_publications = 0
            calls = [
                asyncio.ensure_future(one.driver.publish(batch(first))) for first in (1, 11, 21, 31)
            ]
            await turns()
            assert not any(call.done() for call in calls)
            assert one.count("waiting_publishers") == 4
            with pytest.raises(NoRoom, match="await publish"):
                one.driver.publish_nowait(batch(41))
            one.protocol.room_for_publications = 15
            one.driver._wake()  # as anything that happens to the node would
            await asyncio.gather(*calls)
            await eventually(lambda: len(published(one)) == 4)
            assert published(one) == [(1, 10), (11, 20), (21, 30), (31, 40)]

    run(main())


def test_room_is_not_exceeded_by_more_than_a_batch(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one:
            steps: list[int] = []
            on_publish = one.protocol.on_publish

            def counting(now, publications, fx) -> None:  # type: ignore[no-untyped-def]
                steps.append(sum(publication.batch.rows for publication in publications))
                on_publish(now, publications, fx)

            one.protocol.on_publish = counting  # type: ignore[method-assign]
            one.protocol.room_for_publications = 25
            await asyncio.gather(*(one.driver.publish(batch(1 + 10 * i)) for i in range(30)))
            await eventually(lambda: len(published(one)) == 30)
            assert max(steps) <= 30
            assert sum(steps) == 300

    run(main())


def test_cancelled_publisher_publishes_nothing(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one:
            one.protocol.room_for_publications = 0
            first, second = (asyncio.ensure_future(one.driver.publish(batch(n))) for n in (1, 11))
            await turns()
            first.cancel()
            one.protocol.room_for_publications = 100
            one.driver._wake()
            await second
            await eventually(lambda: published(one) == [(11, 20)])
            assert first.cancelled()

    run(main())


def test_waiting_publishers_are_bounded(run: Run) -> None:
    async def main() -> None:
        async with node(1, limits=Limits(max_waiting_publishers=2)) as one:
            one.protocol.room_for_publications = 0
            waiting = [asyncio.ensure_future(one.driver.publish(batch(n))) for n in (1, 11)]
            await turns()
            with pytest.raises(NoRoom, match="max_waiting_publishers"):
                await one.driver.publish(batch(21))
            for call in waiting:
                call.cancel()

    run(main())


def test_publication_names_its_publisher(run: Run) -> None:
    async def main() -> None:
        seen: list[tuple[int, int]] = []
        async with node(5) as five:

            def note(now, publications, fx) -> None:  # type: ignore[no-untyped-def]
                seen.extend((p.publisher, p.first) for p in publications)

            five.protocol.on_publish = note  # type: ignore[method-assign]
            await five.driver.publish(batch(7))
            await five.driver.publish(batch(7), publisher=99, first=3)
            await eventually(lambda: seen == [(5, 7), (99, 3)])

    run(main())


def test_callbacks(run: Run) -> None:
    async def main() -> None:
        told: list[tuple[object, ...]] = []
        publication = Publication(1, 1, batch(1))
        async with node(
            1,
            on_delivery=lambda batches: told.append(("delivered", len(batches))),
            on_acknowledge=lambda p, level, seq: told.append(("acknowledged", p.first, level, seq)),
            on_refuse=lambda p, error: told.append(("refused", p.first, error)),
        ) as one:
            one.do(
                lambda fx: fx.deliver(batch(1)),
                lambda fx: fx.deliver(batch(11)),
                lambda fx: fx.acknowledge(publication, "disk", 10),
                lambda fx: fx.refuse(publication, "no right"),
            )
            await eventually(lambda: len(told) == 3)
            assert told == [
                ("acknowledged", 1, "disk", 10),
                ("refused", 1, "no right"),
                ("delivered", 2),
            ]
            assert one.count("delivered_events") == 20

    run(main())


def test_trace_has_a_row_for_everything(run: Run) -> None:
    async def main() -> None:
        trace, other = Trace(), Trace()
        one = await start(NodeDriver(1, trace=trace))
        two = await start(NodeDriver(2, trace=other), [one.peer])
        await eventually(lambda: two.reports(1) == ["up"])
        message = Events(batch(1))
        two.do(
            lambda fx: fx.send(1, message, DATA),
            lambda fx: fx.deliver(batch(1)),
            lambda fx: fx.neighbor_up(1),
            lambda fx: fx.neighbor_down(1),
            lambda fx: fx.drop("for a reason", peer=1, stream=3, first=4, last=5),
            lambda fx: fx.disconnect(1),
        )
        await eventually(one.messages)
        await two.driver.stop()
        await one.driver.stop()
        rows = other.to_arrow().to_pylist()
        assert [row["kind"] for row in rows] == [
            "start", "connect", "peer_up", "publish", "send", "deliver", "view_add", "view_remove",
            "drop", "disconnect", "stop",
        ]  # fmt: skip
        assert all(row["node"] == 2 for row in rows)
        send, drop = rows[4], rows[8]
        assert (send["peer"], send["bytes"], send["detail"]) == (1, message.wire_size(), "Events")
        assert [drop[name] for name in ("peer", "stream", "first", "last", "detail")] == [
            1, 3, 4, 5, "for a reason",
        ]  # fmt: skip
        received = [row for row in trace.to_arrow().to_pylist() if row["kind"] == "receive"]
        assert [(row["peer"], row["bytes"]) for row in received] == [(2, message.wire_size())]
        assert received[0]["time"] >= send["time"], "wall-clock times compare between nodes"

    run(main())


def test_failure_is_traced_as_a_crash(run: Run) -> None:
    async def main() -> None:
        trace = Trace()
        one = await start(NodeDriver(1, trace=trace))
        one.do(lambda fx: {}["broken"])
        with pytest.raises(KeyError):
            await one.driver.wait()
        await one.driver.stop()
        assert TraceKind.CRASH in trace.columns()["kind"]

    run(main())
