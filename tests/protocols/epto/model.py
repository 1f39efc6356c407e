"""EpTO written down as simply as possible: dictionaries, loops and an ever-growing `delivered`.

Shares no code with `epicast.protocols.epto`. An entry is (timestamp, source, first number, rows).
"""

from __future__ import annotations

Entry = tuple[int, int, int, int]
BEFORE_ALL = (-1, 0)


def signed(source: int) -> int:
    return source - 2**64 if source >= 2**63 else source


def key(entry: Entry) -> tuple[int, int]:
    return entry[0], signed(entry[1])


class Model:
    def __init__(
        self,
        source: int,
        ttl: int,
        logical: bool,
        max_ahead: int,
        extra: int,
        repeats: bool,
        hop: int,
    ) -> None:
        self.source, self.ttl, self.logical, self.max_ahead = source, ttl, logical, max_ahead
        self.wait = (2 if logical else 1) * ttl + extra
        self.repeats = repeats
        self.hop = hop
        """By how much a hop makes an event older; if it does not, its age here is passed on."""
        self.highest = 0
        self.next_ball: dict[Entry, int] = {}
        self.received: dict[Entry, int] = {}
        self.passed: dict[Entry, int] = {}
        """The ttl of what the order has passed, while others speak of it."""
        self.spoken: dict[Entry, int] = {}
        """The round in which an entry was last heard of."""
        self.rounds = 0
        self.delivered: list[Entry] = []
        self.last = BEFORE_ALL
        self.refused = 0
        self.waiting: dict[Entry, int] = {}
        """What could be delivered in the last round, and was not or was, with its ttl."""

    def publish(self, wall: int, first: int, rows: int) -> Entry:
        self.highest = self.highest + 1 if self.logical else max(wall, self.highest + 1)
        entry = (self.highest, self.source, first, rows)
        self.next_ball[entry] = 1 - self.hop
        return entry

    def receive(self, wall: int, ball: dict[Entry, int], clock: int) -> None:
        """`clock`: the sender's, of which a counter takes notice."""
        if self.logical:
            self.highest = max(self.highest, clock)
        for entry, ttl in ball.items():
            if not self.logical and entry[0] > wall + self.max_ahead:
                self.refused += 1
                continue
            self.next_ball[entry] = max(ttl, self.next_ball.get(entry, 0))
            self.highest = max(self.highest, entry[0])

    def round(self, wall: int) -> tuple[dict[Entry, int], list[Entry]]:
        """The ball that is sent, and what is delivered."""
        heard = {entry: ttl + self.hop for entry, ttl in self.next_ball.items()}
        self.next_ball = {}
        for entry in self.received:
            self.received[entry] += 1
        for entry, ttl in heard.items():
            if key(entry) > self.last:
                known = self.received.get(entry, 0)
                self.received[entry] = max(known, min(ttl, self.ttl))
        self.rounds += 1
        self.spoken |= dict.fromkeys(heard, self.rounds)
        for entry in self.passed:
            self.passed[entry] += 1
        for entry, ttl in heard.items():
            if key(entry) <= self.last:
                self.passed[entry] = max(self.passed.get(entry, 0), min(ttl, self.ttl))
        ages = self.passed | self.received
        if not self.hop:
            heard = {entry: ages[entry] for entry in heard}
        ball = {
            entry: ttl
            for entry, ttl in heard.items()
            if ttl <= self.ttl and ages[entry] <= self.ttl
        }
        if self.repeats:
            for entry, ttl in self.received.items():
                if entry not in heard and ttl <= self.ttl:
                    ball[entry] = ttl
        self.waiting = dict(self.received)
        new: list[Entry] = []
        for entry in sorted(self.received, key=key):
            too_early = not self.logical and entry[0] > wall
            if self.received[entry] <= self.wait or too_early:
                break
            new.append(entry)
        for entry in new:
            self.passed[entry] = self.received.pop(entry)
            self.last = key(entry)
        self.passed = {
            entry: ttl
            for entry, ttl in self.passed.items()
            if self.spoken[entry] >= self.rounds - 1
        }
        self.delivered += new
        return ball, new

    def holes(self) -> set[tuple[int, int]]:
        """Source and number of each event the order has passed without delivering it, as far as
        its neighbours in its source's numbers tell."""
        found: set[tuple[int, int]] = set()
        for source in {entry[1] for entry in self.delivered}:
            had = {
                number
                for _, of, first, rows in self.delivered
                if of == source
                for number in range(first, first + rows)
            }
            found |= {(source, number) for number in range(min(had), max(had)) if number not in had}
        return found
