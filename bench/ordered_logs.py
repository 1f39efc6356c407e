"""What peers wrote down about an ordered topic, and whether it is one order.

Nothing here knows how the order is made. A peer's log is a text file whose name begins with what
kind of peer it is (`stable-…`, `volatile-…`) and ends with its id; its lines are

    P first last checksum time             published: its events first..last, before the call
    D source first last checksum time      delivered
    G source events                        the topic says that so many are missing

with times in nanoseconds of one clock. What was published together is delivered together, so a
publication is one thing here: source, first and last number. Stable peers are there from before
the first publication until after the last, and owe the same sequence of everything; others came
later, and owe a piece of that sequence without a hole.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

Name = tuple[int, int, int]
"""Source, first and last number."""


@dataclass
class PeerLog:
    kind: str
    peer: int
    published: dict[Name, tuple[str, int]] = field(default_factory=dict)
    """Checksum and time."""
    delivered: list[tuple[Name, str, int]] = field(default_factory=list)
    gaps: int = 0
    """Events the topic has said are missing."""


@dataclass
class Findings:
    stable: int = 0
    volatile: int = 0
    """Of those that began to deliver."""
    publications: int = 0
    """That stable peers have delivered."""
    events: int = 0
    events_of_volatile: int = 0
    """Of the events, those that other than stable peers have published."""
    sequences: int = 0
    """Different ones among stable peers."""
    missing: int = 0
    """Events that a stable peer lacks: published by one, or delivered to one."""
    missing_of_stable: int = 0
    """Of those, what stable peers have published: they are there to say so, and it is noticed."""
    gaps: int = 0
    """Events of which stable peers were told that they are missing."""
    twice: int = 0
    out_of_order: int = 0
    never_published: int = 0
    """Or not as it was delivered."""
    missing_at_volatile: int = 0
    """Events between the first and the last delivered by a peer that came later."""
    delays_ns: list[tuple[int, int]] = field(default_factory=list)
    """Of deliveries to stable peers, with their events."""

    def delay_ms(self, share: float) -> float:
        """So many of the deliveries took no longer."""
        if not self.delays_ns:
            return float("nan")
        delays, events = np.array(sorted(self.delays_ns)).T
        reached = np.cumsum(events) / events.sum()
        return float(delays[min(np.searchsorted(reached, share), len(delays) - 1)]) / 1e6


def read_log(path: Path) -> PeerLog:
    kind, _, peer = path.stem.partition("-")
    log = PeerLog(kind, int(peer))
    for line in path.read_text().splitlines():
        what, *rest = line.split()
        if what == "P":
            first, last, checksum, time = rest
            log.published[log.peer, int(first), int(last)] = checksum, int(time)
        elif what == "D":
            source, first, last, checksum, time = rest
            log.delivered.append(((int(source), int(first), int(last)), checksum, int(time)))
        else:
            log.gaps += int(rest[1])
    return log


def check(folder: Path) -> Findings:
    return compare([read_log(path) for path in sorted(folder.glob("*-*.log"))])


def compare(logs: Iterable[PeerLog]) -> Findings:
    logs = list(logs)
    stable = [log for log in logs if log.kind == "stable"]
    others = [log for log in logs if log.kind != "stable" and log.delivered]
    published = {name: what for log in logs for name, what in log.published.items()}
    orders = {log.peer: [name for name, _, _ in log.delivered] for log in stable + others}
    owed = {name for log in stable for name in (*orders[log.peer], *log.published)}
    stable_ids = {log.peer for log in stable}
    missing = [name for log in stable for name in owed.difference(orders[log.peer])]
    found = Findings(
        stable=len(stable),
        volatile=len(others),
        publications=len(owed),
        events=_events(owed),
        events_of_volatile=_events(name for name in owed if name[0] not in stable_ids),
        sequences=len({tuple(orders[log.peer]) for log in stable}),
        missing=_events(missing),
        missing_of_stable=_events(name for name in missing if name[0] in stable_ids),
        gaps=sum(log.gaps for log in stable),
    )
    longest = max((orders[log.peer] for log in stable), key=len, default=[])
    places = {name: place for place, name in enumerate(longest)}
    for log in stable + others:
        order = orders[log.peer]
        found.twice += len(order) - len(set(order))
        found.out_of_order += _descents([places[name] for name in order if name in places])
        found.out_of_order += _descents_by_source(order)
        found.never_published += sum(
            published.get(name, ("", 0))[0] != checksum for name, checksum, _ in log.delivered
        )
    for log in others:
        known = [places[name] for name in orders[log.peer] if name in places]
        if known:
            found.missing_at_volatile += _events(
                set(longest[min(known) : max(known) + 1]).difference(orders[log.peer])
            )
    found.delays_ns = [
        (time - published[name][1], name[2] - name[1] + 1)
        for log in stable
        for name, _, time in log.delivered
        if name in published
    ]
    return found


def _events(names: Iterable[Name]) -> int:
    return sum(last - first + 1 for _, first, last in names)


def _descents(places: list[int]) -> int:
    return sum(later <= earlier for earlier, later in pairwise(places))


def _descents_by_source(order: list[Name]) -> int:
    """Publications whose publisher has published a later one that came before."""
    last_of: dict[int, int] = {}
    found = 0
    for source, first, last in order:
        found += first <= last_of.get(source, 0)
        last_of[source] = max(last, last_of.get(source, 0))
    return found
