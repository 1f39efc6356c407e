"""Where histories part.

The numbers of a stream are given out by one head after another. Each notes from which number on it
did: two histories are the same up to where their lists of heads are.
"""

from __future__ import annotations

from collections.abc import Sequence

Lineage = tuple[tuple[int, int], ...]
"""Epochs of the chain and the first number each has given out, ascending."""
VOID: Lineage = ((-1, 0),)
"""Of a history that is about to be forgotten: it has nothing in common with any."""
_FIRST = (0, 1)
"""Before there was a chain."""
_MOST = 64
"""Who was away for more heads than this gets everything anew."""


def begun(lineage: Lineage, epoch: int, first: int) -> Lineage:
    """A new head gives out the numbers from `first` on."""
    kept = tuple(entry for entry in lineage if entry[0] < epoch and entry[1] < first)
    return (*kept, (epoch, first))[-_MOST:]


def common_end(one: Lineage, one_end: int, other: Lineage, other_end: int) -> int:
    """Up to which number two histories of these lengths are surely the same."""
    if VOID in (one, other):
        return 0
    shared = {_FIRST, *one} & {_FIRST, *other}
    last_shared = max(shared)
    return min(_end_of(one, one_end, last_shared), _end_of(other, other_end, last_shared))


def _end_of(lineage: Sequence[tuple[int, int]], end: int, entry: tuple[int, int]) -> int:
    """Where what was begun by `entry` ends."""
    following = [first for epoch, first in lineage if epoch > entry[0]]
    return min([end, *(first - 1 for first in following)])
