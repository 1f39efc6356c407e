"""Topics among peers on real sockets."""

import asyncio
import socket

import pytest

import epicast
from epicast import Event, Gap, LpbcastConfig, TopicSubscription
from epicast.core import ConfigError
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import eventually
from tests.integration.topics.support import CONFIG, LOOPBACK, joined, peers, take


def test_everybody_joins_by_one_address_and_gets_everything(run: Run) -> None:
    async def main() -> None:
        async with peers(5) as nodes:
            topics, subscriptions = await joined(nodes)
            assert await topics[0].publish(b"hello", key=b"k") == 1
            assert await topics[3].publish_many([b"%d" % n for n in range(30)]) == 30
            columns = epicast.EventBatch.build(1, 1, [b"a", b"b"])
            assert await topics[3].publish_many(columns) == 32
            expected = {(nodes[0].id, 1, b"k", b"hello")}
            values = [*(b"%d" % n for n in range(30)), b"a", b"b"]
            expected |= {(nodes[3].id, n, b"", value) for n, value in enumerate(values, 1)}
            for subscription in subscriptions:
                events = await take(subscription, len(expected))
                got = {(each.stream, each.seq, each.key, each.payload) for each in events}
                assert got == expected
                assert all(each.time > 10**18 for each in events)
                assert await subscription.get(timeout=0.05) is None  # nothing twice
            assert topics[1].statistics()["joined"] == 1
            assert topics[1].statistics()["delivered"] == len(expected)

    run(main())


def test_an_event_too_large_for_a_datagram_comes_over_a_connection(run: Run) -> None:
    async def main() -> None:
        async with peers(3) as nodes:
            topics, subscriptions = await joined(nodes)
            large = bytes(range(256)) * 400
            await topics[1].publish(large)
            for subscription in subscriptions:
                [event] = await take(subscription, 1)
                assert event.payload == large
            assert sum(node.statistics()["frames_sent"] for node in nodes) >= 2
            with pytest.raises(epicast.PublishRefused, match="1048576 is the most"):
                await topics[1].publish(b"x" * (1 << 21))
            with pytest.raises(epicast.PublishRefused, match="key and payload"):
                await topics[1].publish(b"x" * (1 << 20), key=b"k")
            await topics[1].publish(b"small")
            for subscription in subscriptions:
                [event] = await take(subscription, 1)
                assert (event.seq, event.payload) == (2, b"small")  # refusals leave no hole

    run(main())


def test_who_leaves_politely_is_forgotten_and_may_come_back(run: Run) -> None:
    async def main() -> None:
        async with peers(4) as nodes:
            topics, subscriptions = await joined(nodes)
            await topics[3].publish(b"before")
            for subscription in subscriptions:
                await take(subscription, 1)
            await eventually(
                lambda: all(topic.statistics()["view"] == 3 for topic in topics), "full views"
            )
            await topics[3].leave()
            assert topics[3].state == "left"
            assert [item async for item in subscriptions[3]] == []  # the loop ends by itself
            with pytest.raises(epicast.Closed, match="was left"):
                await topics[3].publish(b"late")
            await eventually(
                lambda: all(topic.statistics()["view"] == 2 for topic in topics[:3]), "forgotten"
            )
            again = nodes[3].topic("chat", config=CONFIG)
            await again.joined(20)
            assert await again.publish(b"back") == 2  # its numbers go on
            for subscription in subscriptions[:3]:
                [event] = await take(subscription, 1)
                assert (event.stream, event.seq, event.payload) == (nodes[3].id, 2, b"back")

    run(main())


def test_crashes_do_not_keep_events_from_the_others(run: Run) -> None:
    async def main() -> None:
        async with peers(6) as nodes:
            topics, subscriptions = await joined(nodes)
            await asyncio.gather(nodes[0].abort(), nodes[5].abort())  # the contact among them
            with pytest.raises(epicast.Closed):
                await subscriptions[0].get()
            await topics[2].publish_many([b"%d" % n for n in range(20)])
            for subscription in subscriptions[1:5]:
                assert {each.seq for each in await take(subscription, 20)} == set(range(1, 21))

    run(main())


def test_two_topics_on_one_node_share_a_port(run: Run) -> None:
    async def main() -> None:
        async with peers(3) as nodes:
            chat, chat_subscriptions = await joined(nodes, "chat")
            news, news_subscriptions = await joined(nodes, "news")
            assert chat[0].number != news[0].number
            await chat[1].publish(b"chat")
            await news[1].publish(b"news")
            for subscriptions, value in (
                (chat_subscriptions, b"chat"),
                (news_subscriptions, b"news"),
            ):
                for subscription in subscriptions:
                    assert [each.payload for each in await take(subscription, 1)] == [value]
                    assert await subscription.get(timeout=0.05) is None
            assert nodes[0].statistics()["topics"] == 2
            assert nodes[0].topic("chat", config=CONFIG) is chat[0]
            with pytest.raises(ConfigError, match="other settings"):
                nodes[0].topic("chat", config=LpbcastConfig(fanout=1))

    run(main())


def test_a_full_topic_does_not_hold_up_another(run: Run) -> None:
    """A publisher that waits for room in one topic is nothing to those of another."""

    async def main() -> None:
        slow = LpbcastConfig(gossip_period_ns=3600 * 10**9, max_events=1, max_waiting=1)
        async with peers(1) as [node]:
            full = node.topic("full", config=slow)
            free = node.topic("free", config=CONFIG)
            for payload in (b"1", b"2"):
                await full.publish(payload)  # one at once; one waits inside, as many as may
            waiting = asyncio.create_task(full.publish(b"3"))
            assert await asyncio.wait_for(free.publish(b"free"), 20) == 1
            await asyncio.sleep(0.05)
            assert not waiting.done()
            assert node.statistics()["waiting_publishers"] == 1
            waiting.cancel()

    run(main())


def test_a_dead_contact_is_tried_again_and_said_so(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        with socket.socket() as free:
            free.bind((LOOPBACK, 0))
            address = f"{LOOPBACK}:{free.getsockname()[1]}"
        async with epicast.join(address) as node:
            topic = node.topic("chat", config=CONFIG)
            with pytest.raises(epicast.JoinFailed, match=f"0.3 seconds: .*{address}"):
                await topic.joined(0.3)
            assert topic.state == "joining"
            assert address in topic.problem and "attempt" in topic.problem
            assert topic.statistics()["joined"] == 0
            await eventually(lambda: topic.statistics()["join_attempts"] >= 3, "more attempts")
            assert sum("no contact answers" in each.message for each in caplog.records) == 1
            async with epicast.join(listen=address) as late:
                first = late.topic("chat", config=CONFIG)
                got = first.subscribe()
                await topic.publish(b"found you")  # waits until it has joined
                assert (await take(got, 1))[0].payload == b"found you"
                assert topic.problem == ""

    run(main())


def test_joining_can_be_given_up(run: Run) -> None:
    async def main() -> None:
        with socket.socket() as silent:
            silent.bind((LOOPBACK, 0))
            silent.listen()  # answers nothing
            node = await epicast.join(f"{LOOPBACK}:{silent.getsockname()[1]}")
            topic = node.topic("chat")
            publishing = asyncio.create_task(topic.publish(b"never"))
            await asyncio.sleep(0.02)
            await topic.leave()
            with pytest.raises(epicast.Closed):
                await publishing
            await node.close()

    run(main())


def test_a_slow_subscriber_gets_a_gap_and_the_newest(run: Run) -> None:
    async def main() -> None:
        async with peers(2) as nodes:
            topics, _ = await joined(nodes)
            slow = topics[1].subscribe(window_bytes=20_000)
            quick = topics[1].subscribe()
            for number in range(60):
                await topics[0].publish(b"%04d" % number * 100)
            assert {each.seq for each in await take(quick, 60)} == set(range(1, 61))
            items: list[Event | Gap] = []
            while (item := await slow.get(timeout=0.2)) is not None:
                items.append(item)
            [gap] = [each for each in items if isinstance(each, Gap)]
            assert items[0] == gap
            assert gap.events + len(items) - 1 == 60
            assert 0 < gap.events == slow.dropped == topics[1].statistics()["dropped_events"]

    run(main())


def test_events_come_in_loops_and_in_batches(run: Run) -> None:
    async def main() -> None:
        async with peers(1) as [node]:
            topic = node.topic("chat", config=CONFIG)
            by_event, by_batch = topic.subscribe(), topic.subscribe()
            await topic.publish_many([b"%d" % n for n in range(3)])
            values = []
            async for item in by_event:
                assert isinstance(item, Event)
                values.append(item.payload)
                if len(values) == 3:
                    break
            assert values == [b"0", b"1", b"2"]
            await eventually(lambda: topic.statistics()["subscriptions"] == 1, "leaving closes it")
            async for batch in by_batch.batches():
                assert isinstance(batch, epicast.EventBatch)
                assert batch.payloads() == values
                break
            async with topic.subscribe() as kept:
                assert isinstance(kept, TopicSubscription)
                await topic.publish(b"more")
                assert [each.payload for each in await take(kept, 1)] == [b"more"]
            assert kept.closed

    run(main())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"listen": "0.0.0.0:7500"}, "leads nowhere"),
        ({"listen": "nowhere at all"}, "expected an address"),
        ({"tls": epicast.TlsOptions(ca="ca.pem"), "cluster": "shop"}, "by certificates"),
        ({"tls": epicast.TlsOptions(ca="ca.pem")}, "cluster"),
    ],
)
def test_wrong_calls_of_join(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        epicast.join(**arguments)  # type: ignore[arg-type]


def test_wrong_contacts_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="all begin with epicasts"):
        epicast.join("epicasts://127.0.0.1:1", "127.0.0.1:2")
    with pytest.raises(epicast.ConnectFailed, match="port"):
        epicast.join("127.0.0.1:70000")


def test_wrong_calls_of_topic(run: Run) -> None:
    async def main() -> None:
        async with peers(1) as [node]:
            with pytest.raises(ConfigError, match="there is no topic mode 'gosip'; did you mean"):
                node.topic("chat", mode="gosip")
            with pytest.raises(ConfigError, match="goes with LpbcastConfig"):
                node.topic("chat", config=epicast.AgentConfig())  # type: ignore[arg-type]
            with pytest.raises(ConfigError, match="a name is"):
                node.topic("Chat Room")
            with pytest.raises(ConfigError, match="a list of addresses"):
                node.topic("chat", contacts="127.0.0.1:7500")
            with pytest.raises(ConfigError, match="17 are more than 16"):
                node.topic("chat", contacts=[f"127.0.0.1:{n}" for n in range(1, 18)])
            with pytest.raises(ConfigError, match="certificate"):
                node.topic("chat", contacts=["epicasts://127.0.0.1:7500"])

    run(main())


def test_a_taken_port_is_an_error_of_join(run: Run) -> None:
    async def main() -> None:
        async with peers(1) as [node]:
            with pytest.raises(epicast.EpicastError, match="cannot listen"):
                await epicast.join(listen=node.address)

    run(main())


def test_another_cluster_is_not_joined(run: Run) -> None:
    async def main() -> None:
        async with (
            peers(1, cluster="shop") as [node],
            epicast.join(node.address) as other,
        ):
            topic = other.topic("chat", config=CONFIG)
            with pytest.raises(epicast.JoinFailed, match="belongs to 'shop'"):
                await topic.joined(0.3)

    run(main())
