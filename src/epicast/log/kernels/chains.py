"""Lists of the events of one key, newest first, through one column of links."""

from __future__ import annotations

from typing import Any

import numpy as np

from epicast.log.kernels.compiling import compiled


@compiled
def walk(heads: Any, bound: Any, cut: Any, seqs: Any, links: Any, entries: Any, owners: Any) -> int:
    """The entries below `bound` of each chain, as many as there is room for; how many there are.

    With `cut` they are taken out of their chains. Entries and links count from 1; 0 is the end.
    """
    total = 0
    for chain in range(len(heads)):
        entry = np.int64(heads[chain])
        newer = np.int64(0)
        while entry and seqs[entry] >= bound:
            newer = entry
            entry = np.int64(links[entry])
        if cut:
            if newer:
                links[newer] = 0
            else:
                heads[chain] = 0
        while entry:
            if total < len(entries):
                entries[total] = entry
                owners[total] = chain
            total += 1
            entry = np.int64(links[entry])
    return total


@compiled
def relink(live: Any, links: Any, moved: Any) -> int:
    """Where each entry goes if only live ones stay: itself, or its newest live predecessor."""
    kept = 0
    moved[0] = 0
    for entry in range(1, len(live)):
        link = moved[links[entry]]
        if live[entry]:
            kept += 1
            links[kept] = link
            moved[entry] = kept
        else:
            moved[entry] = link
    return kept
