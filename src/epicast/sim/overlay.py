"""The shape of an overlay: is it one piece, how far apart are its nodes, how alike are they.

A graph is given as neighbour lists per node and held as two arrays (compressed sparse rows), on
which every metric is a handful of numpy passes: 100,000 nodes take seconds. Distances are
measured for 64 sources at a time, one bit each. Connectivity and degrees follow the direction of
links; distances too; clustering is that of the graph without directions, as in the papers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, pairwise

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Ints = NDArray[np.int64]

EXACT_NODES = 2048
"""Up to this many nodes path lengths are measured from every node, beyond from a sample."""
_WEDGES_AT_ONCE = 1 << 22


class Degrees(Struct, frozen=True):
    mean: float
    deviation: float
    minimum: int
    median: float
    maximum: int
    histogram: dict[int, int]
    """Nodes by degree; degrees that nobody has are left out."""


class PathLengths(Struct, frozen=True):
    mean: float
    """Hops of the shortest path, over all ordered pairs that have one; 0 if none has."""
    diameter: int
    """The longest of them; if not `exact`, the longest that was met: the true one may be longer."""
    reachable: float
    """Share of the pairs looked at that have a path."""
    sources: int
    """Nodes that paths were measured from."""
    exact: bool
    """Whether that was all of them."""


class OverlayMetrics(Struct, frozen=True):
    nodes: int
    links: int
    dangling: int
    """Links to nodes that are not there, left out of everything else."""
    symmetric: float
    """Share of the links that exist in both directions; 1 if there is no link."""
    connected: bool
    """One piece, directions ignored."""
    largest_component: float
    """Share of the nodes in the largest such piece; 0 if there is no node."""
    strongly_connected: bool
    """Everybody reaches everybody along the links."""
    largest_strong_component: float
    out_degree: Degrees
    in_degree: Degrees
    clustering: float
    """Mean over the nodes of the share of pairs of neighbours that are neighbours themselves."""
    paths: PathLengths


class Overlay:
    """Build with `from_views`. Nodes are numbered by ascending id; `ids` translates."""

    def __init__(
        self, ids: NDArray[np.uint64], sources: Ints, targets: Ints, dangling: int = 0
    ) -> None:
        """`sources` and `targets` are positions in `ids`; repeated links and loops are dropped."""
        self.ids = ids
        self.dangling = dangling
        self.nodes = len(ids)
        keys = np.unique(sources * self.nodes + targets)
        keys = keys[keys // max(1, self.nodes) != keys % max(1, self.nodes)]
        self._keys = keys
        """Each link as one number, sorted: source * nodes + target."""
        self.sources, self.targets = np.divmod(keys, max(1, self.nodes))
        self._starts = _row_starts(self.sources, self.nodes)

    @classmethod
    def from_views(cls, views: Mapping[int, Iterable[int]]) -> Overlay:
        """From each node's neighbours; a neighbour that is no key of `views` does not exist."""
        ids = np.array(sorted(views), dtype=np.uint64)
        lists = [list(views[node]) for node in ids.tolist()]
        sources = np.repeat(np.arange(len(ids)), [len(neighbors) for neighbors in lists])
        named = np.fromiter(chain.from_iterable(lists), dtype=np.uint64, count=len(sources))
        places = np.searchsorted(ids, named)
        present = np.zeros(len(named), dtype=bool)
        inside = places < len(ids)
        present[inside] = ids[places[inside]] == named[inside]
        dangling = int(len(named) - present.sum())
        return cls(ids, sources[present], places[present], dangling)

    def reversed(self) -> Overlay:
        return Overlay(self.ids, self.targets, self.sources)

    def undirected(self) -> Overlay:
        """With every link in both directions."""
        both = np.concatenate((self.sources, self.targets))
        return Overlay(self.ids, both, np.concatenate((self.targets, self.sources)))

    def out_degrees(self) -> Ints:
        return np.diff(self._starts)

    def in_degrees(self) -> Ints:
        return np.bincount(self.targets, minlength=self.nodes)

    def symmetric_share(self) -> float:
        """Share of the links that exist in the other direction too."""
        if not len(self._keys):
            return 1.0
        return float(self._has_links(self.targets, self.sources).mean())

    def components(self) -> Ints:
        """A label per node, equal where there is a path if directions are ignored.

        Every node points to the smallest label among itself and its neighbours, and labels are
        followed to their own labels until nothing changes: few rounds, whatever the shape.
        """
        labels = np.arange(self.nodes)
        while True:
            low = np.minimum(labels[self.sources], labels[self.targets])
            before = labels.copy()
            # Lower the label of the label too, so that whole pieces merge at once.
            for ends in (labels[self.sources], labels[self.targets]):
                np.minimum.at(labels, ends, low)
            while not np.array_equal(labels, labels[labels]):
                labels = labels[labels]
            if np.array_equal(labels, before):
                return labels

    def largest_strong_component(self) -> int:
        """Nodes in the largest set whose members all reach each other along the links.

        What a node reaches and is reached by is its component. Nodes that are not in a cycle are
        pruned first, and the search ends when fewer nodes are left than the largest so far.
        """
        backwards = self.reversed()
        left = np.ones(self.nodes, dtype=bool)
        remaining = self.nodes - self._prune(left)
        largest = min(1, self.nodes)
        for pivot in np.argsort(-(self.out_degrees() * self.in_degrees()), kind="stable"):
            if remaining <= largest:
                break
            if not left[pivot]:
                continue
            ahead, behind = self._reach(pivot, left), backwards._reach(pivot, left)
            component = np.intersect1d(ahead, behind, assume_unique=True)
            left[component] = False
            remaining -= len(component)
            largest = max(largest, len(component))
        return largest

    def clustering(self) -> float:
        """Mean local clustering coefficient of the graph without directions.

        Each triangle is found once, from its node of least degree: a link is followed only from the
        lesser to the greater end, and pairs of such links are looked up.
        """
        if not self.nodes:
            return 0.0
        graph = self.undirected()
        degrees = graph.out_degrees()
        rank = np.empty(self.nodes, dtype=np.int64)
        rank[np.lexsort((np.arange(self.nodes), degrees))] = np.arange(self.nodes)
        upward = rank[graph.sources] < rank[graph.targets]
        sources, targets = graph.sources[upward], graph.targets[upward]
        ends = _row_starts(sources, self.nodes)[1:][sources]  # one past each source's last link
        partners = ends - np.arange(len(sources)) - 1  # later links of the same source
        triangles = np.zeros(self.nodes, dtype=np.int64)
        wedges = np.cumsum(partners)
        total = int(wedges[-1]) if len(wedges) else 0
        cuts = np.searchsorted(wedges, np.arange(_WEDGES_AT_ONCE, total, _WEDGES_AT_ONCE))
        for low, high in pairwise((0, *cuts.tolist(), len(sources))):
            links = np.arange(low, high)
            first = np.repeat(links, partners[links])
            second = first + 1 + _ramp(partners[links])
            found = graph._has_links(targets[first], targets[second])
            first, second = first[found], second[found]
            for corner in (sources[first], targets[first], targets[second]):
                triangles += np.bincount(corner, minlength=self.nodes)
        pairs = degrees * (degrees - 1) / 2
        return float(np.divide(triangles, pairs, out=np.zeros(self.nodes), where=pairs > 0).mean())

    def path_lengths(self, seed: int = 0, sample_sources: int = 256) -> PathLengths:
        """Along the links, from every node, or from a seeded sample if there are many."""
        exact = self.nodes <= EXACT_NODES
        starts = np.arange(self.nodes)
        if not exact:
            starts = np.random.default_rng(seed).choice(
                starts, min(sample_sources, self.nodes), replace=False
            )
        total = reached = diameter = 0
        incoming = self.reversed()
        for low in range(0, len(starts), 64):
            for hops, new in enumerate(incoming._waves(starts[low : low + 64]), start=1):
                total += hops * new
                reached += new
                diameter = max(diameter, hops)
        pairs = len(starts) * (self.nodes - 1)
        return PathLengths(
            mean=total / reached if reached else 0.0,
            diameter=diameter,
            reachable=reached / pairs if pairs else 1.0,
            sources=len(starts),
            exact=exact,
        )

    def measure(self, seed: int = 0) -> OverlayMetrics:
        sizes = np.bincount(self.components()) if self.nodes else np.zeros(1, dtype=np.int64)
        weak, strong = int(sizes.max()), self.largest_strong_component()
        return OverlayMetrics(
            nodes=self.nodes,
            links=len(self._keys),
            dangling=self.dangling,
            symmetric=self.symmetric_share(),
            connected=weak == self.nodes,
            largest_component=weak / max(1, self.nodes),
            strongly_connected=strong == self.nodes,
            largest_strong_component=strong / max(1, self.nodes),
            out_degree=_describe(self.out_degrees()),
            in_degree=_describe(self.in_degrees()),
            clustering=self.clustering(),
            paths=self.path_lengths(seed),
        )

    def _has_links(self, sources: Ints, targets: Ints) -> NDArray[np.bool_]:
        wanted = sources * self.nodes + targets
        places = np.searchsorted(self._keys, wanted)
        places[places == len(self._keys)] = 0
        return np.asarray(self._keys[places] == wanted)

    def _prune(self, left: NDArray[np.bool_]) -> int:
        """Strike off nodes without a link in or out among those left, until none is; how many."""
        struck = 0
        while True:
            live = left[self.sources] & left[self.targets]
            outgoing = np.bincount(self.sources[live], minlength=self.nodes)
            incoming = np.bincount(self.targets[live], minlength=self.nodes)
            lone = left & ((outgoing == 0) | (incoming == 0))
            if not lone.any():
                return struck
            struck += int(lone.sum())
            left[lone] = False

    def _reach(self, start: int, left: NDArray[np.bool_]) -> Ints:
        """The nodes left that can be reached from `start`, itself included."""
        seen = ~left
        seen[start] = True
        frontier = np.array([start])
        reached = [frontier]
        while len(frontier):
            counts = self._starts[frontier + 1] - self._starts[frontier]
            rows = np.repeat(self._starts[frontier], counts) + _ramp(counts)
            frontier = np.unique(self.targets[rows])
            frontier = frontier[~seen[frontier]]
            seen[frontier] = True
            reached.append(frontier)
        return np.concatenate(reached)

    def _waves(self, starts: Ints) -> Iterable[int]:
        """How many (start, node) pairs are 1, 2, … hops apart, where this graph's links point from
        a node to those it is reached *from*. Bit i of a node's word: start i has reached it."""
        seen = np.zeros(self.nodes, dtype=np.uint64)
        np.bitwise_or.at(seen, starts, np.uint64(1) << np.arange(len(starts), dtype=np.uint64))
        linked = np.flatnonzero(np.diff(self._starts))
        frontier = seen.copy()
        while len(linked):
            gathered = np.bitwise_or.reduceat(frontier[self.targets], self._starts[linked])
            frontier = np.zeros_like(seen)
            frontier[linked] = gathered & ~seen[linked]
            new = int(np.bitwise_count(frontier).sum())
            if not new:
                return
            yield new
            seen |= frontier


def _row_starts(sorted_rows: Ints, rows: int) -> Ints:
    return np.searchsorted(sorted_rows, np.arange(rows + 1))


def _ramp(counts: Ints) -> Ints:
    """0..counts[0]-1, 0..counts[1]-1, … in one array."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


def _describe(degrees: Ints) -> Degrees:
    if not len(degrees):
        return Degrees(0.0, 0.0, 0, 0.0, 0, {})
    counts = np.bincount(degrees)
    present = np.flatnonzero(counts)
    return Degrees(
        mean=float(degrees.mean()),
        deviation=float(degrees.std()),
        minimum=int(degrees.min()),
        median=float(np.median(degrees)),
        maximum=int(degrees.max()),
        histogram=dict(zip(present.tolist(), counts[present].tolist(), strict=True)),
    )
