"""Claim S1: how many events a second one, two and three real proxies take, store and spread.

Figure 4(a) of Sprinkler, on processes of this machine: `geo_load` says how. The paper gives every
process a machine of its own; here proxies, drivers and agents share the cores there are, so each
further region, which handles the events of all others too, takes its share from them. Unlike the
other experiments this one measures: run it while nothing else wants the machine.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from statistics import mean

from epicast.experiments.geo_load import LATEST_PER_KEY, PAPER_POLICY, measure
from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.results import Results
from epicast.reporting import new_figure

_POLICIES = {"paper": PAPER_POLICY, "latest_per_key": LATEST_PER_KEY}
_RUNS = {
    # proxies, policies, seconds, repetitions
    Scale.SMOKE: ((1, 3), ("latest_per_key",), 0.5, 1),
    Scale.PAPER: ((1, 2, 3), ("paper", "latest_per_key"), 3.0, 3),
    Scale.BEYOND: ((1, 2, 3), ("latest_per_key",), 20.0, 5),
}
_PAPER_RATE = 2.6e6
"""With three proxies; 2.7e6 at the most."""


class SprinklerProcesses(Experiment):
    name = "sprinkler-processes"
    title = "Events per second of one, two and three real proxies"
    claim_ids = ("S1",)

    def points(self, scale: Scale) -> Sequence[Parameters]:
        # A single point: runs side by side would take the machine from each other.
        return [{"scale": scale.value}]

    def run(self, parameters: Parameters, seed: int) -> Sequence[Row]:
        proxies, policies, seconds, repetitions = _RUNS[Scale(str(parameters["scale"]))]
        rows: list[Row] = []
        for repetition in range(repetitions):
            for policy in policies:
                for count in proxies:
                    found = measure(count, _POLICIES[policy], seconds)
                    rows.append(
                        {
                            "proxies": count,
                            "policy": policy,
                            "repetition": repetition,
                            "seconds": seconds,
                            "cores": os.cpu_count() or 1,
                            "events_per_s": found.events_per_s,
                            "p50_ms": found.p50_ms,
                            "p99_ms": found.p99_ms,
                            "as_rows": found.rows_share,
                        }
                    )
        return rows

    def claims(self, results: Results) -> Sequence[Claim]:
        return [_judge(results)]

    def plots(self, results: Results) -> Sequence[Plot]:
        figure, axes = new_figure("proxies", "million events/s to every agent")
        for policy in results.distinct("policy"):
            rates = _rates(results, str(policy))
            means = [mean(values) / 1e6 for values in rates.values()]
            spread = [
                [mean(values) / 1e6 - min(values) / 1e6 for values in rates.values()],
                [max(values) / 1e6 - mean(values) / 1e6 for values in rates.values()],
            ]
            axes.errorbar(list(rates), means, spread, marker="o", capsize=3, label=str(policy))
        axes.axhspan(2.6, 2.7, color="0.8", label="paper, 3 proxies")
        axes.set_ylim(bottom=0)
        axes.legend()
        caption = "Aggregate throughput with collection on: mean, least and most of all runs."
        return [Plot("throughput", caption, figure)]


def _rates(results: Results, policy: str) -> dict[int, list[float]]:
    part = results.where(policy=policy)
    counts = sorted({int(count) for count in part.numbers("proxies")})
    return {count: part.where(proxies=count).numbers("events_per_s") for count in counts}


def _judge(results: Results) -> Claim:
    policies = [str(policy) for policy in results.distinct("policy")]
    rates = {policy: _rates(results, policy) for policy in policies}
    means = {
        policy: {count: mean(values) for count, values in by_count.items()}
        for policy, by_count in rates.items()
    }
    judged = means[policies[0]]
    fast = judged[max(judged)] >= _PAPER_RATE
    falls = judged[max(judged)] < judged[min(judged)]
    latency = max(results.where(proxies=3).numbers("p99_ms"))
    return Claim(
        id="S1",
        paper="aggregate peak 2.6 to 2.7 M events/s with 3 proxies; falls slightly as proxies are "
        "added",
        ours="; ".join(
            f"{policy}: "
            + ", ".join(f"{rate / 1e6:.1f} M with {count}" for count, rate in by_count.items())
            for policy, by_count in means.items()
        ),
        holds=fast and falls,
        detail=f"judged by policy {policies[0]}: at least {_PAPER_RATE / 1e6:.1f} M with 3, and "
        f"less than with 1; p99 to every agent at most {latency:.0f} ms; everything delivered was "
        "compared with what was published. The paper had a machine per process, this "
        f"{results.rows[0]['cores']} cores for all of them, so adding proxies costs more",
    )
