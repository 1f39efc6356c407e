"""The log of a proxy, as the owner of its streams.

What it follows of other regions it does not write down: its subscribers do, where it matters.

A proxy that is alone writes down what it has stored. A replica of a chain writes down what may be
shown, which no other replica can contradict: what only a head has stored may never have been. All
of them do, each in a log of its own, so that what one takes with it is in those of the others.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from epicast.core import EpicastError, EventBatch
from epicast.deployment import Geoplex, Region, Replica
from epicast.runtime.history_storage import HistoryStorage

if TYPE_CHECKING:
    from epicast.evidence import OwnerLog

log = logging.getLogger("epicast.geo")

_MOST_BYTES = 16 << 20
"""That are logged at once: more than is on its way between replicas. Whoever joins a chain may show
all it has copied at once, and others have logged that long ago."""
_MOST_PIECES = 1000
"""The same, of what has gaps: collected events are not copied."""


class ProxyEvidence:
    """`owns`: whether a stream is numbered here at the moment; streams can be moved."""

    def __init__(
        self, geoplex: Geoplex, region: Region, replica: Replica, owns: Callable[[int], bool]
    ) -> None:
        self._geoplex = geoplex
        self._region = region
        self._name = replica.name
        self._owns = owns
        self._dropped = {stream.id: 0 for stream in geoplex.streams.values()}
        """By stream, how far retention is known to have gone while it was owned."""
        self._logged: dict[int, int] = {}
        """By stream that is or was owned, the last number logged by this process or one before."""
        self._storage: HistoryStorage | None = None
        self._log: OwnerLog

    @classmethod
    def wanted(
        cls, geoplex: Geoplex, region: Region, replica: Replica, owns: Callable[[int], bool]
    ) -> ProxyEvidence | None:
        return cls(geoplex, region, replica, owns) if geoplex.evidence is not None else None

    def open(self, storage: HistoryStorage) -> None:
        """Once the histories are open. Takes a moment."""
        try:
            from epicast.evidence import (
                Facts,
                LogBounds,
                OwnerLog,
                Role,
                ends_of_earlier_logs,
                warm_up,
            )
            from epicast.evidence.schema import StreamFacts
        except ImportError as error:
            raise EpicastError(
                f"evidence needs pyarrow ({error}); install it with: "
                "pip install 'epicast[experiments]'"
            ) from error

        warm_up()

        section = self._geoplex.evidence
        assert section is not None
        root = Path(section.folder)
        self._logged = ends_of_earlier_logs(root, self._name)
        bounds = LogBounds(section.file_size_bytes, section.total_size_bytes)
        streams = {
            s.id: StreamFacts(s.name, s.owner, s.latest_per_key, s.last_n, s.max_age_ns)
            for s in self._geoplex.streams.values()
        }
        facts = Facts(
            role=Role.OWNER,
            name=self._name,
            region=self._region.name,
            geoplex=self._geoplex.name,
            run=f"{time.time_ns():016x}{secrets.token_hex(3)}",
            streams=streams,
        )
        self._log = OwnerLog(root, facts, bounds)
        self._storage = storage
        if not self._region.is_chain:
            self._make_up()
        self.keep_up()

    def _make_up(self) -> None:
        """What a process before has stored and was killed before it could log it. If the stream
        does not promise disk, it may have been shown and not logged: then nobody knows when."""
        assert self._storage is not None
        for stream in self._geoplex.streams.values():
            if stream.ack == "disk":
                self._log_stored(stream.id, self._storage.history(stream.id).end)

    def stored(self, batches: Sequence[EventBatch], durable: bool) -> None:
        """What is durable must not be lost to an audit when this process is killed."""
        if not self._owns(batches[0].stream):
            return
        newest = max(batch.epoch for batch in batches)
        for batch in batches:
            if batch.epoch == newest:
                self._log.stored(batch)
        if durable:
            self._log.flush()

    def shown(self, stream: int, end: int, batches: Sequence[EventBatch], news: bool) -> None:
        """By a replica, as its `Witness`: of an owned stream. News is written at once: if it was
        lost with this process, others would say that it was shown later than it was."""
        self._log_stored(stream, batches[0].first - 1 if batches else end)
        newest = list(_within(_MOST_BYTES, reversed(batches)))
        self._log_all(reversed(newest))
        self._logged[stream] = end
        if news:
            self._log.flush()

    def _log_stored(self, stream: int, last: int) -> None:
        """What is in the history behind what was logged, as far as that is known."""
        assert self._storage is not None
        first = self._logged.get(stream, last) + 1
        if first > last:
            return
        self._logged[stream] = last
        stored = self._storage.history(stream).read_stored(first, last)
        try:
            self._log_all(_within(_MOST_BYTES, stored))
        except (EpicastError, OSError) as error:
            log.warning("evidence of %s, %d to %d, is lost: %s", self._name, first, last, error)

    def _log_all(self, batches: Iterable[EventBatch]) -> None:
        pieces = _MOST_PIECES
        for batch in batches:
            if batch.tombstones:
                pieces -= self._log.left(batch, pieces)
            else:
                self._log.stored(batch)

    def keep_up(self) -> None:
        """Every now and then: write what is held back."""
        assert self._storage is not None
        for stream, before in self._dropped.items():
            history = self._storage.history(stream)
            if history.start - 1 > before and self._owns(stream):
                self._dropped[stream] = history.start - 1
                self._log.dropped(stream, history.epoch, history.start - 1)
        self._log.flush()

    def close(self, *, knows_all: bool) -> None:
        if self._storage is not None:
            self._log.close(knows_all=knows_all)


def _within(most_bytes: int, batches: Iterable[EventBatch]) -> Iterator[EventBatch]:
    """The first of some batches, at least one."""
    for batch in batches:
        yield batch
        most_bytes -= batch.wire_size()
        if most_bytes <= 0:
            return
