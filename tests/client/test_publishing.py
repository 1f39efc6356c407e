"""From single events to batches and back to single acknowledgements."""

import asyncio
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.client.errors import Closed, NoRoom, PublishRefused
from epicast.client.publishing import PublishLimits, cut
from epicast.core import ConfigError, EventBatch, EventKind
from epicast.log import PredicateError, parse, split_gc_payload
from tests.client.fakes import World, run, turns


def test_what_is_published_in_one_turn_is_one_batch() -> None:
    async def main() -> None:
        world = World()
        prices = world.node.stream("prices")
        for number in range(5):
            prices.publish_nowait(b"%d" % number, key=b"k")
        assert world.payloads() == []
        await turns()
        assert world.payloads() == [[b"0", b"1", b"2", b"3", b"4"]]
        assert world.driver.published[0].batch.keys() == [b"k"] * 5
        prices.publish_nowait(b"5")
        await turns()
        assert world.payloads()[1:] == [[b"5"]]
        assert [p.first for p in world.driver.published] == [1, 6]
        assert {p.publisher for p in world.driver.published} == {99}
        await world.node.close()

    run(main)


def test_a_full_batch_does_not_wait_for_the_turn() -> None:
    async def main() -> None:
        world = World(PublishLimits(batch_events=3))
        prices = world.node.stream("prices")
        for number in range(7):
            prices.publish_nowait(b"%d" % number)
        assert [len(payloads) for payloads in world.payloads()] == [3, 3]
        await turns()
        assert [len(payloads) for payloads in world.payloads()] == [3, 3, 1]
        await world.node.close()

    run(main)


def test_what_several_publish_in_one_turn_goes_out_as_one_and_each_gets_its_own_number() -> None:
    async def main() -> None:
        world = World(PublishLimits(batch_events=6))
        prices = world.node.stream("prices")
        columns = EventBatch.build(1, 1, [b"c", b"d"])
        waiting = [
            asyncio.ensure_future(prices.publish(b"a")),
            asyncio.ensure_future(prices.publish_many([b"b", b"longer"])),
            asyncio.ensure_future(prices.publish_many(columns)),
            asyncio.ensure_future(prices.collect('key == "x"')),  # must not share their fate
            asyncio.ensure_future(prices.publish_many([b"e"] * 5)),
            asyncio.ensure_future(prices.publish_many([b"f"] * 2)),  # six at most
        ]
        await turns()
        sizes = [len(payloads) for payloads in world.payloads()]
        assert sizes == [5, 1, 5, 2]
        assert world.payloads()[0] == [b"a", b"b", b"longer", b"c", b"d"]
        world.acknowledge()
        assert await asyncio.gather(*waiting) == [1, 3, 5, 6, 11, 13]
        assert prices.unacknowledged == 0
        again = [asyncio.ensure_future(prices.publish_many([b"g"] * n)) for n in (1, 2)]
        await turns()
        world.refuse("INVALID: no")
        found = await asyncio.gather(*again, return_exceptions=True)
        assert [type(error) for error in found] == [PublishRefused, PublishRefused]
        await prices.flush()  # both were told: nothing is left to raise here
        await world.node.close()

    run(main)


def test_too_much_unacknowledged_is_no_room_until_some_is() -> None:
    async def main() -> None:
        world = World(PublishLimits(batch_events=4, unacknowledged_events=10))
        prices = world.node.stream("prices")
        for number in range(10):
            prices.publish_nowait(b"%d" % number)
        with pytest.raises(NoRoom, match="drain"):
            prices.publish_nowait(b"too much")
        draining = asyncio.ensure_future(prices.drain())
        await turns()
        assert not draining.done()
        world.acknowledge(2)
        await draining
        prices.publish_nowait(b"10")
        world.acknowledge()
        await turns()
        world.acknowledge()
        assert sum(map(len, world.payloads())) == 11
        await world.node.close()

    run(main)


def test_bytes_are_bounded_too() -> None:
    async def main() -> None:
        world = World(PublishLimits(batch_events=2, unacknowledged_bytes=100))
        prices = world.node.stream("prices")
        with pytest.raises(NoRoom):
            for _ in range(100):
                prices.publish_nowait(b"x" * 20)
        assert sum(map(len, world.payloads())) <= 6
        await world.node.close()

    run(main)


@pytest.mark.parametrize("most", [700, 5000])
def test_what_waits_for_its_batch_counts(most: int) -> None:
    """Publishes in one turn of the loop, in which nothing can be sent or acknowledged."""

    async def main() -> None:
        limits = PublishLimits(unacknowledged_bytes=most)
        rng = Random(most)
        for longest in (1, 20, 200, 2000, 20_000):
            world = World(limits)
            prices, audit = world.node.stream("prices"), world.node.stream("audit")
            taken: list[int] = []
            with pytest.raises(NoRoom, match=rf"of 50000 events and {most} bytes .* drain"):
                for _ in range(100_000):
                    size, key = rng.randint(0, longest), b"k" * rng.randint(0, 16)
                    prices.publish_nowait(b"x" * size, key=key)
                    taken.append(size + len(key))
            assert most <= sum(taken) < most + taken[-1] + (not taken[-1])
            # Those who wait find no more room than the others.
            publishing = [asyncio.ensure_future(audit.publish(b"x" * 100)) for _ in range(1000)]
            many = asyncio.ensure_future(world.node.stream("audit").publish_many([b"y"] * 10_000))
            await turns()
            sent = [p.batch for p in world.driver.published if p.batch.stream == 8]
            assert most <= sum(each.payload_bytes for each in sent) < most + 100
            for task in (*publishing, many):
                task.cancel()
            await turns()
            await world.node.close()

    run(main)


def test_publishing_many_takes_no_more_than_a_batch_beyond_the_bound() -> None:
    async def main() -> None:
        world = World(PublishLimits(unacknowledged_bytes=1000, batch_bytes=100))
        prices = world.node.stream("prices")
        publishing = asyncio.ensure_future(prices.publish_many([b"x" * 10] * 8000))
        answered = 0
        while not publishing.done():
            await turns()
            sizes = [each.batch.payload_bytes for each in world.driver.published]
            assert sum(sizes[answered:]) <= 1100
            answered = len(sizes)
            world.acknowledge()
        assert await publishing == 8000
        await world.node.close()

    run(main)


def test_after_draining_half_of_the_bytes_are_free() -> None:
    async def main() -> None:
        world = World(PublishLimits(unacknowledged_bytes=100, batch_bytes=10))
        prices = world.node.stream("prices")
        for _ in range(10):
            prices.publish_nowait(b"x" * 10)
        await turns()
        draining = asyncio.ensure_future(prices.drain())
        for _ in range(4):
            world.acknowledge(1)
            await turns()
            assert not draining.done()
        world.acknowledge(1)
        await draining
        for _ in range(5):
            prices.publish_nowait(b"x" * 10)
        await world.node.close()

    run(main)


def test_waiting_publishers_stay_within_the_bound() -> None:
    async def main() -> None:
        world = World(PublishLimits(batch_events=2, unacknowledged_events=3))
        prices = world.node.stream("prices")
        waiting = [asyncio.ensure_future(prices.publish(b"%d" % n)) for n in range(10)]
        for _ in range(20):
            await turns()
            assert prices.unacknowledged <= 3
            world.acknowledge(1)
        assert sorted(await asyncio.gather(*waiting)) == list(range(1, 11))
        await world.node.close()

    run(main)


def test_each_waiting_publisher_gets_its_own_number() -> None:
    async def main() -> None:
        world = World(PublishLimits(batch_events=3))
        prices = world.node.stream("prices")
        waiting = [asyncio.ensure_future(prices.publish(b"%d" % n)) for n in range(7)]
        await turns()
        world.acknowledge()
        assert await asyncio.gather(*waiting) == [1, 2, 3, 4, 5, 6, 7]
        await world.node.close()

    run(main)


def test_who_gives_up_waiting_harms_nobody() -> None:
    async def main() -> None:
        world = World()
        prices = world.node.stream("prices")
        first, second = (asyncio.ensure_future(prices.publish(b"x")) for _ in range(2))
        await turns()
        first.cancel()
        await turns()
        world.acknowledge()
        assert await second == 2
        await world.node.close()

    run(main)


def test_a_level_travels_with_its_event_and_keeps_the_order() -> None:
    async def main() -> None:
        world = World()
        prices = world.node.stream("prices")
        prices.publish_nowait(b"before")
        waiting = asyncio.ensure_future(prices.publish(b"safe", level="regions=1"))
        await turns()
        prices.publish_nowait(b"behind")
        await turns()
        assert world.payloads() == [[b"before"], [b"safe"], [b"behind"]]
        assert [p.level for p in world.driver.published] == ["", "regions=1", ""]
        world.acknowledge()
        assert await waiting == 2
        await world.node.close()

    run(main)


def test_many_stay_within_a_bound_smaller_than_a_batch() -> None:
    async def main() -> None:
        world = World(PublishLimits(batch_events=10, unacknowledged_events=3))
        prices = world.node.stream("prices")
        waiting = asyncio.ensure_future(prices.publish_many([b"%d" % n for n in range(8)]))
        for _ in range(5):
            await turns()
            assert prices.unacknowledged <= 3
            world.acknowledge(1)
        assert await waiting == 8
        await world.node.close()

    run(main)


@pytest.mark.parametrize("as_columns", [False, True])
def test_many_are_cut_into_batches_and_the_last_number_comes_back(as_columns: bool) -> None:
    async def main() -> None:
        world = World(PublishLimits(batch_events=10, unacknowledged_events=20))
        prices = world.node.stream("prices")
        payloads = [b"%d" % n for n in range(45)]
        keys = [b"k%d" % (n % 3) for n in range(45)]
        if as_columns:
            columns = EventBatch.build(1, 1, payloads, keys=keys)
            waiting = asyncio.ensure_future(prices.publish_many(columns))
        else:
            waiting = asyncio.ensure_future(prices.publish_many(payloads, keys))
        for _ in range(10):
            await turns()
            assert prices.unacknowledged <= 20
            world.acknowledge(1)
        assert await waiting == 45
        assert [p for batch in world.payloads() for p in batch] == payloads
        published = [p.batch.keys() for p in world.driver.published]
        assert [key for part in published for key in part] == keys
        await world.node.close()

    run(main)


def test_batches_are_cut_by_bytes_and_every_number_stays_right() -> None:
    async def main() -> None:
        world = World(PublishLimits(batch_bytes=100))
        prices = world.node.stream("prices")
        sizes = [10, 90, 90, 250, 1, 1, 1]
        waiting = [asyncio.ensure_future(prices.publish(b"x" * size)) for size in sizes]
        await turns()
        assert len(world.payloads()) > 1
        for payloads in world.payloads():
            assert len(payloads) == 1 or sum(map(len, payloads)) <= 100
        world.acknowledge()
        assert await asyncio.gather(*waiting) == list(range(1, 8))
        await world.node.close()

    run(main)


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(1, 10), st.integers(1, 120)
)
def test_cutting_loses_nothing(sizes: list[int], max_events: int, max_bytes: int) -> None:
    whole = EventBatch.build(1, 5, [b"x" * size for size in sizes])
    parts = cut(whole, max_events, max_bytes)
    assert [event for part in parts for event in part.events()] == whole.events()
    for part in parts:
        assert part.rows == 1 or (part.rows <= max_events and part.payload_bytes <= max_bytes)


def test_what_the_driver_has_no_room_for_waits_its_turn() -> None:
    async def main() -> None:
        world = World(PublishLimits(batch_events=1))
        prices, audit = world.node.stream("prices"), world.node.stream("audit")
        world.driver.room = 2
        for number in range(3):
            prices.publish_nowait(b"p%d" % number)
        audit.publish_nowait(b"a")
        await turns()
        assert world.payloads() == [[b"p0"], [b"p1"]]
        world.driver.room = 9
        world.acknowledge(1)
        assert world.payloads() == [[b"p0"], [b"p1"], [b"p2"], [b"a"]]
        await world.node.close()

    run(main)


def test_flush_waits_for_what_was_published_and_not_for_more() -> None:
    async def main() -> None:
        world = World()
        prices = world.node.stream("prices")
        prices.publish_nowait(b"1")
        flushing = asyncio.ensure_future(prices.flush())
        await turns()
        prices.publish_nowait(b"2")
        await turns()
        assert not flushing.done()
        world.acknowledge(1)
        await flushing
        assert prices.unacknowledged == 1
        await world.node.close()

    run(main)


def test_a_refusal_reaches_whoever_waits_or_else_whoever_flushes() -> None:
    async def main() -> None:
        world = World()
        prices = world.node.stream("prices")
        waiting = asyncio.ensure_future(prices.publish(b"1"))
        await turns()
        world.refuse("STORAGE: the disk is full")
        with pytest.raises(PublishRefused, match="the disk is full") as refused:
            await waiting
        assert refused.value.code == "STORAGE"
        await prices.flush()  # was told already
        prices.publish_nowait(b"2")
        prices.publish_nowait(b"3")
        await turns()
        world.refuse("STORAGE: still full")
        with pytest.raises(PublishRefused, match="still full"):
            await prices.flush()
        await prices.flush()  # only once
        await world.node.close()

    run(main)


def test_a_refusal_nobody_flushed_for_stops_the_next_publication() -> None:
    async def main() -> None:
        world = World()
        prices = world.node.stream("prices")
        prices.publish_nowait(b"1")
        await turns()
        world.refuse("LEVEL: no")
        with pytest.raises(PublishRefused, match="LEVEL"):
            prices.publish_nowait(b"2")
        prices.publish_nowait(b"2")
        await turns()
        assert world.payloads() == [[b"1"], [b"2"]]
        await world.node.close()

    run(main)


def test_a_refused_part_fails_the_whole_call_with_its_reason() -> None:
    async def main() -> None:
        world = World(PublishLimits(batch_events=2))
        prices = world.node.stream("prices")
        waiting = asyncio.ensure_future(prices.publish_many([b"1", b"2", b"3", b"4"]))
        await turns()
        world.refuse("STORAGE: full")
        world.acknowledge()
        with pytest.raises(PublishRefused, match="full"):
            await waiting
        await prices.flush()
        await world.node.close()

    run(main)


def test_a_refused_event_keeps_its_number() -> None:
    """A publisher that came back with it would be taken for one that repeats itself."""

    async def main() -> None:
        world = World()
        prices = world.node.stream("prices", first_sequence=101)
        assert prices.next_sequence == 101
        prices.publish_nowait(b"1")
        prices.publish_nowait(b"2")
        assert prices.next_sequence == 103
        await turns()
        assert world.driver.published[0].first == 101
        world.refuse("STORAGE: full")
        assert prices.next_sequence == 103
        assert world.node.statistics()["refused_events"] == 2
        with pytest.raises(PublishRefused):
            await prices.flush()
        prices.publish_nowait(b"3")
        assert prices.next_sequence == 104
        await turns()
        assert world.driver.published[1].first == 103
        world.acknowledge()
        await world.node.close()

    run(main)


def test_a_gc_event_carries_its_predicate_behind_what_was_published_before() -> None:
    async def main() -> None:
        world = World()
        prices = world.node.stream("prices")
        prices.publish_nowait(b"before")
        waiting = asyncio.ensure_future(prices.collect("key == 'ACME' and seq < 5", b"note"))
        await turns()
        world.acknowledge()
        assert await waiting == 2
        [event] = world.driver.published[1].batch.events()
        assert event.kind == EventKind.GC
        predicate, data = split_gc_payload(event.payload)
        assert predicate == parse("key == 'ACME' and seq < 5")
        assert data == b"note"
        await world.node.close()

    run(main)


def test_a_predicate_that_does_not_parse_publishes_nothing() -> None:
    async def main() -> None:
        world = World()
        with pytest.raises(PredicateError) as wrong:
            await world.node.stream("prices").collect("key = 'ACME'")
        assert wrong.value.position == 4
        assert world.payloads() == []
        await world.node.close()

    run(main)


def test_bad_events_are_refused_on_the_spot() -> None:
    async def main() -> None:
        world = World(PublishLimits(event_bytes=50))
        prices = world.node.stream("prices")
        prices.publish_nowait(b"good")
        with pytest.raises(PublishRefused, match="16 at most"):
            prices.publish_nowait(b"x", key=b"k" * 17)
        with pytest.raises(TypeError, match="encode it first"):
            prices.publish_nowait("text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="not int"):
            prices.publish_nowait(b"x", key=5)  # type: ignore[arg-type]
        with pytest.raises(PublishRefused, match="50 is the most"):
            await prices.publish(b"x" * 51)
        with pytest.raises(PublishRefused, match="50 is the most"):
            prices.publish_nowait(b"x" * 51)
        with pytest.raises(PublishRefused, match="16 at most"):
            await prices.publish_many([b"1", b"2"], [b"", b"k" * 17])
        with pytest.raises(PublishRefused, match="1 keys for 2"):
            await prices.publish_many([b"1", b"2"], [b""])
        with pytest.raises(PublishRefused, match="no events"):
            await prices.publish_many([])
        with pytest.raises(PublishRefused, match="a row for each number"):
            await prices.publish_many(EventBatch.build(1, 1, [b"x"], seqs=[2], last=3))
        with pytest.raises(PublishRefused, match="16 at most"):
            await prices.publish_many(EventBatch.build(1, 1, [b"x"], keys=[b"k" * 17]))
        with pytest.raises(PublishRefused, match="50 is the most"):
            await prices.publish_many(EventBatch.build(1, 1, [b"x" * 51]))
        prices.publish_nowait(bytearray(b"fine"))  # type: ignore[arg-type]
        await turns()
        assert [p for payloads in world.payloads() for p in payloads] == [b"good", b"fine"]
        await world.node.close()

    run(main)


def test_closing_tells_everybody_who_waits() -> None:
    async def main() -> None:
        world = World()
        prices = world.node.stream("prices")
        waiting = [
            asyncio.ensure_future(prices.publish(b"1")),
            asyncio.ensure_future(prices.publish_many([b"2"])),
        ]
        await turns()
        await world.node.close()
        for task in waiting:
            with pytest.raises(Closed):
                await task
        for attempt in (prices.publish(b"3"), prices.flush(), prices.drain()):
            with pytest.raises(Closed):
                await attempt
        with pytest.raises(Closed):
            prices.publish_nowait(b"4")

    run(main)


@pytest.mark.parametrize("name", PublishLimits.__struct_fields__)
def test_limits_are_at_least_one(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        PublishLimits(**{name: 0})
