"""The last number of each publisher, of streams that are owned elsewhere.

Who takes a stream over has to recognise what is published again. Batches name their publishers; to
look at every one of them would be work per publication in every region, for something that hardly
ever happens. So they are put aside, and looked at many at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventBatch
from epicast.core.runs import run_table

_ASIDE = 4096
"""Runs of a stream that are put aside at most."""


class KnownPublishers:
    def __init__(self, most: int) -> None:
        """`most` publishers of each stream, the most recent ones."""
        self._most = most
        self._numbers: dict[int, dict[int, int]] = {}
        self._aside: dict[int, list[NDArray[np.uint64]]] = {}
        self._aside_runs: dict[int, int] = {}

    def observe(self, batch: EventBatch) -> None:
        runs = run_table(batch)
        if not len(runs):
            return
        stream = batch.stream
        self._aside.setdefault(stream, []).append(runs)
        count = self._aside_runs.get(stream, 0) + len(runs)
        self._aside_runs[stream] = count
        if count >= _ASIDE:
            self._look_at(stream)

    def numbers(self, stream: int) -> dict[int, int]:
        """By publisher, least recent first."""
        self._look_at(stream)
        return dict(self._numbers.get(stream, {}))

    def replace(self, stream: int, numbers: dict[int, int]) -> None:
        self.forget(stream)
        self._numbers[stream] = dict(numbers)

    def forget(self, stream: int) -> None:
        self._numbers.pop(stream, None)
        self._aside.pop(stream, None)
        self._aside_runs.pop(stream, None)

    def _look_at(self, stream: int) -> None:
        aside = self._aside.pop(stream, None)
        self._aside_runs.pop(stream, None)
        if aside is None:
            return
        publishers, firsts, counts = np.concatenate(aside)[::-1].T
        # Numbers of one publisher only grow: what counts is where it occurs last.
        _, places = np.unique(publishers, return_index=True)
        places = np.sort(places)[::-1]
        lasts = firsts[places] + counts[places] - np.uint64(1)
        known = self._numbers.setdefault(stream, {})
        for publisher, last in zip(publishers[places].tolist(), lasts.tolist(), strict=True):
            if publisher:  # 0: it is not known any more who it was
                known[publisher] = max(last, known.pop(publisher, 0))
        while len(known) > self._most:
            del known[next(iter(known))]
