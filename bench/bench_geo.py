"""Claim S1 on real processes: events published in every region, delivered to an agent in every
region, with garbage collection on, against a bare relay of the same bytes.

Each region has a proxy, a driver and an agent, all processes of their own on loopback. Drivers
publish batches of 1,000 events of 10 bytes, keys drawn anew, as fast as they are acknowledged; an
event counts once every agent has it. Agents check every event by its digest, and the histories of
the proxies must be what the `filter` of the paper leaves. The bare relay moves the same bytes in
the same topology and does nothing else.
"""

from collections.abc import Callable

import numpy as np

from bench import bare_relay
from bench.harness import Bar, Figure, Rates, Result
from epicast.experiments.geo_load import LATEST_PER_KEY, PAPER_POLICY, Measured, measure


def run(quick: bool) -> Result:
    seconds, rounds = (1.0, 1) if quick else (6.0, 5)
    figures: dict[str, Figure] = {}
    ours, bare = [], []
    best: list[Measured] = []
    for _ in range(rounds):
        best.append(measure(3, LATEST_PER_KEY, seconds))
        ours.append(best[-1].events_per_s)
        bare.append(bare_relay.run(3, min(seconds, 3.0)))
    ratio = Rates(tuple(ours)).over(Rates(tuple(bare)))
    figures["bare_relay_events_per_s"] = round(Rates(tuple(bare)).median)
    figures["p50_ms"] = round(float(np.median([m.p50_ms for m in best])), 1)
    figures["delivered_as_rows"] = round(min(m.rows_share for m in best), 4)
    figures["client_cpu_s"] = round(best[-1].cpu_s, 2)
    for regions in (1, 2):
        other = measure(regions, LATEST_PER_KEY, seconds)
        figures[f"{regions}_proxies_events_per_s"] = round(other.events_per_s)
        figures[f"{regions}_proxies_p99_ms"] = round(other.p99_ms, 1)
    paper = measure(3, PAPER_POLICY, min(seconds, 4.0))
    figures["paper_policy_events_per_s"] = round(paper.events_per_s)
    figures["paper_policy_p99_ms"] = round(paper.p99_ms, 1)
    disk = measure(3, LATEST_PER_KEY, seconds, disk=True)
    figures["disk_events_per_s"] = round(disk.events_per_s)
    figures["disk_p99_ms"] = round(disk.p99_ms, 1)
    return Result(
        "geo",
        figures,
        [
            Bar("events_per_s", 5e6, "at least", Rates(tuple(ours)).median, "1/s"),
            Bar("vs_bare_relay", 0.25, "at least", ratio, "x"),
            Bar("p99_ms", 250, "at most", float(np.median([m.p99_ms for m in best])), "ms"),
        ],
    )


def speeds() -> dict[str, Callable[[], float]]:
    """For `bench.compare`."""
    return {"events_per_s": lambda: measure(3, LATEST_PER_KEY, 6.0).events_per_s}
