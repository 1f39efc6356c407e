"""Ordered topics among real peers: one order everywhere, for late joiners from a defined point."""

import time

import pytest
from msgspec import structs

import epicast
from epicast import EptoConfig, Event, Gap, PublishRefused
from epicast.core import EventBatch
from epicast.core.message import Layered
from epicast.protocols.epto.entries import columns_of
from epicast.protocols.epto.messages import Ball
from epicast.runtime import recorder
from epicast.runtime.waiting import next_turn, spawn
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import eventually
from tests.integration.topics.support import Stranger, peers, take

HOUR_NS = 3600 * 10**9

CONFIG = EptoConfig(
    round_period_ns=30_000_000, min_round_ns=20_000_000, shuffle_period_ns=30_000_000
)


class OffTime:
    """What a node that starts meanwhile takes for the time."""

    monotonic_ns = staticmethod(time.monotonic_ns)

    def __init__(self, off_ns: int) -> None:
        self._off_ns = off_ns

    def time_ns(self) -> int:
        return time.time_ns() + self._off_ns


async def joined(nodes: list[epicast.PeerNode], config: EptoConfig) -> list[epicast.Topic]:
    topics = [node.topic("orders", "ordered", config=config) for node in nodes]
    for topic in topics:
        await topic.joined(20)
    for topic in topics:
        await eventually(lambda topic=topic: topic.statistics().get("epto.settled"))
    return topics


def names(events: list[Event]) -> list[tuple[int, int, bytes]]:
    return [(event.stream, event.seq, event.payload) for event in events]


def test_every_peer_delivers_the_same_events_in_the_same_order(run: Run) -> None:
    async def main() -> None:
        for clock in ("global", "logical"):
            config = epicast.EptoConfig(
                clock=clock,  # type: ignore[arg-type]
                round_period_ns=CONFIG.round_period_ns,
                min_round_ns=CONFIG.min_round_ns,
                shuffle_period_ns=CONFIG.shuffle_period_ns,
            )
            async with peers(4) as nodes:
                topics = await joined(nodes, config)
                subscriptions = [topic.subscribe() for topic in topics]
                for number in range(5):
                    for topic in topics:
                        await topic.publish(b"%d" % number)
                    await topics[0].publish_many([b"a", b"bb", b""], [b"k", b"", b"l"])
                orders = [names(await take(each, 35)) for each in subscriptions]
                assert all(order == orders[0] for order in orders)
                by_first = [number for source, number, _ in orders[0] if source == nodes[0].id]
                assert by_first == list(range(1, 21)), "those of one peer in the order published"
                assert {source for source, _, _ in orders[0]} == {node.id for node in nodes}

    run(main())


def test_who_joins_late_begins_somewhere_and_misses_nothing_from_there(run: Run) -> None:
    async def main() -> None:
        async with peers(3) as nodes:
            topics = await joined(nodes[:2], CONFIG)
            early = topics[0].subscribe()
            await topics[1].publish_many([b"before"] * 5)
            assert len(await take(early, 5)) == 5
            late = nodes[2].topic("orders", "ordered", config=CONFIG)
            subscription = late.subscribe()
            await late.joined(20)
            await eventually(lambda: late.statistics().get("epto.settled"))
            for number in range(4):
                await topics[number % 2].publish(b"after %d" % number)
                await late.publish(b"mine %d" % number)
            assert names(await take(subscription, 8)) == names(await take(early, 8))
            assert await subscription.get(timeout=0.2) is None

    run(main())


def test_what_is_refused_says_why_and_a_gap_names_its_events(run: Run) -> None:
    async def main() -> None:
        async with peers(2) as nodes:
            topics = await joined(nodes, CONFIG)
            try:
                await topics[0].publish(b"x" * (CONFIG.max_event_bytes + 1))
            except PublishRefused as refused:
                assert "bytes" in str(refused)
            else:
                raise AssertionError("an event larger than any was taken")
            subscription = topics[1].subscribe()
            topics[1].receive(Gap(3, 7, 5, 7))
            assert await subscription.get(timeout=5) == Gap(3, 7, 5, 7)
            await topics[0].publish(b"soon")
            await eventually(topics[1].pending)
            (soon,) = topics[1].pending()
            assert (soon.source, soon.first, soon.last) == (nodes[0].id, 1, 1)
            assert soon.stable == 0, "nothing was seen yet to tell it by"
            assert [event.payload for event in await take(subscription, 1)] == [b"soon"]
            assert topics[1].pending() == []
            try:
                nodes[0].topic("chat").pending()
            except epicast.EpicastError as error:
                assert "ordered" in str(error)
            else:
                raise AssertionError("gossip has nothing pending")
            figures = topics[0].statistics()
            assert figures["epto.ttl"] >= 1 and figures["epto.missing"] == 0

    run(main())


def test_events_of_any_size_come_through(run: Run) -> None:
    """Those of more bytes than a datagram, too, though a ball of few bytes is sent as datagrams."""

    async def main() -> None:
        async with peers(2) as nodes:
            topics = await joined(nodes, CONFIG)
            subscription = topics[1].subscribe()
            sizes = [1, 900, 1000, 1300, 2500, 5000, 100_000]
            for size in sizes:
                await topics[0].publish(b"x" * size)
                (event,) = await take(subscription, 1)
                assert len(event.payload) == size

    run(main())


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_an_hour_off_holds_up_nobody(
    run: Run, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    async def main() -> None:
        async with peers(4) as nodes:
            with monkeypatch.context() as patch:
                patch.setattr(recorder, "time", OffTime(hours * HOUR_NS))
                off = await epicast.join(nodes[0].address)
            async with off:
                topics = await joined([*nodes, off], CONFIG)
                orders = [topic.subscribe() for topic in topics]
                for number in range(5):
                    for topic in topics:
                        await topic.publish(b"%d" % number)
                found = [names(await take(order, 25)) for order in orders]
                assert all(order == found[0] for order in found), "its events among the others'"
                correction = topics[-1].statistics()["epto.clock_correction_ns"]
                assert abs(correction + hours * HOUR_NS) < HOUR_NS / 100
                for topic in topics[:-1]:
                    figures = topic.statistics()
                    assert figures["epto.clock_correction_ns"] == figures["epto.missing"] == 0

    run(main())


def test_who_was_alone_and_an_hour_ahead_goes_on_with_those_who_join(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For an hour it was refused by everybody, and refused everybody."""

    async def main() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(recorder, "time", OffTime(HOUR_NS))
            off = await epicast.join(listen="127.0.0.1")
        async with off:
            (ahead,) = await joined([off], CONFIG)
            alone = ahead.subscribe()
            await ahead.publish(b"alone")
            assert len(await take(alone, 1)) == 1
            nodes = [await epicast.join(off.address) for _ in range(3)]
            try:
                topics = await joined(nodes, CONFIG)
                await eventually(lambda: ahead.statistics().get("epto.begun_anew"))
                orders = [topic.subscribe() for topic in topics]
                for topic in topics:
                    await topic.publish(b"together")
                heard, lost = await everything(alone, 3)
                # Set right it is behind by as long as a message took, and what it publishes now
                # could be from before somebody's order began, had it not heard of them first.
                await ahead.publish(b"together")
                found = [await everything(order, 4) for order in orders]
                last, more = await everything(alone, 1)
                found.append((heard + last, lost + more))
                assert all(names(events) == names(found[0][0]) for events, _ in found)
                assert {gap for _, gaps in found for gap in gaps} <= {Gap(1, off.id, 1, 1)}, (
                    "the event from when it was alone, by who began before it was set right"
                )
            finally:
                for node in nodes:
                    await node.close()

    run(main())


async def everything(
    subscription: epicast.TopicSubscription, count: int
) -> tuple[list[Event], list[Gap]]:
    """So many events, and the gaps reported meanwhile."""
    events: list[Event] = []
    gaps: list[Gap] = []
    while len(events) < count:
        item = await subscription.get(timeout=20)
        assert isinstance(item, Event | Gap), f"{item} after {len(events)} of {count}"
        if isinstance(item, Gap):
            gaps.append(item)
        else:
            events.append(item)
    return events, gaps


def test_what_is_published_by_one_who_leaves_at_once_is_delivered(run: Run) -> None:
    """Before its order had begun, it was dropped."""

    async def main() -> None:
        async with peers(3) as nodes:
            topics = await joined(nodes, CONFIG)
            order = topics[0].subscribe()
            visitor = await epicast.join(nodes[0].address)
            topic = visitor.topic("orders", "ordered", config=CONFIG)
            await topic.joined(20)
            await topic.publish(b"hello")
            settled = topic.statistics()["epto.settled"]
            await visitor.close()
            assert not settled, "or this shows nothing"
            assert names(await take(order, 1)) == [(visitor.id, 1, b"hello")]

    run(main())


def test_events_from_an_hour_ahead_are_refused_with_a_reason(run: Run) -> None:
    """Of a peer that does not follow the clocks of others."""

    async def main() -> None:
        async with peers(3) as nodes:
            topics = await joined(nodes, CONFIG)
            orders = [topic.subscribe() for topic in topics]
            stamp = time.time_ns() + HOUR_NS
            columns = columns_of(stamp, 77, EventBatch.build(77, 1, [b"tomorrow"]))
            ball = Ball(1, columns, stamp, 1, stamp, 0, 0, bytes(256), 0)
            strangers = [Stranger(*each) for each in zip(nodes, topics, strict=True)]
            for stranger in strangers:
                stranger.send(Layered(1, ball))
                stranger.close()
            reason = "drop.timestamp too far ahead"
            for node in nodes:
                await eventually(lambda node=node: node.statistics().get(reason))
            began = time.monotonic()
            for topic in topics:
                await topic.publish(b"today")
            found = [names(await take(order, 3)) for order in orders]
            assert time.monotonic() - began < CONFIG.max_clock_ahead_ns / 2 / 10**9, (
                "what is refused makes nobody wait until its time is near"
            )
            assert all(order == found[0] for order in found)
            assert 77 not in {source for source, _, _ in found[0]}
            for topic in topics:
                assert topic.statistics()["epto.refused"] >= 1

    run(main())


def test_who_comes_back_is_not_taken_for_one_that_begins(run: Run) -> None:
    async def main() -> None:
        async with peers(3) as nodes:
            topics = await joined(nodes[:2], CONFIG)
            there = topics[0].subscribe()
            await topics[1].publish_many([b"first life"] * 3)
            await take(there, 3)
            await topics[1].leave()
            late = await joined(nodes[2:], CONFIG)
            subscription = late[0].subscribe()
            again = await joined(nodes[1:2], CONFIG)
            assert await again[0].publish(b"second life") == 4
            for each in (there, subscription):
                (event,) = await take(each, 1)
                assert (event.stream, event.seq) == (nodes[1].id, 4)

    run(main())


def test_what_was_refused_takes_no_number(run: Run) -> None:
    """Twenty events do not fit a buffer for eight: others get the numbers of the twelve."""
    config = structs.replace(
        CONFIG, max_buffer_bytes=8_000_000, max_event_bytes=1_000_000, round_period_ns=200_000_000,
        min_round_ns=200_000_000,
    )  # fmt: skip

    async def main() -> None:
        async with peers(2) as nodes:
            topics = await joined(nodes, config)
            subscription = topics[1].subscribe(window_bytes=64 << 20)
            large = spawn(topics[0].publish_many([b"x" * 900_000] * 20))
            await next_turn()
            small = [spawn(topics[0].publish(b"small %d" % number)) for number in range(3)]
            with pytest.raises(PublishRefused, match=r"no room.*8 events before it were published"):
                await large
            numbers = []
            for each in small:
                numbers.append(await each)
            assert numbers == [9, 10, 11]
            assert await topics[0].publish(b"last") == 12
            events = await take(subscription, 12)
            assert [event.seq for event in events] == list(range(1, 13))

    run(main())
