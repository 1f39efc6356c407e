"""Claim L7: pbcast with the views and the purging of lpbcast, beside lpbcast.

Section 8.2 of the lpbcast paper, Figures 17 and 18. The first phase is left out and gossip carries
the events, as there. In how many rounds a process gossips an event the paper does not say: here in
one, the strictest limit there is, or in four, for at most ten hops.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import mean
from typing import Any

from epicast.core import Peer, Protocol
from epicast.experiments.gossip_rounds import (
    ROUND_NS,
    RoundSystem,
    paper_config,
    uniform_views,
)
from epicast.experiments.lpbcast_purging import mean_by_rate, throughput
from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.results import Results
from epicast.experiments.verdicts import OURS, crossing, in_parts
from epicast.protocols.catalog import stack_factory
from epicast.protocols.lpbcast import Lpbcast
from epicast.protocols.membership import FullMembership
from epicast.protocols.pbcast import Pbcast, PbcastConfig
from epicast.reporting import new_figure
from epicast.sim.node import ProtocolFactory

_FOLLOWED = 12
_RISING = (3, 4, 5)
"""Rounds in which an event is on its way; later ones show only where curves end."""
_SHARE = 0.99
_AS_MANY, _RISING_ALIKE, _AS_FAST = 0.02, 0.05, 0.5
"""Shares of the processes, and rounds, by which curves may differ and still be alike."""
_WARM_UP, _DRAIN = 10, 12
_STRICT, _LENIENT, _HOPS = 1, 4, 10
_SYSTEMS = {
    # nodes, events per round, buffer, view sizes, rounds, repetitions
    Scale.SMOKE: (50, 16, 24, (8, 24), 12, 1),
    Scale.PAPER: (125, 40, 60, (15, 20, 25, 30, 35), 30, 3),
    Scale.BEYOND: (1000, 40, 60, (15, 60), 20, 1),
}
_PURGING = {
    # nodes, rates, rounds
    Scale.SMOKE: (30, (2.0, 20.0), 12),
    Scale.PAPER: (60, (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0), 40),
    Scale.BEYOND: (1000, (2.0, 8.0, 30.0), 20),
}
_CURVES = (("pbcast, all known", 5), ("pbcast, partial views", 5), ("lpbcast", 5), ("lpbcast", 3))
_LOADS = (
    ("pbcast", 3, _STRICT),
    ("pbcast", 5, _STRICT),
    ("pbcast", 3, _LENIENT),
    ("pbcast", 5, _LENIENT),
    ("lpbcast", 3, 0),
    ("lpbcast", 5, 0),
)
"""Protocol, fanout, rounds in which a process gossips an event."""


class PbcastComparison(Experiment):
    name = "pbcast-comparison"
    title = "pbcast over full and partial views, with both ways of purging, beside lpbcast"
    claim_ids = ("L7",)

    def points(self, scale: Scale) -> Sequence[Parameters]:
        nodes, rate, buffer, views, rounds, repetitions = _SYSTEMS[scale]
        small, rates, long = _PURGING[scale]
        found: list[dict[str, Any]] = []
        for repetition in range(repetitions):
            base = {"repetition": repetition}
            for protocol, fanout in _CURVES:
                found.append(
                    {"part": "curve", "protocol": protocol, "fanout": fanout, "nodes": nodes,
                     "limit": _LENIENT, "view": views[0], "rounds": rounds, **base}
                )  # fmt: skip
            loads = [(views[0], *load) for load in _LOADS]
            loads += [(view, "pbcast", 5, _LENIENT) for view in views[1:]]
            found += [
                {"part": "load", "protocol": protocol, "fanout": fanout, "limit": limit,
                 "nodes": nodes, "view": view, "rate": rate, "buffer": buffer, "rounds": rounds,
                 **base}
                for view, protocol, fanout, limit in loads
            ]  # fmt: skip
            found += [
                {"part": "purging", "purging": purging, "rate": each, "nodes": small,
                 "limit": _LENIENT, "rounds": long, **base}
                for each in rates
                for purging in ("random", "age")
            ]  # fmt: skip
        return found

    def run(self, parameters: Parameters, seed: int) -> Row | Sequence[Row]:
        nodes, rounds = int(parameters["nodes"] or 0), int(parameters["rounds"] or 0)
        view, fanout = int(parameters.get("view") or 15), int(parameters.get("fanout") or 5)
        protocol = str(parameters.get("protocol") or "pbcast")
        rate = float(parameters.get("rate") or 1)
        settings: dict[str, Any] = {"fanout": fanout, "aligned_rounds": True}
        match parameters["part"]:
            case "curve":
                settings["max_events"] = 200
            case "load":
                settings |= {"max_events": int(parameters["buffer"] or 0), "purging": "random"}
            case _:
                settings |= {"max_events": 30, "purging": str(parameters["purging"]),
                             "aligned_rounds": False}  # fmt: skip
        system = RoundSystem(
            _factory(protocol, nodes, view, int(parameters["limit"] or 0), settings),
            nodes,
            seed,
            views=uniform_views(nodes, view, seed),
            loss=0.05 if parameters["part"] == "curve" else 0.0,
        )
        system.run(_WARM_UP)
        system.run(rounds + _DRAIN, rate, at_once=bool(settings["aligned_rounds"]))
        events = system.events_between(_WARM_UP + 5, _WARM_UP + rounds)
        reached = [system.reached(event) / nodes for event in events]
        found: dict[str, Any] = {
            "reliability": mean(reached),
            "delivery": mean(reached),
            "stable": mean(share >= 1 for share in reached),
        }
        if parameters["part"] != "curve":
            return found
        curves = [system.infected(event, _FOLLOWED) for event in events]
        return [
            {"round": number, "infected": mean(curve[number] for curve in curves) / nodes, **found}
            for number in range(_FOLLOWED + 1)
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        load, purging = results.where(part="load"), results.where(part="purging")
        least = min(load.numbers("view"))
        found = {
            (protocol, fanout, limit): mean(
                load.where(protocol=protocol, fanout=fanout, limit=limit, view=least).numbers(
                    "reliability"
                )
            )
            for protocol, fanout, limit in _LOADS
        }
        age, random = (mean_by_rate(purging, kind, "delivery") for kind in ("age", "random"))
        fastest = max(age)
        sustained = {kind: throughput(purging, kind) for kind in ("age", "random")}
        full, partial = (
            mean_curve(results.where(part="curve", protocol=protocol))
            for protocol in ("pbcast, all known", "pbcast, partial views")
        )
        behind = {number: full[number] - partial[number] for number in _RISING}
        full_rounds, partial_rounds = (crossing(curve, _SHARE) for curve in (full, partial))
        holds, verdict = in_parts(
            {
                f"partial views reach as many as full ones by round {_FOLLOWED}": abs(
                    partial[-1] - full[-1]
                )
                < _AS_MANY,
                f"and as many in rounds {_RISING[0]} to {_RISING[-1]}": max(
                    map(abs, behind.values())
                )
                < _RISING_ALIKE,
                f"and {_SHARE:.0%} as fast": abs(partial_rounds - full_rounds) < _AS_FAST,
                "age-based purging delivers more and sustains more": age[fastest] > random[fastest]
                and sustained["age"] > sustained["random"],
                "pbcast needs F = 5 where lpbcast needs 3": found["pbcast", 3, _STRICT]
                < found["lpbcast", 3, 0]
                <= found["pbcast", 5, _STRICT] + 0.01,
                "lpbcast is more reliable in the same setting": all(
                    found["lpbcast", fanout, 0] > found["pbcast", fanout, limit]
                    for fanout in (3, 5)
                    for limit in (_STRICT, _LENIENT)
                ),
            }
        )
        delivered = ", ".join(
            f"{protocol} F = {fanout}{f' in {limit} round(s)' if limit else ''}: {value:.3f}"
            for (protocol, fanout, limit), value in found.items()
        )
        rising = ", ".join(
            f"{partial[number]:.3f} and {full[number]:.3f} in round {number}" for number in _RISING
        )
        return [
            Claim(
                id="L7",
                paper="similar gains from partial views and age-based purging; F = 5 needed where "
                "lpbcast needs 3; in the same setting lpbcast is more reliable",
                ours=f"{delivered} delivered under load; pbcast infects with partial and full "
                f"views {rising}, {partial[-1]:.3f} and {full[-1]:.3f} in round {_FOLLOWED}, and "
                f"needs {partial_rounds:.2f} and {full_rounds:.2f} rounds to {_SHARE:.0%}; "
                f"age-based against random purging {age[fastest]:.3f} against "
                f"{random[fastest]:.3f} delivered at {fastest:g} per round, {sustained['age']:.1f} "
                f"against {sustained['random']:.1f} events per round sustained",
                holds=holds,
                detail=f"{verdict}. As many: less than {_AS_MANY} of the processes apart at the "
                f"end and {_RISING_ALIKE} while the event spreads; as fast: less than {_AS_FAST} "
                f"rounds apart; {OURS}",
            )
        ]

    def plots(self, results: Results) -> Sequence[Plot]:
        return [_curve_plot(results), _view_plot(results), _purging_plot(results)]


def _factory(
    protocol: str, nodes: int, view: int, limit: int, settings: dict[str, Any]
) -> ProtocolFactory:
    """A maker of nodes that gossip events by the protocol named."""
    membership = paper_config(view_size=view, aligned_rounds=settings["aligned_rounds"])
    if protocol == "lpbcast":
        config = paper_config(view_size=view, **settings)
        return lambda peer, rng: Lpbcast(peer, config, rng)
    pbcast = PbcastConfig(
        gossip_period_ns=ROUND_NS,
        first_phase="none",
        inline=True,
        repetitions=limit,
        max_hops=_HOPS,
        max_message_bytes=1 << 20,
        **settings,
    )
    if protocol == "pbcast, all known":
        everybody = list(range(1, nodes + 1))

        def alone(peer: Peer, rng: Random) -> Protocol[Any]:
            return Pbcast(peer, pbcast, rng, FullMembership(peer.id, everybody, rng))

        return alone
    return stack_factory(["lpbcast", "pbcast"], {"lpbcast": membership, "pbcast": pbcast})


def mean_curve(rows: Results) -> list[float]:
    """The share of the processes infected after 0, 1, … rounds."""
    rounds = range(_FOLLOWED + 1)
    return [mean(rows.where(round=number).numbers("infected")) for number in rounds]


def _curve_plot(results: Results) -> Plot:
    figure, axes = new_figure("rounds", "infected processes (%)")
    for protocol, fanout in _CURVES:
        rows = results.where(part="curve", protocol=protocol, fanout=fanout)
        curve = [100 * share for share in mean_curve(rows)]
        axes.plot(curve, ".-", label=f"{protocol}, F = {fanout}")
    axes.legend()
    return Plot("curves", "Infected processes by round (Figure 17(a)).", figure)


def _view_plot(results: Results) -> Plot:
    figure, axes = new_figure("view size", "reliability")
    rows = results.where(part="load")
    for protocol, fanout, limit in _LOADS:
        part = rows.where(protocol=protocol, fanout=fanout, limit=limit)
        views = sorted(set(part.numbers("view")))
        curve = [mean(part.where(view=view).numbers("reliability")) for view in views]
        label = f"{protocol}, F = {fanout}" + (f", {limit} round(s)" if limit else "")
        axes.plot(views, curve, ".-", label=label)
    axes.legend()
    return Plot("views", "Reliability under load by view size (Figure 17(b)).", figure)


def _purging_plot(results: Results) -> Plot:
    figure, axes = new_figure("events published per round", "delivery ratio of pbcast")
    for kind in ("random", "age"):
        found = mean_by_rate(results.where(part="purging"), kind, "delivery")
        axes.plot(list(found), list(found.values()), ".-", label=f"{kind} purging")
    axes.legend()
    return Plot("purging", "Purging in pbcast (Figure 18).", figure)
