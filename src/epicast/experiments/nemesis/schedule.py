"""What happens to whom and when, drawn from a seed.

Faults come in lanes that know nothing of each other: one for each region, one for the links, one
for publishers and subscribers, one for sidecars. A lane is a row of strikes, each one fault or
several that overlap; the next strike of a lane waits until the last one is over and mended. So
times are the earliest ones: a chain that takes longer to become whole delays what comes behind it
in its lane.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from itertools import combinations
from random import Random

from msgspec import Struct

LINKS, CLIENTS, SIDECARS = "links", "clients", "sidecars"
_FIRST_S = 3.0
_LAST_S = 8.0
"""Nothing begins so shortly before the end."""


class Kind(StrEnum):
    # of every process
    KILL = "kill"
    """SIGKILL; started again, a replica with its disk."""
    RESTART = "restart"
    """SIGTERM; started again, a replica with its disk. Not of publishers and subscribers."""
    PAUSE = "pause"
    """SIGSTOP, then SIGCONT."""
    # of replicas
    FULL = "full"
    """Its disk takes no more for a while."""
    WIPE = "wipe"
    """SIGKILL; started again without its disk."""
    CUT_OFF = "cut-off"
    """Nothing passes where it was connected to from within its region; one way, or both."""
    CORRUPT = "corrupt"
    """SIGKILL; bits of a segment are flipped or its end is cut off; started again."""
    BLACKOUT = "blackout"
    """All replicas of a region are killed; started again with their disks."""
    # of links
    SWALLOW = "swallow"
    """Nothing passes, and nobody is told."""
    BREAK = "break"
    """The same, and all connections are ended."""
    ONE_WAY = "one-way"
    """Nothing passes from the first to the second."""
    ISOLATE = "isolate"
    """Nothing passes between a region and any other."""


LOSING_DISKS = frozenset({Kind.WIPE, Kind.CORRUPT})
_ALONE = frozenset({Kind.CORRUPT, Kind.BLACKOUT})
"""Nothing else happens in the region meanwhile."""
_OF_REPLICAS = (
    Kind.KILL, Kind.RESTART, Kind.PAUSE, Kind.FULL, Kind.CUT_OFF, Kind.WIPE, Kind.CORRUPT,
    Kind.BLACKOUT,
)  # fmt: skip
_SECOND = (Kind.KILL, Kind.RESTART, Kind.PAUSE, Kind.FULL, Kind.CUT_OFF, Kind.WIPE)
_OF_LINKS = (Kind.SWALLOW, Kind.BREAK, Kind.ONE_WAY, Kind.ISOLATE)
_LASTS_S = {
    Kind.KILL: (0.0, 4.0), Kind.RESTART: (0.0, 3.0), Kind.PAUSE: (0.2, 10.0),
    Kind.FULL: (2.0, 6.0), Kind.CUT_OFF: (0.3, 5.0), Kind.WIPE: (0.0, 3.0),
    Kind.CORRUPT: (0.0, 3.0), Kind.BLACKOUT: (0.2, 2.0), Kind.SWALLOW: (0.5, 8.0),
    Kind.BREAK: (0.5, 8.0), Kind.ONE_WAY: (0.5, 8.0), Kind.ISOLATE: (0.5, 4.0),
}  # fmt: skip
_TWO_AT_ONCE = 0.35
_PAUSES_S = {LINKS: (1.0, 6.0), CLIENTS: (8.0, 20.0), SIDECARS: (4.0, 12.0)}
_PAUSE_OF_REGIONS_S = (4.0, 12.0)


class Fault(Struct, frozen=True):
    at_s: float
    """Since the load began; not before."""
    kind: Kind
    target: str
    """A replica (`us/2`), a region, a pair of them (`us-eu`), or a sidecar, publisher or subscriber
    by its name (see `Cast`)."""
    for_s: float
    lane: str
    strike: int
    """Of its lane, counted from 1."""
    seed: int
    """Of what is drawn when it is done, such as which bits are flipped."""

    def __str__(self) -> str:
        return f"{self.at_s:7.1f} s  {self.kind:8} {self.target:14} for {self.for_s:.1f} s"


class Cast(Struct, frozen=True):
    """Who is there."""

    regions: tuple[str, ...]
    replicas: int
    """Of each region."""
    clients: tuple[str, ...] = ()
    """`publisher-us` at the replicas of a region, `subscriber-sidecar-us` at its sidecar."""
    sidecars: tuple[str, ...] = ()

    def replicas_of(self, region: str) -> list[str]:
        if self.replicas == 1:
            return [region]
        return [f"{region}/{number}" for number in range(1, self.replicas + 1)]


def draw_schedule(
    seed: int, seconds: float, cast: Cast, *, kinds: Collection[Kind] = frozenset(Kind),
    two_at_once: bool = True,
) -> list[Fault]:  # fmt: skip
    """By time. The same arguments give the same schedule. `kinds`: those of replicas that occur;
    without `two_at_once` a single one of a region is in trouble at a time, or all of them are."""
    rng = Random(seed)
    found = []
    for region in cast.regions:
        strikes = _region_strikes(region, cast, kinds, two_at_once, Random(rng.random()))
        found += _lane(region, strikes, seconds)
    if len(cast.regions) > 1:
        found += _lane(LINKS, _link_strikes(cast, Random(rng.random())), seconds)
    if cast.clients:
        strikes = _strikes_of(CLIENTS, cast.clients, (Kind.KILL, Kind.PAUSE), Random(rng.random()))
        found += _lane(CLIENTS, strikes, seconds)
    if cast.sidecars:
        ends = (Kind.KILL, Kind.RESTART, Kind.PAUSE)
        strikes = _strikes_of(SIDECARS, cast.sidecars, ends, Random(rng.random()))
        found += _lane(SIDECARS, strikes, seconds)
    return sorted(found, key=lambda fault: (fault.at_s, fault.lane, fault.target))


_Drawn = tuple[float, Kind, str, float, int]
"""When within the strike, what, to whom, for how long, with which seed."""


def _lane(lane: str, strikes: Iterator[tuple[float, list[_Drawn]]], seconds: float) -> list[Fault]:
    """`strikes`: each with the pause before it."""
    found: list[Fault] = []
    at = _FIRST_S
    for number, (pause_s, faults) in enumerate(strikes, 1):
        at += pause_s
        end = at + max(after + for_s for after, _, _, for_s, _ in faults)
        if end > seconds - _LAST_S:
            return found
        for after, kind, target, for_s, seed in faults:
            when = round(at + after, 1)
            found.append(Fault(when, kind, target, round(for_s, 1), lane, number, seed))
        at = end
    return found


def _deck(cards: Sequence[Kind], rng: Random) -> Iterator[Kind]:
    """All of them, again and again, each time in another order."""
    while True:
        yield from rng.sample(cards, len(cards))


def _region_strikes(
    region: str, cast: Cast, kinds: Collection[Kind], two_at_once: bool, rng: Random
) -> Iterator[tuple[float, list[_Drawn]]]:
    names = cast.replicas_of(region)
    chosen = [kind for kind in _OF_REPLICAS if kind in kinds]
    others = [kind for kind in _SECOND if kind in kinds]
    if len(names) == 1:
        chosen = [kind for kind in chosen if kind not in LOSING_DISKS]
    for kind in _deck(chosen, rng):
        pause_s = rng.uniform(*_PAUSE_OF_REGIONS_S)
        for_s = rng.uniform(*_LASTS_S[kind])
        first, second = rng.sample(names, 2) if len(names) > 1 else (region, "")
        if kind is Kind.BLACKOUT:
            yield pause_s, [(0.0, kind, region, for_s, rng.getrandbits(32))]
            continue
        faults: list[_Drawn] = [(0.0, kind, first, for_s, rng.getrandbits(32))]
        may_be_two = two_at_once and len(names) > 2 and kind not in _ALONE
        if may_be_two and rng.random() < _TWO_AT_ONCE:
            other = rng.choice(others)
            after, lasts_s = rng.uniform(0.0, for_s), rng.uniform(*_LASTS_S[other])
            faults.append((after, other, second, lasts_s, rng.getrandbits(32)))
        yield pause_s, faults


def _link_strikes(cast: Cast, rng: Random) -> Iterator[tuple[float, list[_Drawn]]]:
    pairs = list(combinations(cast.regions, 2))
    for kind in _deck(_OF_LINKS, rng):
        pair = rng.choice(pairs)
        if kind is Kind.ONE_WAY and rng.random() < 0.5:
            pair = (pair[1], pair[0])
        target = rng.choice(cast.regions) if kind is Kind.ISOLATE else "-".join(pair)
        for_s = rng.uniform(*_LASTS_S[kind])
        yield rng.uniform(*_PAUSES_S[LINKS]), [(0.0, kind, target, for_s, 0)]


def _strikes_of(
    lane: str, targets: Sequence[str], kinds: Sequence[Kind], rng: Random
) -> Iterator[tuple[float, list[_Drawn]]]:
    for kind in _deck(kinds, rng):
        for_s = rng.uniform(*_LASTS_S[kind])
        target = rng.choice(targets)
        yield rng.uniform(*_PAUSES_S[lane]), [(0.0, kind, target, for_s, 0)]
