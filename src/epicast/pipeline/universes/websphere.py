"""Cells like the WebSphere cell that Gossip Objects was driven with.

Of the trace is known (section 4.1): 127 nodes in 30 application clusters, 1,364 topics; 26 topics
have 121 nodes or more, the others ten at most, and memberships are strongly correlated. Here the
large ones have 121 to 127 nodes at random, and each of the others belongs to a cluster: it has two
to ten of the nodes from its first one on, fewer rather than more. A universe has as many such cells
as it has users for; the last may be incomplete.

With these sizes a node cannot be in the 474 topics the trace is said to have on average, but in
about 77: all but 26 topics being that small leaves room for 131 at most.
"""

from __future__ import annotations

import numpy as np

from epicast.pipeline.universes.grid import Edges
from epicast.pipeline.universes.spec import CELL_TOPICS, CELL_USERS, UniverseSpec

_LARGE = 26
_LARGE_LEAST = 121
_SMALL_LEAST, _SMALL_MOST = 2, 10
_CLUSTERS = 30


def websphere_edges(spec: UniverseSpec, chunk: int) -> Edges:
    """Users and topics of a chunk of cells, in order."""
    cells = spec.chunk_users // CELL_USERS
    made = [
        _cell(spec, cell) for cell in range(chunk * cells, min((chunk + 1) * cells, spec.cells))
    ]
    user, topic = (np.concatenate(columns) for columns in zip(*made, strict=True))
    kept = user < spec.users
    return user[kept], topic[kept]


def _cell(spec: UniverseSpec, cell: int) -> Edges:
    rng = np.random.default_rng([spec.seed, cell])
    member = np.zeros((CELL_USERS, CELL_TOPICS), dtype=np.bool_)
    absent = rng.integers(0, CELL_USERS - _LARGE_LEAST + 1, _LARGE)
    places = rng.random((CELL_USERS, _LARGE)).argsort(axis=0).argsort(axis=0)
    member[:, :_LARGE] = places >= absent
    sizes = np.arange(_SMALL_LEAST, _SMALL_MOST + 1)
    weights = 1 / sizes
    small = rng.choice(sizes, CELL_TOPICS - _LARGE, p=weights / weights.sum())
    first = rng.integers(0, _CLUSTERS, len(small)) * CELL_USERS // _CLUSTERS
    # Of the ten nodes from the first of the cluster on, `size` at random.
    chosen = rng.random((_SMALL_MOST, len(small))).argsort(axis=0).argsort(axis=0) < small
    offset, at = np.nonzero(chosen)
    member[(first[at] + offset) % CELL_USERS, _LARGE + at] = True
    user, topic = np.nonzero(member)
    return user + cell * CELL_USERS, topic + cell * CELL_TOPICS
