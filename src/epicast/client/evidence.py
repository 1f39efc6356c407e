"""What an application's node writes down for an audit: what it was told is stored, what it got."""

from __future__ import annotations

import os
import re
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epicast.client.items import Reset, Watermark
from epicast.core import EpicastError, EventBatch
from epicast.protocols.sprinkler.messages import StreamInfo
from epicast.runtime.waiting import Bell, Task, end_task, in_thread, spawn

if TYPE_CHECKING:
    from epicast.evidence import PublisherLog, SubscriberLog

_FLUSH_EVERY_S = 0.5
_NOT_FOR_FILES = re.compile(r"[^A-Za-z0-9_.-]+")


class NodeEvidence:
    """Logs are begun when there is something to write."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self._folder = folder
        self._name = _NOT_FOR_FILES.sub("-", name or f"{socket.gethostname()}-{os.getpid()}")
        self._run = secrets.token_hex(6)
        self._who: dict[str, Any] = {}
        self._publisher: PublisherLog | None = None
        self._subscriber: SubscriberLog | None = None
        self._flushing: Task[None] | None = None

    async def start(self, geoplex: str, region: str, streams: list[StreamInfo]) -> None:
        """Once the node is attached; takes a moment the first time in a process."""
        try:
            from epicast.evidence import warm_up
            from epicast.evidence.schema import StreamFacts
        except ImportError as error:
            raise EpicastError(
                "evidence needs pyarrow and numba; install them with: "
                "pip install 'epicast[experiments,server]'"
            ) from error

        await in_thread(warm_up)
        facts = {
            info.id: StreamFacts(
                info.name, info.region, info.latest_per_key, info.last_n, info.max_age_ns
            )
            for info in streams
        }
        self._who = {"geoplex": geoplex, "region": region, "streams": facts}
        self._flushing = spawn(self._keep_flushing())

    async def close(self) -> None:
        if self._flushing is not None:
            await end_task(self._flushing)
        for log in (self._publisher, self._subscriber):
            if log is not None:
                log.close()

    async def _keep_flushing(self) -> None:
        while True:
            await Bell().wait(_FLUSH_EVERY_S)
            for log in (self._publisher, self._subscriber):
                if log is not None:
                    log.flush()

    # -- what happens ----------------------------------------------------------------------------

    def sent(self, batch: EventBatch) -> tuple[int, int]:
        return self._publications().sent(batch)

    def acknowledged(
        self,
        place: tuple[int, int],
        publisher: int,
        first: int,
        count: int,
        below: int,
        sent: tuple[int, int],
    ) -> None:
        """`place`: stream and epoch."""
        self._publications().acknowledged(*place, publisher, first, count, below, sent)

    def opened(self, number: int, stream: int, place: Watermark) -> None:
        self._subscriptions().opened(number, stream, place.epoch, place.seq + 1)

    def handed_out(self, number: int, stream: int, item: EventBatch | Reset) -> None:
        if isinstance(item, EventBatch):
            self._subscriptions().delivered(number, item)
        else:
            place = item.watermark
            self._subscriptions().reset(number, stream, place.epoch, place.seq + 1)

    def closed(self, number: int, stream: int, place: Watermark) -> None:
        self._subscriptions().closed(number, stream, place.epoch, place.seq)

    def _publications(self) -> PublisherLog:
        if self._publisher is None:
            from epicast.evidence import Facts, PublisherLog, Role

            facts = Facts(role=Role.PUBLISHER, name=self._name, run=self._run, **self._who)
            self._publisher = PublisherLog(self._folder, facts)
        return self._publisher

    def _subscriptions(self) -> SubscriberLog:
        if self._subscriber is None:
            from epicast.evidence import Facts, Role, SubscriberLog

            facts = Facts(role=Role.SUBSCRIBER, name=self._name, run=self._run, **self._who)
            self._subscriber = SubscriberLog(self._folder, facts)
        return self._subscriber
