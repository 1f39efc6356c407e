"""How likely it is that an event keeps the place in the order it has now.

Learned, not computed: an event's ttl is that of its fastest copy, so that a model of rounds takes
events for stable that hardly anybody has (docs/decisions/0022). What counts here is what became of
the entries before. A node looks at what is waiting once per round. An entry is moved when something
new comes in before it, and of those looked at before at some age, the share that was moved later is
how likely the next of that age is to be moved.

When exactly an entry was moved is not known, only that it was between two looks. The latter is put
down to the ages in between as those of others are distributed: an expectation-maximisation of which
each round is a step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epicast.protocols.epto.clocks import AGES, Ints

FIRST_SEEN, MOVED_AFTER, MOVED_BY = range(3)
"""Columns of histories, all ages: when first looked at; when looked at before and after the last
time it was moved, or `NEVER`."""
NEVER = -1
_MEMORY = 1 << 15
"""When this many entries are counted, all before count half: what was is forgotten slowly."""


class Stability:
    __slots__ = ("_begun", "_counted", "_known", "_moved", "by_age")

    def __init__(self) -> None:
        self._known: NDArray[np.float64] = np.zeros(AGES)
        """By age: the entries that were first seen then, those of them that were moved, and those
        that were last moved then."""
        self._begun: NDArray[np.float64] = np.zeros(AGES)
        self._moved: NDArray[np.float64] = np.zeros(AGES)
        self._counted = 0
        self.by_age: NDArray[np.float64] = np.zeros(AGES)
        """The probability that an entry of this age stays where it is. One entry more than was
        seen counts as moved: of few nothing is likely, of none everything is unlikely."""

    def learn(self, histories: Ints) -> None:
        """Entries were delivered; a row for each."""
        if not len(histories):
            return
        first = histories[:, FIRST_SEEN]
        moved = histories[histories[:, MOVED_BY] != NEVER]
        self._known += np.bincount(first, minlength=AGES)
        self._begun += np.bincount(moved[:, FIRST_SEEN], minlength=AGES)
        self._moved += self._spread(moved[:, MOVED_AFTER], moved[:, MOVED_BY])
        self._counted += len(histories)
        if self._counted > _MEMORY:
            self._counted //= 2
            for counts in (self._known, self._begun, self._moved):
                counts /= 2
        to_move = np.maximum(np.cumsum(self._begun) - np.cumsum(self._moved), 0)
        self.by_age = 1 - (to_move + 1) / (np.cumsum(self._known) + 1)

    def _spread(self, after: Ints, by: Ints) -> NDArray[np.float64]:
        """One for each, over the ages above `after` up to `by`."""
        weights = self._moved + 1 / AGES
        total = np.concatenate(([0.0], np.cumsum(weights)))
        parts = 1 / (total[by + 1] - total[after + 1])
        changes = np.zeros(AGES + 1)
        np.add.at(changes, after + 1, parts)
        np.subtract.at(changes, by + 1, parts)
        return weights * np.cumsum(changes)[:-1]
