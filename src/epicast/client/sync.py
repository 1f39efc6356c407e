"""The client library for code that is not asynchronous: scripts and notebooks.

    from epicast import sync

    with sync.connect("epicast://127.0.0.1:7400") as node:
        prices = node.stream("prices")
        prices.publish(b"42.0", key=b"ACME")
        for event in prices.subscribe(after=0):
            print(event)

The same names as in `epicast`, each call blocking until it is done. The work is done by an event
loop in a thread of its own; events cross over a batch at a time, so that a loop over them is as
fast as an asynchronous one. Ctrl-C interrupts any call and leaves the node usable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import overload

from epicast.client import connecting
from epicast.client import node as asynchronous
from epicast.client import stream as streams
from epicast.client import subscription as subscriptions
from epicast.client.caller import Caller, Closing
from epicast.client.credentials import TlsOptions
from epicast.client.errors import Closed
from epicast.client.items import Item, Reset, Watermark
from epicast.client.publishing import PublishLimits
from epicast.client.stream import DEFAULT_WINDOW_BYTES
from epicast.client.sync_topics import PeerNode, Topic, TopicSubscription, join
from epicast.client.topics.topic import JOIN_WITHIN_S
from epicast.client.watermarks import WatermarkFile
from epicast.core import Config, EventBatch
from epicast.protocols.sprinkler import AgentConfig, ClientConfig, StreamInfo

__all__ = ["Node", "PeerNode", "Stream", "Subscription", "Topic", "TopicSubscription", "connect",
           "join"]  # fmt: skip


def connect(
    address: str,
    *,
    agent: bool | None = None,
    publisher: int | None = None,
    timeout: float = 5.0,
    listen: str | None = None,
    config: AgentConfig | ClientConfig | None = None,
    limits: PublishLimits | None = None,
    evidence: str | Path | None = None,
    name: str | None = None,
    token: str | None = None,
    tls: TlsOptions | None = None,
) -> Node:
    """As `epicast.connect`, already connected. To be closed, or used in a `with` block."""
    connection = connecting.connect(
        address,
        agent=agent,
        publisher=publisher,
        timeout=timeout,
        listen=listen,
        config=config,
        limits=limits,
        evidence=evidence,
        name=name,
        token=token,
        tls=tls,
    )
    caller = Caller()
    try:
        return Node(caller.wait(lambda: connection), caller)
    except BaseException:
        caller.close()
        raise


class Node(Closing):
    def __init__(self, node: asynchronous.Node, caller: Caller) -> None:
        self._node = node
        self._caller = caller

    @property
    def region(self) -> str:
        return self._node.region

    @property
    def attached(self) -> bool:
        return self._node.attached

    @property
    def geoplex(self) -> str:
        return self._node.geoplex

    @property
    def publisher(self) -> int:
        return self._node.publisher

    def streams(self) -> list[StreamInfo]:
        return self._node.streams()

    def statistics(self) -> Mapping[str, int | float]:
        return self._caller.call(self._node.statistics)

    def stream(self, name: str, *, first_sequence: int | None = None) -> Stream:
        found = self._caller.call(lambda: self._node.stream(name, first_sequence=first_sequence))
        return Stream(found, self._caller)

    def topic(
        self,
        name: str,
        mode: str | None = None,
        *,
        config: Config | None = None,
        contacts: Sequence[str] = (),
        join_within: float | None = JOIN_WITHIN_S,
    ) -> Topic:
        found = self._caller.call(
            lambda: self._node.topic(
                name, mode, config=config, contacts=contacts, join_within=join_within
            )
        )
        return Topic(found, self._caller)

    def close(self) -> None:
        try:
            self._caller.wait(self._node.close)
        except Closed:
            return  # a second time
        self._caller.close()


class Stream:
    def __init__(self, stream: streams.Stream, caller: Caller) -> None:
        self._stream = stream
        self._caller = caller

    @property
    def name(self) -> str:
        return self._stream.name

    @property
    def info(self) -> StreamInfo:
        return self._stream.info

    @property
    def next_sequence(self) -> int:
        return self._stream.next_sequence

    def publish(self, payload: bytes, key: bytes = b"", *, level: str = "") -> int:
        return self._caller.wait(lambda: self._stream.publish(payload, key, level=level))

    def publish_many(
        self,
        payloads: Sequence[bytes] | EventBatch,
        keys: Sequence[bytes] | None = None,
        *,
        level: str = "",
    ) -> int:
        return self._caller.wait(lambda: self._stream.publish_many(payloads, keys, level=level))

    def collect(self, predicate: str, data: bytes = b"", *, key: bytes = b"") -> int:
        return self._caller.wait(lambda: self._stream.collect(predicate, data, key=key))

    def head(self, timeout: float | None = None) -> Watermark:
        return self._caller.wait(lambda: self._stream.head(timeout))

    def subscribe(
        self,
        after: Watermark | int | None = None,
        *,
        tombstones: bool = True,
        window_bytes: int = DEFAULT_WINDOW_BYTES,
        resume: WatermarkFile | None = None,
        save_every: float = 1.0,
    ) -> Subscription:
        subscription = self._caller.call(
            lambda: self._stream.subscribe(
                after,
                tombstones=tombstones,
                window_bytes=window_bytes,
                resume=resume,
                save_every=save_every,
            )
        )
        return Subscription(subscription, self._caller)


class Subscription(Closing):
    """Iterate, `get`, `pull`, or read `batches`. Leaving a loop does not close it."""

    def __init__(self, subscription: subscriptions.Subscription, caller: Caller) -> None:
        self._subscription = subscription
        self._caller = caller

    def __iter__(self) -> Iterator[Item]:
        subscription = self._subscription
        while True:
            yield from subscription.at_hand()
            if not self._caller.wait(lambda: subscription.load(None)):
                return

    def batches(self) -> Iterator[EventBatch | Reset]:
        while True:
            batch = self.next_batch()
            if batch is None:
                return
            yield batch

    def next_batch(self, timeout: float | None = None) -> EventBatch | Reset | None:
        return self._caller.wait(lambda: self._subscription.next_batch(timeout))

    @overload
    def get(self) -> Item: ...

    @overload
    def get(self, timeout: float | None) -> Item | None: ...

    def get(self, timeout: float | None = None) -> Item | None:
        item = self._subscription.take_at_hand()
        return self._caller.wait(lambda: self._subscription.get(timeout)) if item is None else item

    def get_nowait(self) -> Item | None:
        item = self._subscription.take_at_hand()
        return self._caller.call(self._subscription.get_nowait) if item is None else item

    def pull(self, max_items: int = 1000, timeout: float | None = None) -> list[Item]:
        return self._caller.wait(lambda: self._subscription.pull(max_items, timeout))

    @property
    def watermark(self) -> Watermark:
        return self._subscription.watermark

    @property
    def closed(self) -> bool:
        return self._subscription.closed

    def staleness(self) -> float:
        return self._caller.call(self._subscription.staleness)

    def close(self) -> None:
        self._caller.wait(self._subscription.close)
