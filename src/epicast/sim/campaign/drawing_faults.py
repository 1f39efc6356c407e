"""What goes wrong in a run, drawn from its seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TypedDict

from msgspec import Struct

from epicast.sim.campaign import damage
from epicast.sim.campaign import faults as kinds
from epicast.sim.campaign.faults import COORDINATION, Fault
from epicast.sim.campaign.plan import MS, SECOND


class Where(TypedDict):
    region: str
    replica: int


class Targets(Struct, frozen=True):
    """What can be hit."""

    regions: dict[str, int]
    """How many replicas each has."""
    edges: list[str]

    def region(self, rng: Random) -> Where:
        """A replica of one; nothing more is drawn where there is only one."""
        region = rng.choice(list(self.regions))
        count = self.regions[region]
        return {"region": region, "replica": rng.randrange(count) if count > 1 else 0}

    def replicas(self) -> list[str]:
        """As deployments call them."""
        return [
            f"{region}/{number + 1}" if count > 1 else region
            for region, count in self.regions.items()
            for number in range(count)
        ]


DrawFault = Callable[[Random, int, int, Targets], Fault]


def draw_faults(
    rng: Random, targets: Targets, among: Sequence[DrawFault], within: tuple[int, int]
) -> tuple[Fault, ...]:
    begin, end = within
    drawn = []
    for _ in range(rng.choice((0, 1, 2, 4, 6, 9))):
        at = rng.randrange(begin, end - 500 * MS)
        until = min(end, at + rng.randrange(300 * MS, 5 * SECOND))
        drawn.append(rng.choice(among)(Random(rng.random()), at, until, targets))
    return tuple(drawn)


def _kill(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    silently = rng.random() < 0.3
    return kinds.Kill(at_ns=at, until_ns=until, silently=silently, **targets.region(rng))


def _replace(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    silently = rng.random() < 0.3
    return kinds.Replace(at_ns=at, until_ns=until, silently=silently, **targets.region(rng))


def _stop(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    return kinds.Stop(at_ns=at, until_ns=until, **targets.region(rng))


def _kill_edge(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    silently = rng.random() < 0.3
    return kinds.KillEdge(
        at_ns=at, until_ns=until, edge=rng.choice(targets.edges), silently=silently
    )


def _pause(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    return kinds.Pause(at_ns=at, until_ns=until, **targets.region(rng))


def _pause_edge(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    return kinds.PauseEdge(at_ns=at, until_ns=until, edge=rng.choice(targets.edges))


def _drift(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    rate = rng.choice((-0.1, -0.001, 0.001, 0.1))
    return kinds.Drift(at_ns=at, until_ns=until, rate=rate, **targets.region(rng))


def _cut(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    regions = list(targets.regions)
    order = rng.sample(regions, len(regions))
    if len(order) < 2:
        return _weather(rng, at, until, targets)
    one_pair = ((order[0], order[1]),)
    isolated, chain = kinds.isolating(order[0], regions), kinds.leaving_a_chain(order)
    pairs = rng.choice((one_pair, one_pair, isolated, chain or one_pair))
    return kinds.Cut(at_ns=at, until_ns=until, pairs=pairs, one_way=rng.random() < 0.3)


def _cut_edge(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    one_way, outward = rng.random() < 0.5, rng.random() < 0.5
    return kinds.CutEdge(
        at_ns=at, until_ns=until, edge=rng.choice(targets.edges), one_way=one_way, outward=outward
    )


def _weather(rng: Random, at: int, until: int, _: Targets) -> Fault:
    return kinds.Weather(
        at_ns=at, until_ns=until, loss=rng.choice((0.05, 0.3)), duplication=0.2, reordering=0.3
    )


def _disk_full(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    return damage.DiskFull(at_ns=at, until_ns=until, **targets.region(rng))


def _flip_bit(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    where = targets.region(rng)
    return damage.FlipBit(at_ns=at, until_ns=until, choice=rng.random(), **where)


def _truncate(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    where = targets.region(rng)
    return damage.Truncate(at_ns=at, until_ns=until, choice=rng.random(), **where)


def _roll_back(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    restart = rng.randrange(at, until)
    return damage.RollBack(at_ns=at, until_ns=until, restart_ns=restart, **targets.region(rng))


# -- where there are chains ----------------------------------------------------------------------


def _kill_region(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    region = rng.choice(list(targets.regions))
    return kinds.KillRegion(at_ns=at, until_ns=until, region=region)


def _kill_coordination(_: Random, at: int, until: int, __: Targets) -> Fault:
    return kinds.KillCoordination(at_ns=at, until_ns=until)


def _cut_replica(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    """From any others, wherever they are."""
    replicas = targets.replicas()
    one = rng.choice(replicas)
    others = [name for name in replicas if name != one]
    chosen = rng.sample(others, rng.randint(1, len(others)))
    return _cut_nodes(rng, at, until, one, chosen)


def _cut_coordination(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    replicas = targets.replicas()
    chosen = rng.sample(replicas, rng.randint(1, len(replicas)))
    return _cut_nodes(rng, at, until, COORDINATION, chosen)


def _cut_nodes(rng: Random, at: int, until: int, one: str, others: list[str]) -> Fault:
    one_way, outward = rng.random() < 0.3, rng.random() < 0.5
    return kinds.CutNodes(
        at_ns=at, until_ns=until, one=one, others=tuple(others), one_way=one_way, outward=outward
    )


def _cut_edge_from_one(rng: Random, at: int, until: int, targets: Targets) -> Fault:
    edge, replica = rng.choice(targets.edges), rng.randrange(3)
    one_way, outward = rng.random() < 0.3, rng.random() < 0.5
    return kinds.CutEdge(
        at_ns=at, until_ns=until, edge=edge, one_way=one_way, outward=outward, replica=replica
    )


def draw_moves(
    rng: Random, owners: Mapping[str, str], regions: Sequence[str], within: tuple[int, int]
) -> tuple[Fault, ...]:
    """Of streams, of which `owners` tells whose they are, to any of the regions; in every second
    run that has some."""
    if len(regions) < 2 or not owners or rng.random() < 0.5:
        return ()
    begin, end = within
    where = dict(owners)
    moves = []
    for at in sorted(rng.randrange(begin, end) for _ in range(rng.choice((1, 1, 2, 4)))):
        stream = rng.choice(list(where))
        to = rng.choice([region for region in regions if region != where[stream]])
        moves.append(kinds.Move(at_ns=at, until_ns=end, stream=stream, to=to))
        where[stream] = to
    return tuple(moves)


def draw_disk_trouble(
    rng: Random, on_files: Mapping[str, int], within: tuple[int, int]
) -> tuple[Fault, ...]:
    """Draw faults of regions that keep files, in about half of the runs. `on_files` has the number
    of replicas by region."""
    if not on_files or rng.random() < 0.5:
        return ()
    begin, end = within
    drawn: list[Fault] = []
    if rng.random() < 0.7:
        region = rng.choice(list(on_files))
        at = rng.randrange(begin, end - 500 * MS)
        until = min(end, at + rng.randrange(300 * MS, 3 * SECOND))
        replica = rng.randrange(on_files[region])
        drawn.append(damage.NoDescriptors(at_ns=at, until_ns=until, region=region, replica=replica))
    chains = [region for region, replicas in on_files.items() if replicas > 1]
    if chains and rng.random() < 0.7:
        at = rng.randrange(begin + SECOND, end - 500 * MS)
        drawn.append(
            damage.DamageRegion(
                at_ns=at, until_ns=at + rng.randrange(100 * MS, 500 * MS),
                region=rng.choice(chains), choice=rng.random(), all_but_one=rng.random() < 0.5,
            )
        )  # fmt: skip
    return tuple(drawn)


KINDS: tuple[DrawFault, ...] = (
    _kill, _kill, _stop, _replace, _kill_edge, _pause, _pause_edge, _drift, _cut, _cut, _cut_edge,
    _weather, _disk_full, _flip_bit, _truncate, _roll_back,
)  # fmt: skip
"""As often as they are drawn."""
CHAIN_KINDS: tuple[DrawFault, ...] = (
    *KINDS, _kill, _kill_region, _kill_coordination, _replace, _pause, _cut_replica, _cut_replica,
    _cut_replica, _cut_coordination, _cut_coordination, _cut_edge_from_one, _disk_full, _roll_back,
)  # fmt: skip
