"""Oversized datagrams, forged ids and malformed digests are dropped and counted; nothing else
happens."""

import pytest

from epicast import PeerNode
from epicast.core import EventBatch, Message, Peer
from epicast.protocols.lpbcast import messages as wire
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import eventually
from tests.integration.topics.support import Stranger, joined, peers, take

FORGED = 77


def gossip(**fields: object) -> wire.Gossip:
    return wire.Gossip(**fields)  # type: ignore[arg-type]


def event(size: int = 3) -> wire.Notification:
    return wire.Notification(0, EventBatch.build(FORGED, 1, [b"x" * size]))


MESSAGES: dict[str, tuple[Message, str]] = {
    "a digest that does not ascend": (
        gossip(digest=(wire.SourceDigest(5, 10, ((8, 9),)),)), "malformed digest",
    ),
    "a digest of a negative source": (
        gossip(digest=(wire.SourceDigest(-1, 10),)), "bad datagram",
    ),
    "an announcement of nothing": (
        gossip(announced=(wire.Announcement(0, wire.EventRange(5, 3, 2)),)),
        "malformed announcement",
    ),
    "numbers without events": (
        gossip(events=(
            wire.Notification(0, EventBatch.build(FORGED, 1, [b"x"], seqs=[1], last=9)),
        )),
        "malformed notification",
    ),
    "a subscription in another's name": (
        wire.Subscribe(wire.Subscription(Peer(5, "127.0.0.1", 9), 1)),
        "subscription in another's name",
    ),
    "an event older than any that is gossiped": (
        gossip(events=(
            wire.Notification(10**6, EventBatch.build(FORGED, 1, [b"x"])),
        )),
        "implausible age",
    ),
    "a request for nothing": (wire.Retrieve((wire.EventRange(5, 0, 0),)), "malformed request"),
}  # fmt: skip


def drops(node: PeerNode, reason: str) -> int | float:
    return node.statistics().get(f"drop.{reason}", 0)


@pytest.mark.parametrize("name", MESSAGES)
def test_dropped_and_counted(run: Run, name: str) -> None:
    message, reason = MESSAGES[name]

    async def main() -> None:
        async with peers(2) as nodes:
            topics, subscriptions = await joined(nodes)
            stranger = Stranger(nodes[0], topics[0])
            stranger.send(message)
            await eventually(lambda: drops(nodes[0], reason) == 1, reason)
            stranger.close()
            await topics[1].publish(b"as ever")
            for subscription in subscriptions:
                assert [each.payload for each in await take(subscription, 1)] == [b"as ever"]

    run(main())


def test_datagrams_that_are_none_of_ours(run: Run) -> None:
    async def main() -> None:
        async with peers(2) as nodes:
            topics, subscriptions = await joined(nodes)
            target = nodes[0]
            stranger = Stranger(target, topics[0])
            stranger.send(gossip(events=(event(3000),)), mtu=5000)
            await eventually(lambda: drops(target, "datagram too large") == 1, "oversized")
            stranger.send_bytes(b"x" * 5000)
            await eventually(lambda: drops(target, "datagram too large") == 2, "oversized rubbish")
            stranger.send_bytes(b"no datagram of ours")
            await eventually(lambda: drops(target, "bad datagram") == 1, "rubbish")
            assert target.statistics()["wire_error.malformed"] == 1
            stranger.send(gossip(events=(event(),)), source=target.id)
            await eventually(lambda: drops(target, "datagram in our name") == 1, "forged sender")
            elsewhere = Stranger(target)
            elsewhere.send(gossip(events=(event(),)))
            await eventually(lambda: drops(target, "no such topic") == 1, "no topic")
            stranger.close()
            elsewhere.close()
            await topics[1].publish(b"as ever")
            assert [each.payload for each in await take(subscriptions[0], 1)] == [b"as ever"]

    run(main())


def test_who_is_said_to_have_left_is_back_soon(run: Run) -> None:
    async def main() -> None:
        async with peers(3) as nodes:
            topics, subscriptions = await joined(nodes)
            stranger = Stranger(nodes[0], topics[0])
            for node, life in ((0, 2**62 - 1), (1, 2**62 - 1), (1, 2**62)):
                forged = wire.Unsubscription(nodes[node].id, life, 20)
                stranger.send(gossip(unsubscriptions=(forged,)))
            await eventually(lambda: drops(nodes[0], "implausible life") == 1, "nobody's life")
            await eventually(lambda: drops(nodes[0], "unsubscription of this node") > 0, "refuted")
            stranger.close()
            await topics[2].publish(b"as ever")
            for subscription in subscriptions:
                assert [each.payload for each in await take(subscription, 1)] == [b"as ever"]

    run(main())
