"""A node of an application: one connection to a proxy, many streams and subscriptions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import Any
from weakref import WeakSet

from epicast.client.edges import Driver, Edge
from epicast.client.errors import (
    AccessDenied,
    Closed,
    ConnectFailed,
    PublishRefused,
    UnknownStream,
)
from epicast.client.evidence import NodeEvidence
from epicast.client.feed import Feed
from epicast.client.items import BEGINNING, Watermark
from epicast.client.outbox import Outbox
from epicast.client.publishing import PublishLimits
from epicast.client.reading import Reading
from epicast.client.stream import Stream
from epicast.client.subscription import Subscription
from epicast.client.topics.peer import PeerNode
from epicast.client.topics.topic import JOIN_WITHIN_S, Topic
from epicast.client.watermarks import Following, WatermarkFile
from epicast.core import Config, EpicastError, EventBatch, NodeId, Peer, Publication
from epicast.deployment.addresses import Address
from epicast.deployment.naming import not_among
from epicast.protocols.sprinkler.messages import Counter, StreamInfo
from epicast.protocols.sprinkler.notices import (
    Attached,
    Detached,
    Heads,
    NoSuchStream,
    NotAllowed,
    Restarted,
)
from epicast.runtime.messages import DeclineCode, Declined
from epicast.runtime.waiting import Bell, end_task, in_thread, spawn


class Node:
    """Made by `connect`. Loses its proxy and finds it again by itself: what was published is sent
    again, subscriptions go on where they were."""

    def __init__(
        self, publisher: int, limits: PublishLimits, evidence: NodeEvidence | None = None
    ) -> None:
        self.publisher = publisher
        """Its id as a publisher, by which owners recognise what they were sent twice."""
        self.geoplex = ""
        """The name of the geoplex it belongs to."""
        self._limits = limits
        self._evidence = evidence
        self._driver: Driver
        self._edge: Edge
        self._outbox: Outbox
        self._watch: Any = None
        self._attached: Attached | None = None
        self._detached = ""
        self._tried: dict[Address, str] = {}
        """Where it could not attach since it was attached last, and why."""
        self._news = Bell()
        """Rings at every notice about the proxy, and at the end."""
        self._over: EpicastError | None = None
        self._numbers = count(1)
        self._feeds: dict[int, Feed] = {}
        self._followings: WeakSet[Following] = WeakSet()
        self._streams: dict[int, Stream] = {}
        self._heads: dict[int, Watermark] = {}
        self._asked_at = 0
        self._reattached = 0
        self._peer: PeerNode | None = None
        self.make_peer: Callable[[], PeerNode]
        """For topics, the first time there is one; set by who knows how it connects."""

    def run_on(self, driver: Driver, edge: Edge) -> None:
        """The driver runs, with this node's `on_*` methods as its callbacks."""
        self._driver = driver
        self._edge = edge
        self._outbox = Outbox(driver, self.publisher)
        self._watch = spawn(self._watch_driver())

    # -- what there is ---------------------------------------------------------------------------

    @property
    def region(self) -> str:
        """Where the proxy is."""
        return self._attached.region if self._attached is not None else ""

    @property
    def at_sidecar(self) -> bool:
        """Whether it is attached to a sidecar agent instead of the proxy itself."""
        return self._attached is not None and self._attached.is_sidecar

    @property
    def attached(self) -> bool:
        """Whether the proxy can be reached at the moment."""
        return self._attached is not None and not self._detached and self._over is None

    def streams(self) -> list[StreamInfo]:
        """The streams there are, by name."""
        infos = self._attached.streams if self._attached is not None else ()
        return sorted(infos, key=lambda info: info.name)

    def stream(self, name: str, *, first_sequence: int | None = None) -> Stream:
        """A stream by its name; raises `UnknownStream`, which names those there are.

        `first_sequence`, for an application that chose its `publisher` id: the publisher's own
        number of the first event it is going to publish, 1 unless it has published before.
        """
        self._raise_over()
        for info in self.streams():
            if info.name == name:
                break
        else:
            raise UnknownStream(not_among("stream", name, [info.name for info in self.streams()]))
        stream = self._streams.get(info.id)
        if stream is None:
            first = 1 if first_sequence is None else first_sequence
            stream = Stream(self, info, self._outbox, first, self._limits, self._evidence)
            self._streams[info.id] = stream
        elif first_sequence is not None and first_sequence != stream.next_sequence:
            raise PublishRefused(
                "GAP", f"{name!r} is in use here and continues at {stream.next_sequence}"
            )
        return stream

    def topic(
        self,
        name: str,
        mode: str | None = None,
        *,
        config: Config | None = None,
        contacts: Sequence[str] = (),
        join_within: float | None = JOIN_WITHIN_S,
    ) -> Topic:
        """Join a topic among peers, through any of `contacts`, in the background. The proxy has no
        part in it: for its topics the node listens on a port of its own (see `epicast.join`). If
        nobody in the topic was heard of within `join_within` seconds, it ends with `JoinFailed`."""
        self._raise_over()
        if self._peer is None:
            self._peer = self.make_peer()
        return self._peer.topic(
            name, mode, config=config, contacts=contacts, join_within=join_within
        )

    def statistics(self) -> Mapping[str, int | float]:
        """Counters of the connection and the protocol, and what is held here."""
        return {
            **self._driver.statistics(),
            **self._edge.statistics(),
            "reattached": self._reattached,
            "open_subscriptions": len(self._feeds),
            "unacknowledged_events": sum(s.unacknowledged for s in self._streams.values()),
            "refused_events": sum(s.refused for s in self._streams.values()),
        }

    # -- life ------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self._watch is not None

    async def wait_attached(self, timeout: float, addresses: Sequence[Address]) -> None:
        """Raises `ConnectFailed`, which says what came of each address, after `timeout` seconds."""
        if self._attached is None and not await self._news.wait(max(0.0, timeout)):
            tried = (f"{each}: {self._tried.get(each, 'no welcome yet')}" for each in addresses)
            raise ConnectFailed(
                f"no node answers as a proxy would ({'; '.join(tried)}): check that each address "
                "is that of a proxy or a sidecar agent, and that it is not overloaded"
            )
        self._raise_over()

    async def close(self) -> None:
        """End everything in good order. What was published without waiting may still be on its
        way: `await stream.flush()` before."""
        first = self._over is None
        self._end(Closed("the node was closed"))
        try:
            for following in list(self._followings):
                await in_thread(following.close)
        finally:
            await self._stop(first)

    async def _stop(self, first: bool) -> None:
        if first:
            await end_task(self._watch)
        if self._peer is not None:
            await self._peer.close()
        await self._driver.stop()
        if self._evidence is not None:
            await self._evidence.close()

    async def __aenter__(self) -> Node:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _watch_driver(self) -> None:
        try:
            await self._driver.wait()
            self._end(Closed("the node was stopped"))
        except Exception as error:
            self._end(Closed(f"the node failed: {error!r}"))

    def _end(self, error: EpicastError) -> None:
        if self._over is None:
            self._over = error
            for feed in list(self._feeds.values()):
                feed.end(error)
            for stream in self._streams.values():
                stream.close(error)
            self._news.ring()

    def _raise_over(self) -> None:
        if self._over is not None:
            raise self._over

    # -- for streams -----------------------------------------------------------------------------

    def open_subscription(
        self,
        info: StreamInfo,
        start: Watermark,
        *,
        tombstones: bool,
        window_bytes: int,
        resume: WatermarkFile | None,
        save_every: float,
    ) -> Subscription:
        self._raise_over()
        if resume is not None:
            start = resume.begin(info.name, start)
        number = next(self._numbers)
        self._edge.subscribe(number, info.id, start.epoch, start.seq, window_bytes)
        self._driver.wake()
        feed = self._feeds[number] = Feed(
            number, info, start, window_bytes, self._edge, self._driver, self._forget_feed
        )
        if self._evidence is not None:
            epoch = start.epoch or self.known_head(info.id).epoch
            feed.note_all(self._evidence, Watermark(epoch, start.seq))
        reading = Reading(start, tombstones=tombstones)
        following = None
        if resume is not None:
            following = resume.follow(info.name, lambda: reading.watermark, save_every)
            self._followings.add(following)
        return Subscription(feed, reading, following)

    def _forget_feed(self, number: int) -> None:
        self._feeds.pop(number, None)

    def known_head(self, stream: int) -> Watermark:
        """As far as this node has heard."""
        return self._heads.get(stream, BEGINNING)

    async def fresh_head(self, stream: int, timeout: float | None) -> Watermark:
        """As far as the proxy was after this was called."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._raise_over()
        asked = time.monotonic_ns()
        self._edge.ask()
        self._driver.wake()
        while self._asked_at < asked:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not await self._news.wait(left):
                raise ConnectFailed(
                    f"the proxy did not answer within {timeout:g} seconds "
                    f"({self._detached or 'it is silent'})"
                )
            self._raise_over()
        return self.known_head(stream)

    # -- what the driver calls -------------------------------------------------------------------

    def on_topic_delivery(self, number: int, batch: EventBatch) -> None:
        feed = self._feeds.get(number)
        if feed is not None:
            feed.receive(batch)

    def on_acknowledge(self, publication: Publication, level: str, seq: int) -> None:
        stream = self._streams.get(publication.batch.stream)
        if stream is not None:
            epoch = self.known_head(publication.batch.stream).epoch
            stream.on_acknowledged(publication.first, seq, epoch)
        self._outbox.pump()

    def on_refuse(self, publication: Publication, error: str) -> None:
        stream = self._streams.get(publication.batch.stream)
        if stream is not None:
            stream.on_refused(publication.first, PublishRefused.from_text(error))
        self._outbox.pump()

    def on_declined(self, _: NodeId, message: Declined) -> None:
        """The proxy does not let this node in: for good, or until there is room again."""
        if message.code is DeclineCode.IDENTITY:
            self._end(AccessDenied(f"the proxy refuses this node: {message.reason}"))
        else:
            self._detached = message.reason

    def on_replaced(self, former: NodeId, found: Peer) -> None:
        """Another node answers at an address, such as a sidecar that was started again."""
        self._edge.replace_proxy(former, found)
        self._driver.wake()

    def on_notice(self, number: int, value: object) -> None:
        if isinstance(value, Attached):
            self._reattached += self._attached is not None
            self._attached = value
            self._detached = ""
            self._tried.clear()
            self._take_heads(value.heads)
        elif isinstance(value, Heads):
            self._take_heads(value.heads)
            self._asked_at = value.asked_at
            self._note_heartbeat(value)
        elif isinstance(value, Detached):
            self._detached = self._detached or value.reason
            self._tried[Address(value.proxy.host, value.proxy.port)] = value.reason
            return
        elif (feed := self._feeds.get(number)) is None:
            return
        elif isinstance(value, Restarted):
            feed.restart(value)
            return
        elif isinstance(value, NotAllowed):
            feed.close(AccessDenied(value.detail))
            return
        elif isinstance(value, NoSuchStream):
            names = [info.name for info in self.streams()]
            feed.close(UnknownStream(not_among("stream", feed.info.name, names)))
            return
        self._news.ring()

    def _take_heads(self, counters: tuple[Counter, ...]) -> None:
        for counter in counters:
            self._heads[counter.stream] = Watermark(counter.epoch, counter.seq)

    def _note_heartbeat(self, heads: Heads) -> None:
        by_stream = {counter.stream: counter for counter in heads.heads}
        for feed in self._feeds.values():
            counter = by_stream.get(feed.info.id)
            if counter is not None:
                feed.freshness.heard(heads.asked_at, Watermark(counter.epoch, counter.seq))
