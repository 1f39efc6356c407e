"""When the order of a node begins: who joins listens first."""

from __future__ import annotations

from epicast.core import Publication
from epicast.protocols.epto.config import AUTOMATIC

_UNHEARD_FACTOR = 5
"""A node that hears of nobody begins its order after so many times the rounds it would listen."""
_MAX_HELD = 1024
"""Publications held until then."""


class Beginning:
    __slots__ = ("_listened", "held", "held_bytes", "listens", "over", "rounds")

    def __init__(self, listens: bool) -> None:
        self.listens = listens
        """Whether there was anybody to listen to yet: in a stack, the layer below says so."""
        self._listened = 0
        """Rounds since then."""
        self.over = False
        """Whether the order has begun."""
        self.rounds = 0
        """To listen for."""
        self.held: list[Publication] = []
        """Published before."""
        self.held_bytes = 0

    def room(self) -> int:
        return max(0, _MAX_HELD - len(self.held))

    def is_due(self, ttl: int, rounds: int, heard: bool) -> bool:
        """Asked in each round, of which there were so many; `heard`: of anybody."""
        self._listened += self.listens
        wanted = ttl + 2 if self.rounds == AUTOMATIC else self.rounds
        return (heard and self._listened >= wanted) or rounds >= _UNHEARD_FACTOR * wanted

    def end(self) -> list[Publication]:
        """The order begins; what was held."""
        self.over = True
        held, self.held, self.held_bytes = self.held, [], 0
        return held

    def hold(self, publication: Publication, size: int) -> None:
        self.held.append(publication)
        self.held_bytes += size
