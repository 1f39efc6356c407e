"""Claims L4 and L5: age-based against random purging of events.

Figures 10 to 13 of the lpbcast paper: 60 processes, fanout 4, room for 30 events, 30 published per
round; with failures, 5 % of the processes have crashed and 10 % of the messages are lost. The paper
measured its prototype, whose processes gossip when they please: here too rounds are not aligned,
and events are published at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from epicast.experiments.gossip_rounds import RoundSystem, paper_config, uniform_views
from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.results import Results
from epicast.experiments.verdicts import OURS, in_parts
from epicast.protocols.lpbcast import Lpbcast
from epicast.reporting import new_figure

_FANOUT, _BUFFER, _RATE = 4, 30, 30
_STABLE = 0.9
"""Share of the events that must reach everybody for a rate to count as sustained."""
_CRASHES, _LOSS = 0.05, 0.1
_WARM_UP, _DRAIN = 10, 12
_CONSIDERABLE = 0.05
"""A difference in the delivery ratio from which on it is one worth the name."""
_NO_LESS = 0.01
_RATES: dict[Scale, tuple[float, ...]] = {
    Scale.SMOKE: (4, 12, 30),
    Scale.PAPER: (1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 25, 30, 40),
    Scale.BEYOND: (1, 2, 4, 6, 8, 10, 12, 16, 20, 30),
}
_SIZES = {Scale.SMOKE: (60, 14, 1), Scale.PAPER: (60, 60, 3), Scale.BEYOND: (1000, 40, 1)}
"""Nodes, rounds, repetitions."""


class LpbcastPurging(Experiment):
    name = "lpbcast-purging"
    title = "lpbcast: random and age-based purging of events, by rate and under failures"
    claim_ids = ("L4", "L5")

    def points(self, scale: Scale) -> Sequence[Parameters]:
        nodes, rounds, repetitions = _SIZES[scale]
        conditions = [(rate, False) for rate in _RATES[scale]] + [(_RATE, True)]
        return [
            {
                "rate": rate,
                "failures": failures,
                "purging": purging,
                "nodes": nodes,
                "rounds": rounds,
                "repetition": repetition,
            }
            for repetition in range(repetitions)
            for rate, failures in conditions
            for purging in ("random", "age")
        ]

    def run(self, parameters: Parameters, seed: int) -> Row:
        nodes, rounds = int(parameters["nodes"] or 0), int(parameters["rounds"] or 0)
        rate, failures = float(parameters["rate"] or 0), bool(parameters["failures"])
        config = paper_config(
            aligned_rounds=False,
            fanout=_FANOUT,
            max_events=_BUFFER,
            purging=str(parameters["purging"]),
        )
        system = RoundSystem(
            lambda peer, rng: Lpbcast(peer, config, rng),
            nodes,
            seed,
            views=uniform_views(nodes, config.view_size, seed),
            loss=_LOSS if failures else 0.0,
        )
        system.run(_WARM_UP)
        if failures:
            system.crash(_CRASHES)
        system.run(rounds + _DRAIN, rate, at_once=False)
        events = system.events_between(_WARM_UP + 5, _WARM_UP + rounds)
        reached = [system.reached(event) / system.alive for event in events]
        duplicates, delivered = system.statistic("duplicates"), system.statistic("delivered")
        return {
            "delivery": mean(reached),
            "stable": mean(share >= 1 for share in reached),
            "redundant": duplicates / max(1, duplicates + delivered),
            "events": len(events),
        }

    def claims(self, results: Results) -> Sequence[Claim]:
        whole, failing = results.where(failures=False), results.where(failures=True)
        age, random = (mean_by_rate(whole, purging, "delivery") for purging in ("age", "random"))
        redundant = [mean_by_rate(whole, p, "redundant")[_RATE] for p in ("age", "random")]
        sustained = {purging: throughput(whole, purging) for purging in ("random", "age")}
        gain = {rate: age[rate] - random[rate] for rate in age}
        slowest = min(gain)
        failed = {p: mean_by_rate(failing, p, "delivery")[_RATE] for p in ("random", "age")}
        l4, l4_parts = in_parts(
            {
                f"more than {_CONSIDERABLE} more delivered": gain[_RATE] > _CONSIDERABLE,
                "throughput at least doubled": sustained["age"] >= 2 * sustained["random"],
                "fewer redundant messages": redundant[0] < redundant[1],
                "the gain shrinks at low rates": gain[slowest] < gain[_RATE],
            }
        )
        cost = {"age": age[_RATE] - failed["age"], "random": random[_RATE] - failed["random"]}
        l5, l5_parts = in_parts(
            {
                "under failures age-based purging delivers no less than random": failed["age"]
                >= failed["random"] - _NO_LESS,
                f"failures cost age-based purging less than {_CONSIDERABLE}": cost["age"]
                < _CONSIDERABLE,
            }
        )
        return [
            Claim(
                id="L4",
                paper="delivery ratio considerably higher, throughput at 90 % stability at least "
                "doubled, fewer redundant messages; the gain shrinks at low rates",
                ours=f"at {_RATE} per round {age[_RATE]:.3f} against {random[_RATE]:.3f} delivered "
                f"and {redundant[0]:.3f} against {redundant[1]:.3f} redundant; "
                f"{sustained['age']:.1f} against {sustained['random']:.1f} events per round "
                f"sustained; at {slowest:g} per round {gain[slowest]:+.3f}",
                holds=l4,
                detail=f"{l4_parts}. Age-based against random purging; sustained is where the "
                "share of events that reach everybody falls below 90 %, between the rates tried; "
                f"{OURS}",
            ),
            Claim(
                id="L5",
                paper="with 5 % crashes and 10 % loss the delivery ratio is almost the same for "
                "both: age-based purging costs no robustness",
                ours=f"under failures {failed['age']:.3f} delivered with age-based, "
                f"{failed['random']:.3f} with random purging; without failures {age[_RATE]:.3f} "
                f"and {random[_RATE]:.3f}: failures cost {cost['age']:.3f} and "
                f"{cost['random']:.3f}",
                holds=l5,
                detail=f"{l5_parts}. {_RATE} events per round, of the processes that have not "
                f"crashed; no less: by at most {_NO_LESS}; {OURS}. The paper's sentence can be "
                "read either way; in a third, that both kinds of purging deliver the same, they "
                f"are {failed['age'] - failed['random']:+.3f} apart",
            ),
        ]

    def plots(self, results: Results) -> Sequence[Plot]:
        whole = results.where(failures=False)
        return [
            _plot(whole, "delivery", "delivery ratio", "Delivered by rate (Figure 10)."),
            _plot(whole, "stable", "share of events everybody got", "Stability (Figure 11)."),
            _plot(whole, "redundant", "redundant share", "Redundant events (Figure 12)."),
        ]


def throughput(results: Results, purging: str) -> float:
    """The rate at which stability falls below the bar, on a line between the rates around it."""
    stable = sorted(mean_by_rate(results, purging, "stable").items())
    before_rate, before = 0.0, 1.0
    for rate, share in stable:
        if share < _STABLE:
            part = (before - _STABLE) / (before - share) if before > share else 0.0
            return before_rate + part * (rate - before_rate)
        before_rate, before = rate, share
    return before_rate


def mean_by_rate(results: Results, purging: str, column: str) -> dict[float, float]:
    """Of the rows with one kind of purging."""
    rows = results.where(purging=purging)
    rates = sorted(set(rows.numbers("rate")))
    return {rate: mean(rows.where(rate=rate).numbers(column)) for rate in rates}


def _plot(results: Results, column: str, label: str, caption: str) -> Plot:
    figure, axes = new_figure("events published per round", label)
    for purging in ("random", "age"):
        found = mean_by_rate(results, purging, column)
        axes.plot(list(found), list(found.values()), ".-", label=f"{purging} purging")
    axes.legend()
    return Plot(column, caption, figure)
