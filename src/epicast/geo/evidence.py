"""The logs of a proxy: as the owner of its streams, and as one that follows the others."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epicast.core import EpicastError, EventBatch
from epicast.deployment import Geoplex
from epicast.runtime.history_storage import HistoryStorage

if TYPE_CHECKING:
    from epicast.evidence import OwnerLog, SubscriberLog


class ProxyEvidence:
    """Following another region's stream is a subscription here, numbered from 1."""

    def __init__(self, geoplex: Geoplex, region: str) -> None:
        self._geoplex = geoplex
        self._region = region
        self._owned = {stream.id for stream in geoplex.streams_of(region)}
        followed = sorted(s.id for s in geoplex.streams.values() if s.id not in self._owned)
        self._numbers = {stream: number for number, stream in enumerate(followed, 1)}
        self._places: dict[int, tuple[int, int]] = {}
        """Epoch and last number of what is stored, by stream."""
        self._dropped: dict[int, int] = {}
        self._storage: HistoryStorage | None = None
        self._owner: OwnerLog
        self._subscriber: SubscriberLog

    @classmethod
    def wanted(cls, geoplex: Geoplex, region: str) -> ProxyEvidence | None:
        return cls(geoplex, region) if geoplex.evidence is not None else None

    def open(self, storage: HistoryStorage) -> None:
        """Once the histories are open. Takes a moment."""
        try:
            from epicast.evidence import Facts, LogBounds, OwnerLog, Role, SubscriberLog, warm_up
            from epicast.evidence.schema import StreamFacts
        except ImportError as error:
            raise EpicastError(
                f"evidence needs pyarrow ({error}); install it with: "
                "pip install 'epicast[experiments]'"
            ) from error

        warm_up()

        section = self._geoplex.evidence
        assert section is not None
        bounds = LogBounds(section.file_size_bytes, section.total_size_bytes)
        streams = {
            s.id: StreamFacts(s.name, s.owner, s.latest_per_key, s.last_n, s.max_age_ns)
            for s in self._geoplex.streams.values()
        }
        who: dict[str, Any] = {
            "region": self._region,
            "geoplex": self._geoplex.name,
            "run": secrets.token_hex(6),
            "streams": streams,
        }
        root = Path(section.folder)
        owner = Facts(role=Role.OWNER, name=self._region, **who)
        follower = Facts(role=Role.SUBSCRIBER, name=f"proxy-{self._region}", **who)
        self._owner = OwnerLog(root, owner, bounds)
        self._subscriber = SubscriberLog(root, follower, bounds)
        self._storage = storage
        for stream in streams:
            history = storage.history(stream)
            self._places[stream] = history.epoch, history.stable_end
            if stream in self._numbers:
                self._subscriber.opened(
                    self._numbers[stream], stream, history.epoch, history.stable_end + 1
                )
            else:
                self._dropped[stream] = 0
        self.keep_up()

    def stored(self, batches: Sequence[EventBatch], durable: bool) -> None:
        """What is durable must not be lost to an audit when this process is killed."""
        stream = batches[0].stream
        newest = max(batch.epoch for batch in batches)
        current = [batch for batch in batches if batch.epoch == newest]
        if stream in self._owned:
            for batch in current:
                self._owner.stored(batch)
            if durable:
                self._owner.flush()
            return
        number = self._numbers[stream]
        epoch, _ = self._places[stream]
        if newest != epoch:
            self._subscriber.reset(number, stream, newest, current[0].first)
        for batch in current:
            self._subscriber.delivered(number, batch)
        self._places[stream] = newest, current[-1].last

    def keep_up(self) -> None:
        """Every now and then: write what is held back."""
        assert self._storage is not None
        for stream, before in self._dropped.items():
            history = self._storage.history(stream)
            if history.start - 1 > before:
                self._dropped[stream] = history.start - 1
                self._owner.dropped(stream, history.epoch, history.start - 1)
        self._owner.flush()
        self._subscriber.flush()

    def close(self) -> None:
        if self._storage is None:
            return
        for stream, number in self._numbers.items():
            epoch, last = self._places[stream]
            self._subscriber.closed(number, stream, epoch, last)
        self._owner.close()
        self._subscriber.close()
