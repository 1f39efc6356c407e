"""Claim L6: how fast a joiner becomes known, and who is purged from `subs`.

Section 7.4 of the lpbcast paper: 60 processes, fanout 4; one more subscribes, and we count who
knows it. How often a purged id had been heard of is counted in two ways. Its `Frequency` is what
the paper plots; SELECT_PROCESS adds to it whenever it passes somebody over, so it is more than what
it is said to stand for. Hearings are how often the id came in a message since it was last purged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from statistics import mean

from epicast.core import Effects, NodeId, Peer
from epicast.core.sampling import choose
from epicast.experiments.gossip_rounds import ROUND_NS, RoundSystem, paper_config, uniform_views
from epicast.experiments.model import Claim, Plot, Row
from epicast.experiments.results import Results
from epicast.experiments.verdicts import OURS, crossing, in_parts
from epicast.protocols.lpbcast import Lpbcast, LpbcastConfig
from epicast.protocols.lpbcast.membership import Membership
from epicast.protocols.lpbcast.messages import Subscription
from epicast.reporting import new_figure

_ROUNDS = 12
"""That a joiner is followed for."""
_KNOWN_BY = 20
"""Rounds after which views have turned over: what is purged is counted from here."""
LITTLE = 5
"""Heard of fewer times than this is little known (Figure 16)."""
_NEVER = 0.001
_COUNTS = {"frequency": "by Frequency", "hearings": "by hearings"}
_KINDS = ("random", "frequency")


class CountedMembership(Membership):
    """Counts how often those it purges were truly heard of."""

    __slots__ = ("_heard", "removed_by_hearings")

    def __init__(self, node: Peer, config: LpbcastConfig, rng: Random) -> None:
        super().__init__(node, config, rng)
        self._heard: Counter[NodeId] = Counter()
        self.removed_by_hearings: Counter[int] = Counter()

    def hear(self, subscriptions: Iterable[Subscription], fx: Effects, frequency: int = 1) -> None:
        subscriptions = list(subscriptions)
        self._heard.update(member.peer.id for member in subscriptions)
        super().hear(subscriptions, fx, frequency)

    def _truncate(self, added: list[NodeId], fx: Effects) -> None:
        view = set(self.view)
        listed = {member.peer.id for member in self.subscriptions()}
        super()._truncate(added, fx)
        # Who leaves the view enters subs, if only to be purged from there.
        listed |= view - set(self.view)
        for peer in listed - {member.peer.id for member in self.subscriptions()}:
            self.removed_by_hearings[self._heard.pop(peer, 0)] += 1


class CountedLpbcast(Lpbcast):
    __slots__ = ("counted",)

    def __init__(self, node: Peer, config: LpbcastConfig, rng: Random) -> None:
        super().__init__(node, config, rng)
        self._membership = self.counted = CountedMembership(node, config, rng)


def joining(nodes: int, joins: int, membership: str, subs: int, seed: int) -> list[Row]:
    """One process after the other subscribes; mean number of those that know it, by round."""
    config = paper_config(fanout=4, membership=membership, max_subs=subs, aligned_rounds=False)

    def factory(peer: Peer, rng: Random) -> Lpbcast:
        return CountedLpbcast(peer, config, rng)

    system = RoundSystem(factory, nodes, seed, views=uniform_views(nodes, config.view_size, seed))
    system.run(_KNOWN_BY)
    simulation, rng = system.simulation, Random(seed)
    before = _purged(system)
    totals = [0.0] * (_ROUNDS + 1)
    for join in range(joins):
        old = simulation.live_nodes()
        joiner = simulation.add_node(factory, [choose(rng, old).peer], nodes + 1 + join)
        aware: set[NodeId] = set()
        for number in range(_ROUNDS + 1):
            aware |= {node.id for node in old if joiner.id in node.protocol.neighbors()}
            totals[number] += len(aware) / len(old) / joins
            simulation.run_for(ROUND_NS)
        simulation.stop(joiner)
    purged = {way: found - before[way] for way, found in _purged(system).items()}
    little = {f"little_known_by_{way}": _little(found) for way, found in purged.items()}
    return [{"round": number, "aware": share, **little} for number, share in enumerate(totals)]


def _purged(system: RoundSystem) -> dict[str, Counter[int]]:
    """Subscriptions purged so far, by how often they had been heard of, in both ways."""
    found = {way: Counter[int]() for way in _COUNTS}
    for node in system.simulation.live_nodes():
        protocol = node.protocol
        assert isinstance(protocol, CountedLpbcast)
        found["frequency"].update(protocol.purged_subscriptions())
        found["hearings"].update(protocol.counted.removed_by_hearings)
    return found


def _little(purged: Counter[int]) -> float:
    """The share of those heard of little."""
    return sum(n for times, n in purged.items() if times < LITTLE) / max(1, purged.total())


def joining_claim(rows: Results) -> Claim:
    sizes = sorted(set(rows.numbers("subs")))
    parts: dict[str, bool | None] = {}
    told = []
    for subs in sizes:
        plain, spared = (rows.where(membership=kind, subs=subs) for kind in _KINDS)
        slow, fast = _half_known(plain), _half_known(spared)
        room = f"room for {subs:g}"
        parts[f"{room}: news spreads faster"] = fast < slow
        purged = []
        for way, by in _COUNTS.items():
            column = f"little_known_by_{way}"
            before, after = (mean(kind.numbers(column)) for kind in (plain, spared))
            parts[f"{room}: only the plain version purges little known ids, {by}"] = (
                after < _NEVER < before
            )
            purged.append(f"{after:.1%} against {before:.1%} {by}")
        told.append(
            f"with {room} subscriptions half of the processes know a joiner after {fast:.2f} "
            f"rounds against {slow:.2f}, and of the ids purged, those heard of fewer than {LITTLE} "
            f"times are {', '.join(purged)}"
        )
    holds, verdict = in_parts(parts)
    return Claim(
        id="L6",
        paper="with frequency-based membership news of a joiner spreads faster; the plain version "
        f"purges ids heard of fewer than {LITTLE} times, the optimised one never",
        ours="; ".join(told),
        holds=holds,
        detail=f"{verdict}. Frequency-based against plain; the paper does not say how large subs "
        "is. A process knows the joiner once it has been in its view; never: in fewer than one "
        "case in a thousand. Frequency, which the paper plots, counts whenever SELECT_PROCESS "
        "passes an id over, too; hearings are how often the id came in a message since it was last "
        f"purged; {OURS}",
    )


def _half_known(rows: Results) -> float:
    """When half of the processes had the joiner in their view, between rounds."""
    return min(crossing(_curve(rows), 0.5), float(_ROUNDS))


def _curve(rows: Results) -> list[float]:
    rounds = sorted(set(rows.numbers("round")))
    return [mean(rows.where(round=number).numbers("aware")) for number in rounds]


def joining_plot(rows: Results) -> Plot:
    figure, axes = new_figure("rounds since it subscribed", "processes that knew the joiner (%)")
    for style, subs in zip(("--", "-"), sorted(set(rows.numbers("subs"))), strict=True):
        for color, kind in enumerate(_KINDS):
            curve = [100 * share for share in _curve(rows.where(membership=kind, subs=subs))]
            label = f"{kind} membership, |subs|m = {subs:g}"
            axes.plot(curve, style, marker=".", color=f"C{color}", label=label)
    axes.legend()
    return Plot("joining", "How fast a joiner becomes known (Figure 15).", figure)
