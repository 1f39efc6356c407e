"""Users and topics at random places on a square: near ones share interests.

The synthetic universe of StaN (Matos, section 3.3.2). A topic is found at several places, fewer
with its rank; a user subscribes to everything within a radius of its own, drawn from a power law.
The square has no edges: what leaves it on one side comes back on the other.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt, pi
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epicast.log.kernels.compiling import compiled
from epicast.pipeline.universes.spec import UniverseError, UniverseSpec

_WIDEST = 0.5
"""Radius beyond which a circle would meet itself."""
_QUANTILES = 512
_PLACES_PER_CELL = 8
_TOPICS, _USERS = 0, 1
"""What seeds are for."""

Edges = tuple[NDArray[np.int64], NDArray[np.int64]]


class Places(NamedTuple):
    """Those of all topics, sorted by the cell of a grid of `side` x `side` they are in."""

    side: int
    begins: NDArray[np.int64]
    """Of each cell; the last one is the end."""
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    topic: NDArray[np.int64]
    scale: float
    """What makes radii as wide as the universe needs them."""


def grid_edges(spec: UniverseSpec, chunk: int) -> Edges:
    """Users and topics of a chunk of users, in order."""
    places = places_of(spec)
    first = chunk * spec.chunk_users
    rng = np.random.default_rng([spec.seed, _USERS, chunk])
    x, y, chance = rng.random((3, spec.chunk_users))[:, : spec.users - first]
    radius = radii(places.scale, spec.tail, chance)
    user, topic = (np.empty(0, dtype=np.int64) for _ in range(2))
    for _ in range(2):  # once to count, once to write
        seen = np.full(spec.topics, -1, dtype=np.int64)
        found = _near(x, y, radius, *places[:-1], seen, user, topic)
        if len(user) < found:
            user, topic = (np.empty(found, dtype=np.int64) for _ in range(2))
    order = np.argsort(user * spec.topics + topic, kind="stable")
    return user[order] + first, topic[order]


@lru_cache(maxsize=1)
def places_of(spec: UniverseSpec) -> Places:
    ranks = np.arange(1, spec.topics + 1)
    counts = np.maximum(1, spec.places * ranks**-spec.skew).astype(np.int64)
    topic = np.repeat(np.arange(spec.topics), counts)
    x, y = np.random.default_rng([spec.seed, _TOPICS]).random((2, len(topic)))
    side = max(1, isqrt(len(topic) // _PLACES_PER_CELL))
    cell = (x * side).astype(np.int64) * side + (y * side).astype(np.int64)
    order = np.argsort(cell, kind="stable")
    begins = np.searchsorted(cell[order], np.arange(side * side + 1))
    scale = _fitting_scale(spec, counts)
    return Places(side, begins, x[order], y[order], topic[order], scale)


def radii(scale: float, tail: float, chance: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.minimum(_WIDEST, scale * (1 - chance) ** (-1 / tail))


def _fitting_scale(spec: UniverseSpec, counts: NDArray[np.int64]) -> float:
    """That with which users have as many subscriptions as wanted, on average."""
    sizes, topics = np.unique(counts, return_counts=True)
    chance = (np.arange(_QUANTILES) + 0.5) / _QUANTILES

    def expected(scale: float) -> float:
        missed = (1 - pi * radii(scale, spec.tail, chance) ** 2)[:, None] ** sizes
        return float(((1 - missed) * topics).sum(axis=1).mean())

    low, high = 0.0, _WIDEST
    if expected(high) < spec.subscriptions:
        raise UniverseError(
            f"subscriptions: with {spec.topics:,} topics at so few places at most "
            f"{expected(high):.0f} can be had; raise places, or lower skew"
        )
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected(middle) < spec.subscriptions else (low, middle)
    return high


@compiled
def _near(
    x: Any, y: Any, radius: Any, side: Any, begins: Any, place_x: Any, place_y: Any,
    place_topic: Any, seen: Any, users: Any, topics: Any,
) -> int:  # fmt: skip
    """How many pairs there are of a user and a topic within its radius; as many as there is room
    for are written."""
    found = 0
    for user in range(len(x)):
        reach = radius[user]
        span = min(side - 1, int(2 * reach * side) + 1)
        left = int(np.floor((x[user] - reach) * side))
        low = int(np.floor((y[user] - reach) * side))
        for column in range(left, left + span + 1):
            for row in range(low, low + span + 1):
                cell = (column % side) * side + row % side
                for place in range(begins[cell], begins[cell + 1]):
                    topic = place_topic[place]
                    if seen[topic] == user:
                        continue
                    dx = abs(place_x[place] - x[user])
                    dy = abs(place_y[place] - y[user])
                    dx = min(dx, 1 - dx)
                    dy = min(dy, 1 - dy)
                    if dx * dx + dy * dy <= reach * reach:
                        seen[topic] = user
                        if found < len(users):
                            users[found] = user
                            topics[found] = topic
                        found += 1
    return found
