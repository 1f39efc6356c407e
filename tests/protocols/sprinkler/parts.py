"""Shorthands for tests of single parts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from epicast.core import Effects, EventBatch, Peer, Recovered
from epicast.core.effects import Append
from epicast.protocols.sprinkler import (
    Agent,
    AgentConfig,
    Counter,
    Proxy,
    ProxyConfig,
    ProxyPlan,
    StreamInfo,
)
from epicast.protocols.sprinkler.messages import Attach, Publish, Welcome
from epicast.protocols.sprinkler.states import StreamState
from tests.protocols.single import Single

X, Y, Z = 10, 20, 30
"""The proxies of the paper's Figure 2; Y owns the stream."""
STREAM = 7
INFO = StreamInfo(STREAM, "s", Y, "y")


def events(
    first: int, count: int = 1, *, stream: int = STREAM, epoch: int = 1, size: int = 1
) -> EventBatch:
    payloads = [(b"%d" % (first + i)).ljust(size, b".") for i in range(count)]
    return EventBatch.build(stream, first, payloads, epoch=epoch)


def counter(seq: int, epoch: int = 1, stream: int = STREAM) -> Counter:
    return Counter(stream, epoch, seq)


def proxy(me: int, *, start: bool = True, incarnation: int = 1, **settings: Any) -> Single:
    """One of three proxies; the two others are connected."""
    plan = ProxyPlan(f"r{me}", (INFO,), (Peer(X), Peer(Y), Peer(Z)))
    single = Single(Proxy(Peer(me), ProxyConfig(**settings), Random(1), plan=plan))
    if start:
        single.call("on_start", (), Recovered(incarnation))
        for other in (X, Y, Z):
            if other != me:
                single.up(other)
    return single


def agent(me: int = 1, proxy: int = Y, seq: int = 0, **settings: Any) -> Single:
    """An agent attached to a proxy that is at `seq`, with one subscription behind it."""
    single = Single(Agent(Peer(me), AgentConfig(**settings), Random(1)))
    single.start(proxy)
    single.up(proxy)
    welcome(single, proxy, seq)
    single.protocol.subscribe(1, STREAM, 0, seq, 1 << 20)
    single.call("on_timer")
    return single


def welcome(single: Single, proxy: int, seq: int, epoch: int = 1) -> None:
    single.receive(proxy, Welcome("r", Peer(proxy), (INFO,), (counter(seq, epoch),), 500_000_000))


def attach(single: Single, peer: int) -> None:
    single.receive(peer, Attach(Peer(peer), True))


def publish(first: int, count: int = 1, settled: int | None = None, publisher: int = 99) -> Publish:
    settled = first - 1 if settled is None else settled
    return Publish(STREAM, publisher, first, settled, "", (), events(first, count))


def appended(single: Single) -> list[EventBatch]:
    """What the last call wants stored."""
    return [op.batch for op in single.fx.operations if isinstance(op, Append)]


def store(single: Single) -> None:
    """Let the disk catch up with the last call."""
    batches = appended(single)
    if batches:
        single.call("on_appended", batches[-1].stream, batches[-1].last)


def stabilise(state: StreamState, seq: int) -> list[EventBatch]:
    """Stored up to here, and nobody else to wait for."""
    state.store(seq)
    return state.show(seq)


def numbers(batches: Sequence[EventBatch]) -> list[int]:
    return [number for batch in batches for number in range(batch.first, batch.last + 1)]


def effects(room: int = 1 << 62) -> Effects:
    fx = Effects()
    fx.room = lambda _: room
    return fx
