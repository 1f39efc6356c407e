"""Claims L6, L8 and L9: how membership spreads, and how random views are.

Sections 7.4 (`lpbcast_joining.py`) and 8.1 of the lpbcast paper. L8 and L9: 125 processes, fanout
3; latency by how often membership is gossiped, by view size where views are drawn from all
processes, and views that begin as a star or a ring.

Artificial uniform views are drawn in two ways. Anew in every round: who gossips to F of l drawn
from all gossips to F of all, so l cannot matter, and what differs is chance. Once, and then held:
here l could matter, and this is what is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from statistics import mean
from typing import Any

import numpy as np

from epicast.core import NodeId, Peer
from epicast.core.sampling import derive_seed, sample
from epicast.experiments.gossip_rounds import (
    RoundSystem,
    paper_config,
    ring_views,
    star_views,
    uniform_views,
)
from epicast.experiments.lpbcast_joining import joining, joining_claim, joining_plot
from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.results import Results
from epicast.experiments.verdicts import OURS, crossing, in_parts
from epicast.protocols.lpbcast import Lpbcast
from epicast.reporting import new_figure
from epicast.sim.checkers import overlay
from epicast.sim.overlay import Overlay

_SHARE = 0.99
_FOLLOWED = 16
_NO_EFFECT = 0.2
"""Rounds to 99 % by which views of different sizes may differ."""
_WITHIN = 0.25
"""Share by which in-degrees and clustering may differ and still be alike."""
_VIEWS = ("uniform", "held", "gossiped")
"""Drawn anew in every round, drawn once, lpbcast's own."""
_STARTS = ("uniform", "star", "ring")
_SIZES = {
    # nodes of L6, joins, nodes of L8 and L9, events, repetitions
    Scale.SMOKE: (30, 3, 50, 16, 1),
    Scale.PAPER: (60, 20, 125, 60, 3),
    Scale.BEYOND: (1000, 5, 1000, 20, 1),
}


class LpbcastMembership(Experiment):
    name = "lpbcast-membership"
    title = "lpbcast: how fast a joiner is known, how often membership is gossiped, how views mix"
    claim_ids = ("L6", "L8", "L9")

    def points(self, scale: Scale) -> Sequence[Parameters]:
        small, joins, nodes, events, repetitions = _SIZES[scale]
        found: list[dict[str, Any]] = []
        for repetition in range(repetitions):
            found += [
                {"part": "joining", "membership": kind, "subs": subs, "nodes": small,
                 "events": joins, "repetition": repetition}
                for subs in (small // 4, 9 * small // 10)
                for kind in ("random", "frequency")
            ]  # fmt: skip
            base = {"nodes": nodes, "events": events, "repetition": repetition}
            for every, extra in ((4, 0), (2, 0), (1, 0), (1, 1), (1, 3)):
                found.append({"part": "frequency", "every": every, "extra": extra, **base})
            for view in (8, 15, 30):
                for part in _VIEWS:
                    found.append({"part": part, "view": view, **base})
            for start in _STARTS:
                found.append({"part": "start", "start": start, **base})
        return found

    def run(self, parameters: Parameters, seed: int) -> Row | Sequence[Row]:
        nodes, events = int(parameters["nodes"] or 0), int(parameters["events"] or 0)
        match parameters["part"]:
            case "joining":
                subs = int(parameters["subs"] or 0)
                return joining(nodes, events, str(parameters["membership"]), subs, seed)
            case "frequency":
                every, extra = int(parameters["every"] or 0), int(parameters["extra"] or 0)
                return _latency(nodes, events, seed, membership_every=every, membership_extra=extra)
            case "uniform" | "held" as part:
                size = int(parameters["view"] or 0)
                views = uniform_views(nodes, size, derive_seed(seed, "drawn"))
                return _latency(nodes, events, seed, drawn=views, held=part == "held")
            case "gossiped":
                return _latency(nodes, events, seed, view_size=int(parameters["view"] or 0))
            case _:
                return _mixing(nodes, str(parameters["start"]), seed)

    def claims(self, results: Results) -> Sequence[Claim]:
        joined = results.where(part="joining")
        return [joining_claim(joined), _frequency_claim(results), _uniform_claim(results)]

    def plots(self, results: Results) -> Sequence[Plot]:
        return [joining_plot(results.where(part="joining")), _mixing_plot(results)]


class DrawnViews:
    """Views drawn from all processes: once, or anew whenever somebody asks, which a node does once
    per round."""

    def __init__(
        self, me: NodeId, draw: Callable[[NodeId], list[Peer]], rng: Random, *, held: bool
    ) -> None:
        self._me = me
        self._draw = draw
        self._rng = rng
        self._held = draw(me) if held else None

    def sample(self, k: int) -> list[NodeId]:
        view = self._draw(self._me) if self._held is None else self._held
        return [peer.id for peer in sample(self._rng, view, k)]


def _latency(
    nodes: int,
    events: int,
    seed: int,
    drawn: Callable[[NodeId], list[Peer]] | None = None,
    held: bool = False,
    **settings: Any,
) -> Row:
    """Mean rounds until 99 % have an event; one is published per round."""
    config = paper_config(max_events=200, max_age_rounds=15, **settings)

    def factory(peer: Peer, rng: Random) -> Lpbcast:
        views = DrawnViews(peer.id, drawn, rng, held=held) if drawn else None
        return Lpbcast(peer, config, rng, views)

    system = RoundSystem(
        factory, nodes, seed, views=uniform_views(nodes, config.view_size, seed), loss=0.05
    )
    system.run(20)
    system.run(events, 1)
    system.run(_FOLLOWED)
    needed, half = [], []
    for event in system.published:
        infected = system.infected(event, _FOLLOWED)
        needed.append(crossing(infected, _SHARE * nodes))
        half.append(crossing(infected, nodes / 2))
    return {"rounds": mean(needed), "rounds_to_half": mean(half)}


def _frequency_claim(results: Results) -> Claim:
    rows = results.where(part="frequency")
    found = {
        label: mean(rows.where(every=every, extra=extra).numbers("rounds"))
        for label, every, extra in (
            ("every 4th round", 4, 0),
            ("every 2nd", 2, 0),
            ("every round", 1, 0),
            ("twice a round", 1, 1),
            ("four times", 1, 3),
        )
    }
    rarely, _, once, _, often = found.values()
    holds, parts = in_parts(
        {
            "less often (every 4th round): latency rises": rarely > once,
            "more often (four times a round): it falls": often < once,
        }
    )
    return Claim(
        id="L8",
        paper="membership gossiped less often than events: latency rises; more often: it falls",
        ours=", ".join(f"{label} {rounds:.2f}" for label, rounds in found.items())
        + " rounds to 99 %",
        holds=holds,
        detail=f"{parts}. Against every round",
    )


def _mixing(nodes: int, start: str, seed: int) -> list[Row]:
    """In-degrees and clustering of the views, by round: those of random graphs, or not."""
    config = paper_config(aligned_rounds=False)
    views = {
        "uniform": uniform_views(nodes, config.view_size, seed),
        "star": star_views,
        "ring": ring_views(nodes),
    }[start]
    system = RoundSystem(lambda peer, rng: Lpbcast(peer, config, rng), nodes, seed, views=views)
    drawn = uniform_views(nodes, config.view_size, derive_seed(seed, "drawn"))
    ideal = Overlay.from_views(
        {me: [peer.id for peer in drawn(me)] for me in range(1, nodes + 1)}
    )  # fmt: skip
    rows: list[Row] = []
    for look in range(9):
        graph = overlay(system.simulation)
        degrees = graph.in_degrees()
        rows.append(
            {
                "round": 5 * look,
                "view_mean": float(graph.out_degrees().mean()),
                "in_degree_deviation": float(degrees.std()),
                "in_degree_max": int(degrees.max()),
                "clustering": graph.clustering(),
                "drawn_deviation": float(ideal.in_degrees().std()),
                "drawn_clustering": ideal.clustering(),
            }
        )
        system.run(5)
    return rows


def _uniform_claim(results: Results) -> Claim:
    views = sorted(set(results.where(part="held").numbers("view")))
    spans = {}
    for part in _VIEWS:
        rounds = [mean(results.where(part=part, view=v).numbers("rounds")) for v in views]
        spans[part] = max(rounds) - min(rounds)
    rows = results.where(part="start")
    last = max(rows.numbers("round"))
    ends = {
        start: (
            mean(rows.where(start=start, round=last).numbers("in_degree_deviation")),
            mean(rows.where(start=start, round=last).numbers("clustering")),
        )
        for start in _STARTS
    }
    drawn = mean(rows.numbers("drawn_deviation")), mean(rows.numbers("drawn_clustering"))
    holds, parts = in_parts(
        {
            "a star and a ring become what a uniform start becomes": all(
                _alike(ends[start], ends["uniform"]) for start in ("star", "ring")
            ),
            "which is what uniform views are": all(_alike(end, drawn) for end in ends.values()),
            f"held uniform views of different sizes are less than {_NO_EFFECT} rounds apart": spans[
                "held"
            ]
            < _NO_EFFECT,
        }
    )
    return Claim(
        id="L9",
        paper="a star and a ring converge to uniform views; with artificial uniform views the view "
        "size has no effect",
        ours=f"after {last:g} rounds "
        + ", ".join(
            f"{start}: in-degree ±{deviation:.2f}, clustering {clustering:.3f}"
            for start, (deviation, clustering) in ends.items()
        )
        + f"; views drawn uniformly: ±{drawn[0]:.2f}, {drawn[1]:.3f}; views of {views[0]:g} to "
        f"{views[-1]:g} are {spans['held']:.2f} rounds apart if uniform and held, "
        f"{spans['gossiped']:.2f} if gossiped, {spans['uniform']:.2f} if drawn anew in every round",
        holds=holds,
        detail=f"{parts}. Alike means within a quarter; drawn anew in every round, the size cannot "
        f"matter: what differs there is chance; {OURS}",
    )


def _alike(found: tuple[float, float], other: tuple[float, float]) -> bool:
    """In-degree deviation and clustering."""
    return all(abs(a - b) < _WITHIN * b for a, b in zip(found, other, strict=True))


def _mixing_plot(results: Results) -> Plot:
    figure, axes = new_figure("rounds", "deviation of the in-degree")
    for start in _STARTS:
        rows = results.where(part="start", start=start)
        rounds = sorted(set(rows.numbers("round")))
        curve = [mean(rows.where(round=r).numbers("in_degree_deviation")) for r in rounds]
        axes.plot(np.array(rounds), curve, ".-", label=f"started as {start}")
    drawn = mean(results.where(part="start").numbers("drawn_deviation"))
    axes.axhline(drawn, color="0.5", linestyle="--", label="drawn uniformly")
    axes.set_yscale("log")
    axes.legend()
    return Plot("mixing", "Views that begin uniform, as a star, as a ring (section 8.1).", figure)
