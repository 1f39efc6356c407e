"""Keys in order of popularity, into which new keys are put at any rank.

At first there are the original keys 1, 2, 3, …, as many as there may be, in this order. Inserted
keys are -1, -2, … in order of insertion; each moves those at and below its rank down by one. Only
inserted keys are stored, each with the number of original keys between it and the one before, so
that the set may be infinite. They lie in blocks in order of rank; a block that is full is cut in
two. Popular keys are near the front, where the search begins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epicast.log.kernels.compiling import compiled

Column = NDArray[np.int64]

BLOCK = 256
"""Keys per block. A search looks at every block before the one it ends in, then into that one."""


class _Blocks(NamedTuple):
    """Room for some blocks. `order` lists them by rank; the others are indexed by block."""

    order: Column
    sizes: Column
    """Keys in the block."""
    spans: Column
    """Ranks the block covers: its keys and the original ones before each of them."""
    gaps: Column
    """Per key: original keys between it and the key before."""
    keys: Column

    @classmethod
    def empty(cls, capacity: int) -> _Blocks:
        columns = [np.zeros(capacity, dtype=np.int64) for _ in range(3)]
        return cls(*columns, *(np.zeros((capacity, BLOCK), dtype=np.int64) for _ in range(2)))


class RankedKeys:
    def __init__(self) -> None:
        self.inserted = 0
        self._blocks = _Blocks.empty(16)
        self._used = np.ones(1, dtype=np.int64)
        """How many blocks there are; in an array, so that compiled code can change it."""

    def apply(self, ranks: Column, insertions: NDArray[np.bool_]) -> Column:
        """In order, put a new key at a rank or look up the key that is there; the keys."""
        new = int(np.count_nonzero(insertions))
        self._make_room(self._used.item(0) + new // (BLOCK // 2) + 2)
        found = np.empty(len(ranks), dtype=np.int64)
        _apply(ranks, insertions, self.inserted, self._used, *self._blocks, found)
        self.inserted += new
        return found

    def listed(self) -> tuple[Column, Column]:
        """The ranks of all inserted keys, ascending, and the keys."""
        blocks = self._blocks
        order = blocks.order[: self._used.item(0)]
        taken = np.arange(BLOCK) < blocks.sizes[order][:, np.newaxis]
        return np.cumsum(blocks.gaps[order][taken] + 1), blocks.keys[order][taken]

    def _make_room(self, blocks: int) -> None:
        if blocks > len(self._blocks.order):
            larger = _Blocks.empty(2 * blocks)
            used = self._used.item(0)
            for new, old in zip(larger, self._blocks, strict=True):
                new[:used] = old[:used]
            self._blocks = larger


@compiled
def _apply(
    ranks: Any, insertions: Any, inserted: Any, used: Any, order: Any, sizes: Any, spans: Any,
    gaps: Any, keys: Any, found: Any,
) -> None:  # fmt: skip
    for number in range(len(ranks)):
        rest = ranks[number]
        passed = 0
        place = 0
        block = order[0]
        while rest > spans[block] and place + 1 < used[0]:
            rest -= spans[block]
            passed += sizes[block]
            place += 1
            block = order[place]
        entry = 0
        while entry < sizes[block] and rest > gaps[block, entry] + 1:
            rest -= gaps[block, entry] + 1
            entry += 1
        if not insertions[number]:
            if entry < sizes[block] and rest == gaps[block, entry] + 1:
                found[number] = keys[block, entry]
            else:
                found[number] = ranks[number] - passed - entry
            continue
        inserted += 1
        found[number] = -inserted
        size = sizes[block]
        for moving in range(size, entry, -1):
            gaps[block, moving] = gaps[block, moving - 1]
            keys[block, moving] = keys[block, moving - 1]
        gaps[block, entry] = rest - 1
        keys[block, entry] = -inserted
        if entry < size:
            gaps[block, entry + 1] -= rest - 1
            spans[block] += 1
        else:
            spans[block] += rest
        sizes[block] = size + 1
        if size + 1 < gaps.shape[1]:
            continue
        half = (size + 1) // 2
        upper = used[0]
        used[0] += 1
        for moving in range(upper, place + 1, -1):
            order[moving] = order[moving - 1]
        order[place + 1] = upper
        sizes[upper] = size + 1 - half
        spans[upper] = 0
        for moving in range(half, size + 1):
            gaps[upper, moving - half] = gaps[block, moving]
            keys[upper, moving - half] = keys[block, moving]
            spans[upper] += gaps[block, moving] + 1
        sizes[block] = half
        spans[block] -= spans[upper]
