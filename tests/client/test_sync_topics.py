"""The blocking face of topics: two peers in one script."""

import threading

import pytest

import epicast
from epicast import LpbcastConfig, sync
from tests.client.test_sync import proxy_in_a_thread

CONFIG = LpbcastConfig(gossip_period_ns=20_000_000)
LOOPBACK = "127.0.0.1"


def test_two_peers_publish_and_read_in_every_way() -> None:
    with (
        sync.join(listen=LOOPBACK) as first,
        sync.join(first.address, listen=LOOPBACK) as second,
    ):
        mine, other = (node.topic("chat", config=CONFIG) for node in (first, second))
        assert (other.name, other.mode) == ("chat", "gossip")
        other.joined(20)
        assert other.state == "joined"
        reading = other.subscribe()
        assert mine.publish(b"1", key=b"k") == 1
        assert mine.publish_many([b"2", b"3"]) == 3
        one = reading.get(timeout=20)
        assert isinstance(one, epicast.Event)
        assert one.stream == first.id
        seen = {one.payload}
        for item in reading:
            assert isinstance(item, epicast.Event)
            seen.add(item.payload)
            if len(seen) == 3:
                break
        assert seen == {b"1", b"2", b"3"}
        assert reading.get(timeout=0.01) is None
        assert not reading.closed  # leaving a loop does not close it here
        mine.publish(b"4")
        batch = reading.next_batch(timeout=20)
        assert isinstance(batch, epicast.EventBatch)
        assert batch.payloads() == [b"4"]
        assert other.statistics()["delivered"] == 4
        assert second.statistics()["topics"] == 1
        reading.close()
        assert list(reading.batches()) == []
        other.leave()
        with pytest.raises(epicast.Closed):
            other.publish(b"5")
    second.close()  # a second time


def test_a_node_with_streams_has_topics_too() -> None:
    with proxy_in_a_thread() as proxy, sync.connect(proxy.address) as node:
        topic = node.topic("chat", config=CONFIG)
        topic.joined(20)
        reading = topic.subscribe()
        assert topic.publish(b"to myself") == 1
        item = reading.get(timeout=20)
        assert isinstance(item, epicast.Event) and item.payload == b"to myself"


def test_a_port_that_is_taken_is_said_and_leaves_no_thread_behind() -> None:
    with sync.join(listen=LOOPBACK) as node:
        before = threading.active_count()
        with pytest.raises((epicast.EpicastError, OSError)):
            sync.join(listen=node.address)
        assert threading.active_count() == before


def test_what_is_pending_is_known_of_ordered_topics_only() -> None:
    with sync.join(listen=LOOPBACK) as node:
        assert node.topic("orders", "ordered").pending() == []
        with pytest.raises(epicast.EpicastError, match="ordered"):
            node.topic("chat").pending()


def test_early_events_are_confirmed() -> None:
    config = epicast.EptoConfig(round_period_ns=20_000_000, min_round_ns=20_000_000)
    with sync.join(listen=LOOPBACK) as node:
        orders = node.topic("orders", "ordered", config=config)
        with pytest.raises(epicast.EpicastError, match="early: 2 is not between 0 and 1"):
            orders.subscribe(early=2)
        with orders.subscribe(early=0.5) as reading:
            orders.publish_many([b"1", b"2"])
            items = [reading.get(timeout=20) for _ in range(3)]
            payloads = [item.payload for item in items if isinstance(item, epicast.Event)]
            assert payloads == [b"1", b"2"]
            assert items[2] == epicast.Confirmed(2, 2)
