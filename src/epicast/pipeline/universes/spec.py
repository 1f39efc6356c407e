"""What a generated universe is: a few numbers, from which every subscription follows."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from epicast import EpicastError

CELL_USERS = 127
"""Nodes of the WebSphere cell that was traced (Gossip Objects, section 4.1)."""
CELL_TOPICS = 1364


class UniverseError(EpicastError):
    """A universe cannot be made, or read."""


class UniverseSpec(Struct, frozen=True, kw_only=True):
    model: Literal["grid", "websphere"]
    users: int
    topics: int = 0
    """Of the grid. A WebSphere-like universe has as many as its cells need."""
    subscriptions: float = 10.0
    """Of the grid: topics a user subscribes to, on average."""
    places: int = 100
    """Of the grid: where the most popular topic is found."""
    skew: float = 1.0
    """Of the grid: the topic of rank r has `places` r ** -skew places, one at least."""
    tail: float = 3.0
    """Of the grid: a user's radius exceeds x with probability ~ x ** -tail."""
    seed: int = 1
    chunk_users: int = 64 * CELL_USERS
    """Part of what the universe is: other chunks, other subscriptions."""

    @property
    def chunks(self) -> int:
        return -(-self.users // self.chunk_users)

    @property
    def cells(self) -> int:
        return -(-self.users // CELL_USERS)

    def check(self) -> UniverseSpec:
        """Itself, if it can be made; raises `UniverseError`."""
        bounds: list[tuple[str, float, float, float]] = [("users", self.users, 1, 1e10)]
        if self.model == "grid":
            bounds += [
                ("topics", self.topics, 1, 1e7),
                ("subscriptions", self.subscriptions, 1e-3, self.topics),
                ("places", self.places, 1, 1e6),
                ("skew", self.skew, 0, 10),
                ("tail", self.tail, 1, 100),
            ]
        for name, value, least, most in bounds:
            if not least <= value <= most:
                raise UniverseError(f"{name}: {value:g} is not between {least:g} and {most:g}")
        return self
