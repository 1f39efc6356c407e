"""Shorthands for the lpbcast tests."""

from random import Random
from typing import Any

from epicast.core import EventBatch, Peer, Publication
from epicast.protocols.lpbcast import Lpbcast, LpbcastConfig
from epicast.protocols.lpbcast.messages import Gossip, Notification, Subscription
from tests.protocols.harness import MS, Network
from tests.protocols.single import Single

ME = 100
ROUND = 100 * MS


def config(**settings: Any) -> LpbcastConfig:
    """Rounds of 100 ms that all nodes share, and buffers that tests can fill."""
    defaults: dict[str, Any] = {
        "gossip_period_ns": ROUND,
        "aligned_rounds": True,
        "fanout": 2,
        "view_size": 4,
        "max_subs": 4,
        "settling_rounds": 0,
        "contact_every": 0,
    }
    return LpbcastConfig(**{**defaults, **settings})


def node(*view: int, contacts: tuple[int, ...] = (), seed: int = 1, **settings: Any) -> Single:
    """A started node that has heard of the peers in `view`."""
    single = Single(Lpbcast(Peer(ME), config(**settings), Random(seed)))
    single.start(*contacts)
    if view:
        single.receive(view[0], subscriptions(*view))
    return single


def subscriptions(*peers: int, life: int = 1) -> Gossip:
    return Gossip(tuple(Subscription(Peer(peer), life) for peer in peers))


def batch(source: int, first: int, count: int = 1, size: int = 4) -> EventBatch:
    payloads = [f"{source}:{first + i}:".encode().ljust(size, b".") for i in range(count)]
    return EventBatch.build(source, first, payloads)


def gossip(*events: tuple[int, EventBatch]) -> Gossip:
    """From (age, batch) pairs."""
    return Gossip(events=tuple(Notification(age, each) for age, each in events))


def publish(single: Single, *batches: EventBatch) -> None:
    single.call("on_publish", [Publication(ME, each.first, each) for each in batches])


def delivered(single: Single) -> list[tuple[int, int]]:
    """Ids delivered by the last call, in order."""
    return [
        (each.stream, seq)
        for each in single.fx.deliveries
        for seq in range(each.first, each.last + 1)
    ]


def next_round(single: Single) -> list[Gossip]:
    """The gossips of the next round."""
    single.fire("round")
    return [message for _, message in single.sent(Gossip)]


def ages(messages: list[Gossip]) -> dict[tuple[int, int], int]:
    return {
        (item.batch.stream, seq): item.age
        for message in messages
        for item in message.events
        for seq in range(item.batch.first, item.batch.last + 1)
    }


def system(count: int, seed: int = 1, gap: int = 20 * MS, **settings: Any) -> Network:
    """Nodes 1..count that joined one after the other, all through node 1."""
    network, shared = Network(delay=5 * MS), config(**settings)
    for me in range(1, count + 1):
        protocol = Lpbcast(Peer(me), shared, Random(seed * 7919 + me))
        network.start(protocol, [1] if me > 1 else [])
        network.run(gap)
    return network
