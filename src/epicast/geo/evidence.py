"""The log of a proxy, as the owner of its streams.

What it follows of other regions it does not write down: its subscribers do, where it matters.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from epicast.core import EpicastError, EventBatch
from epicast.deployment import Geoplex
from epicast.runtime.history_storage import HistoryStorage

if TYPE_CHECKING:
    from epicast.evidence import OwnerLog


class ProxyEvidence:
    def __init__(self, geoplex: Geoplex, region: str) -> None:
        self._geoplex = geoplex
        self._region = region
        self._dropped = {stream.id: 0 for stream in geoplex.streams_of(region)}
        """By stream that is owned, how far retention is known to have gone."""
        self._storage: HistoryStorage | None = None
        self._log: OwnerLog

    @classmethod
    def wanted(cls, geoplex: Geoplex, region: str) -> ProxyEvidence | None:
        return cls(geoplex, region) if geoplex.evidence is not None else None

    def open(self, storage: HistoryStorage) -> None:
        """Once the histories are open. Takes a moment."""
        try:
            from epicast.evidence import Facts, LogBounds, OwnerLog, Role, warm_up
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
        facts = Facts(
            role=Role.OWNER,
            name=self._region,
            region=self._region,
            geoplex=self._geoplex.name,
            run=secrets.token_hex(6),
            streams=streams,
        )
        self._log = OwnerLog(Path(section.folder), facts, bounds)
        self._storage = storage
        self.keep_up()

    def stored(self, batches: Sequence[EventBatch], durable: bool) -> None:
        """What is durable must not be lost to an audit when this process is killed."""
        if batches[0].stream not in self._dropped:
            return
        newest = max(batch.epoch for batch in batches)
        for batch in batches:
            if batch.epoch == newest:
                self._log.stored(batch)
        if durable:
            self._log.flush()

    def keep_up(self) -> None:
        """Every now and then: write what is held back."""
        assert self._storage is not None
        for stream, before in self._dropped.items():
            history = self._storage.history(stream)
            if history.start - 1 > before:
                self._dropped[stream] = history.start - 1
                self._log.dropped(stream, history.epoch, history.start - 1)
        self._log.flush()

    def close(self) -> None:
        if self._storage is not None:
            self._log.close()
