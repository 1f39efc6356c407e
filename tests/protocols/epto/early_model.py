"""Early delivery written down as simply as possible: lists of entries, and of all that was ever
moved. Shares no code with `epicast.protocols.epto`."""

from __future__ import annotations

from math import log2

from tests.protocols.epto.model import Entry, Model, key

NamedEvent = tuple[int, int, bytes]
DISTINCT_AGES = 4100


class Places:
    """How likely the entries that are waiting at a node are to stay where they are."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._before: list[Entry] = []
        self.ages: dict[Entry, int] = {}
        self._first: dict[Entry, int] = {}
        """The age at which an entry was seen first."""
        self._moved: dict[Entry, range] = {}
        """The ages at which it may last have been moved."""
        self._ended: list[tuple[int, bool]] = []
        """Of each that was delivered: when it was first seen, and whether it was moved."""
        self._moves: dict[int, float] = {}
        """By age: how many of them were last moved then."""
        self.waiting: list[Entry] = []

    def round(self, wall: int, new: list[Entry]) -> None:
        """After the model's round: `new` was delivered."""
        self.waiting = sorted(self._model.waiting, key=key)
        ages = {entry: self._age(entry, wall) for entry in self.waiting}
        something_new = False
        for entry in self.waiting:
            if entry not in self._before:
                something_new = True
                self._first[entry] = ages[entry]
            elif something_new:
                after = self.ages[entry]
                self._moved[entry] = range(after + 1, max(ages[entry], after + 1) + 1)
        moves = dict(self._moves)
        for entry in new:
            self._ended.append((self._first.pop(entry), entry in self._moved))
            shares = {
                age: moves.get(age, 0.0) + 1 / DISTINCT_AGES for age in self._moved.pop(entry, ())
            }
            for age, share in shares.items():
                self._moves[age] = self._moves.get(age, 0.0) + share / sum(shares.values())
        self._before = self.waiting[len(new) :]
        self.ages = {entry: ages[entry] for entry in self._before}

    def _age(self, entry: Entry, wall: int) -> int:
        if self._model.logical:
            return self._model.waiting[entry]
        return int(64 * log2(max(1, wall - entry[0])))

    def likely(self, entry: Entry) -> float:
        """That it stays in its place."""
        age = self.ages[entry]
        seen = [moved for first, moved in self._ended if first <= age]
        moved_before = sum(count for at, count in self._moves.items() if at <= age)
        return 1 - (max(0.0, sum(seen) - moved_before) + 1) / (len(seen) + 1)


class Application:
    """Applies what it is given and rolls back what is taken back. Beside it, the entries that it
    should have been given."""

    def __init__(self, probability: float, places: Places, delivered: int) -> None:
        self.probability = probability
        self.places = places
        self.since = delivered
        """How many events the node had delivered when it subscribed."""
        self.applied: list[NamedEvent] = []
        self.confirmed = 0
        self.revisions = self.early = 0
        self._shown: list[Entry] = []

    def revise(self, events: int) -> None:
        assert 0 <= events <= len(self.applied) - self.confirmed, "what is confirmed stays"
        del self.applied[len(self.applied) - events :]
        self.revisions += events > 0

    def apply(self, events: list[NamedEvent]) -> None:
        self.applied += events

    def confirm(self, events: int) -> None:
        self.confirmed += events
        assert self.confirmed <= len(self.applied)
        self.early += len(self.applied) > self.confirmed

    def restart(self) -> None:
        self.revise(len(self.applied) - self.confirmed)
        self._shown = []

    def check(self, wall: int, new: list[Entry], order: list[NamedEvent]) -> None:
        """After a round: it has what was delivered, and what is likely enough after that."""
        places = self.places
        waiting, shown = places.waiting, self._shown
        while shown != waiting[: len(shown)]:
            shown.pop()
        wanted = shown[len(new) :]
        for entry in waiting[max(len(new), len(shown)) :]:
            too_early = not places._model.logical and entry[0] > wall
            if too_early or places.likely(entry) < self.probability:
                break
            wanted.append(entry)
        self._shown = wanted
        assert self.applied[: self.confirmed] == order[self.since :], "as without early delivery"
        unconfirmed = [event[:2] for event in self.applied[self.confirmed :]]
        assert unconfirmed == [
            (source, first + row) for _, source, first, rows in wanted for row in range(rows)
        ]
