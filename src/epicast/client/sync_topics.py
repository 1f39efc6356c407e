"""Topics for code that is not asynchronous; see `epicast.sync`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from epicast.client.caller import Caller, Closing
from epicast.client.credentials import TlsOptions
from epicast.client.errors import Closed
from epicast.client.topics import TopicItem, joining, peer, subscription, topic
from epicast.client.topics.subscription import DEFAULT_WINDOW_BYTES, Queued
from epicast.client.topics.topic import JOIN_WITHIN_S
from epicast.core import Config, EventBatch, NodeId
from epicast.protocols.epto import Pending
from epicast.runtime.limits import Limits


def join(
    *contacts: str,
    listen: str | None = None,
    cluster: str | None = None,
    geoplex: str | Path | None = None,
    tls: TlsOptions | None = None,
    limits: Limits | None = None,
) -> PeerNode:
    """As `epicast.join`, already listening. To be closed, or used in a `with` block."""
    joined = joining.join(
        *contacts, listen=listen, cluster=cluster, geoplex=geoplex, tls=tls, limits=limits
    )
    caller = Caller()
    try:
        return PeerNode(caller.wait(lambda: joined), caller)
    except BaseException:
        caller.close()
        raise


class PeerNode(Closing):
    def __init__(self, node: peer.PeerNode, caller: Caller) -> None:
        self._node = node
        self._caller = caller

    @property
    def id(self) -> NodeId:
        return self._node.id

    @property
    def address(self) -> str:
        return self._node.address

    def topic(
        self,
        name: str,
        mode: str | None = None,
        *,
        config: Config | None = None,
        contacts: Sequence[str] | None = None,
        join_within: float | None = JOIN_WITHIN_S,
    ) -> Topic:
        found = self._caller.call(
            lambda: self._node.topic(
                name, mode, config=config, contacts=contacts, join_within=join_within
            )
        )
        return Topic(found, self._caller)

    def statistics(self) -> Mapping[str, int | float]:
        return self._caller.call(self._node.statistics)

    def close(self) -> None:
        try:
            self._caller.wait(self._node.close)
        except Closed:
            return  # a second time
        self._caller.close()


class Topic:
    def __init__(self, topic: topic.Topic, caller: Caller) -> None:
        self._topic = topic
        self._caller = caller

    @property
    def name(self) -> str:
        return self._topic.name

    @property
    def mode(self) -> str:
        return self._topic.mode

    @property
    def state(self) -> topic.State:
        return self._topic.state

    def joined(self, timeout: float | None = None) -> None:
        self._caller.wait(lambda: self._topic.joined(timeout))

    def publish(self, payload: bytes, key: bytes = b"") -> int:
        return self._caller.wait(lambda: self._topic.publish(payload, key))

    def publish_many(
        self, payloads: Sequence[bytes] | EventBatch, keys: Sequence[bytes] | None = None
    ) -> int:
        return self._caller.wait(lambda: self._topic.publish_many(payloads, keys))

    def subscribe(
        self, *, early: float | None = None, window_bytes: int = DEFAULT_WINDOW_BYTES
    ) -> TopicSubscription:
        subscribed = self._caller.call(
            lambda: self._topic.subscribe(early=early, window_bytes=window_bytes)
        )
        return TopicSubscription(subscribed, self._caller)

    def statistics(self) -> Mapping[str, int | float]:
        return self._caller.call(self._topic.statistics)

    def pending(self) -> list[Pending]:
        return self._caller.call(self._topic.pending)

    def leave(self) -> None:
        self._caller.wait(self._topic.leave)

    def __enter__(self) -> Topic:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.leave()


class TopicSubscription(Closing):
    """Iterate, `get`, or read `batches`. Leaving a loop does not close it."""

    def __init__(self, subscribed: subscription.TopicSubscription, caller: Caller) -> None:
        self._subscription = subscribed
        self._caller = caller

    def __iter__(self) -> Iterator[TopicItem]:
        subscribed = self._subscription
        while True:
            yield from subscribed.at_hand()
            if not self._caller.wait(lambda: subscribed.load(None)):
                return

    def batches(self) -> Iterator[Queued]:
        while (batch := self.next_batch()) is not None:
            yield batch

    def next_batch(self, timeout: float | None = None) -> Queued | None:
        return self._caller.wait(lambda: self._subscription.next_batch(timeout))

    def get(self, timeout: float | None = None) -> TopicItem | None:
        item = next(self._subscription.at_hand(), None)
        return self._caller.wait(lambda: self._subscription.get(timeout)) if item is None else item

    @property
    def dropped(self) -> int:
        return self._subscription.dropped

    @property
    def closed(self) -> bool:
        return self._subscription.closed

    def close(self) -> None:
        self._caller.call(self._subscription.close)
