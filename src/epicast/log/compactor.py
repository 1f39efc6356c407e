"""When to compact, and how much of it at a time."""

from __future__ import annotations

from collections.abc import Callable

from epicast.log.compaction import Rewrite, choose
from epicast.log.config import LogConfig
from epicast.log.errors import LogError
from epicast.log.live import LiveSet
from epicast.log.segments import Segments

_LEAST_STEP = 64 << 10
"""Compaction inside appends waits until so many bytes of it are due."""


class Compactor:
    def __init__(
        self,
        segments: Segments,
        live: LiveSet,
        sync: Callable[[], int],
        taken: Callable[[], int],
        config: LogConfig,
    ) -> None:
        """`taken`: up to where it is known what is live."""
        self.rewrites = 0
        self.rewritten_bytes = 0
        self._segments = segments
        self._live = live
        self._sync = sync
        self._taken = taken
        self._config = config
        self._rewrite: Rewrite | None = None
        self._due = 0.0
        self._idle_since = -1
        """How many segments had been started when there was nothing to do."""

    def appended(self, count: int) -> None:
        """So many bytes were appended: do the share of compaction that goes with them."""
        self._due += count * self._config.compact_per_append
        if self._due < _LEAST_STEP or self._segments.files.pinned:
            return
        due, self._due = int(self._due), 0.0
        if self._segments.started == self._idle_since:
            return
        try:
            done = self.step(due)
        except LogError:
            done = 0  # an append that succeeded does not fail because of this
        if not done:
            self._idle_since = self._segments.started

    def step(self, max_bytes: int) -> int:
        """Go on with the rewrite under way, or start one; bytes read, 0 if none is worth it."""
        try:
            rewrite = self._rewrite or self._start()
            if rewrite is None:
                return 0
            done = rewrite.step(max_bytes, self._config.window_bytes)
            self.rewritten_bytes += done
            if rewrite.is_done:
                self._sync()
                rewrite.prepare()
        except OSError as error:
            self.abandon()
            raise self._segments.refusal(error) from error
        except LogError:
            self.abandon()
            raise
        if rewrite.is_done:
            self._rewrite = None
            self._segments.replace(rewrite)
            self.rewrites += 1
        return max(done, 1)

    def abandon(self) -> None:
        """Give up the rewrite under way: its sources changed, or there is no room for it."""
        rewrite, self._rewrite = self._rewrite, None
        if rewrite is not None:
            rewrite.abandon()

    def _start(self) -> Rewrite | None:
        taken = self._taken()
        sealed = [segment for segment in self._segments.sealed if segment.last <= taken]
        sources, size_hint = choose(sealed, self._live, self._config)
        if sources:
            self._rewrite = Rewrite(self._segments.files, sources, self._live)
            self._rewrite.begin(size_hint)
        return self._rewrite
