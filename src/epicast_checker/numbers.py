"""What one subscriber got of one stream, by sequence numbers alone: holes, repetitions, disorder.

A session begins where a subscription was opened or reset, and goes on from there in steps of one.
What is skipped is a hole; what comes although something later came before has filled a hole, and is
out of order, or was had already.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epicast_checker.format import Got
from epicast_checker.intervals import overlap, size, union

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]


class Numbering:
    def __init__(self) -> None:
        self.holes = self.duplicated = self.reordered = 0
        self.resets = self.sessions = self.unannounced = 0
        self.epoch = 0
        """Of the present session."""
        self.first_of_epoch = 0
        """The lowest number any session of this epoch began at."""
        self.high = 0
        """The highest number of this epoch there was."""
        self.closed = False
        """Whether it was there until the run was over."""
        self._session_high = 0
        self._gaps: list[tuple[I64, I64]] = []
        self._again: list[tuple[I64, I64]] = []
        self._begun = False

    def take(self, kinds: NDArray[np.uint8], epochs: U64, firsts: U64, lasts: U64) -> None:
        """Rows in the order they were written."""
        if not len(kinds):
            return
        begins = (kinds == Got.OPENED) | (kinds == Got.RESET)
        changes = np.append(0, np.diff(epochs.astype(np.int64))) != 0
        marks = begins | (kinds == Got.CLOSED) | (kinds == Got.LEFT) | changes
        # Stretches between marks hold nothing but numbers; there are few marks.
        cuts = np.unique(np.concatenate(([0], np.flatnonzero(marks), np.flatnonzero(marks) + 1)))
        for low, high in zip(cuts.tolist(), [*cuts[1:].tolist(), len(kinds)], strict=True):
            if low == high:
                continue
            kind = int(kinds[low])
            epoch, first = int(epochs[low]), int(firsts[low])
            if kind in (Got.OPENED, Got.RESET):
                self.resets += kind == Got.RESET
                self._begin(epoch, first)
            elif kind in (Got.CLOSED, Got.LEFT):
                self.closed = kind == Got.CLOSED
            else:
                self._follow_epoch(epoch, first)
                self._numbers(firsts[low:high].astype(np.int64), lasts[low:high].astype(np.int64))

    def finish(self) -> None:
        self._settle()

    def _begin(self, epoch: int, first: int) -> None:
        self._settle()
        self.sessions += 1
        self._begun = True
        self.closed = False
        self._session_high = first - 1
        self._enter(epoch, first)

    def _enter(self, epoch: int, first: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.first_of_epoch, self.high = epoch, first, first - 1
        else:
            self.first_of_epoch = min(self.first_of_epoch, first)

    def _follow_epoch(self, epoch: int, first: int) -> None:
        if not self._begun:  # its beginning is not in the log
            self._begin(epoch, first)
        elif epoch != self.epoch:
            if self.epoch == 0:  # whichever there was
                self.epoch = epoch
            else:
                self.unannounced += 1
                self._begin(epoch, first)

    def _numbers(self, firsts: I64, lasts: I64) -> None:
        self.closed = False
        reach = np.maximum.accumulate(np.append(self._session_high, lasts))
        before = reach[:-1]
        skips = firsts > before + 1
        if skips.any():
            self._gaps.append((before[skips] + 1, firsts[skips] - 1))
        back = firsts <= before
        if back.any():
            self._again.append((firsts[back], np.minimum(lasts[back], before[back])))
        self._session_high = int(reach[-1])
        self.high = max(self.high, self._session_high)

    def _settle(self) -> None:
        """What came back has filled holes once, and was had already otherwise."""
        if self._gaps or self._again:
            gaps = union(*_joined(self._gaps))
            again = _joined(self._again)
            filled = overlap(gaps, union(*again))
            self.reordered += filled
            self.duplicated += size(again) - filled
            self.holes += size(gaps) - filled
        self._gaps, self._again = [], []


def _joined(parts: list[tuple[I64, I64]]) -> tuple[I64, I64]:
    if not parts:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    firsts, lasts = zip(*parts, strict=True)
    return np.concatenate(firsts), np.concatenate(lasts)
