"""A link between two regions fails: how long do events of the far region fail to come?

Three regions, real processes on loopback; events of one are read in another while the link between
them swallows everything, or breaks. 100,000 events per second in batches of 5 ms. They have to come
again, by way of the third region, within the period of advertisements (or C divided by the events
missed, if that is longer) and a round trip, which is next to nothing here; what was missed has to
have come before the link is mended; nothing may be lost. The worst of five outages of each kind
counts.
"""

import statistics

from bench.harness import Bar, Figure, Result
from epicast.experiments.geo_cut import Failure, measure

FAILURES: tuple[Failure, ...] = ("swallows", "breaks", "deaf")


def run(quick: bool) -> Result:
    rounds, outage_s = (1, 1.0) if quick else (5, 3.0)
    figures: dict[str, Figure] = {}
    bars: list[Bar] = []
    lost = 0
    for how in FAILURES:
        found = [measure(how, outage_s=outage_s) for _ in range(rounds)]
        bound = min(outage.bound_ms for outage in found)
        stalled = [outage.stalled_ms for outage in found]
        figures[f"{how}_median_ms"] = round(statistics.median(stalled), 1)
        figures[f"{how}_drained_ms"] = round(max(outage.drained_ms for outage in found), 1)
        figures[f"{how}_switches"] = max(outage.switches for outage in found)
        bars.append(Bar(f"{how}_stalled_ms", bound, "at most", max(stalled), "ms"))
        lost += sum(outage.lost for outage in found)
    return Result("cut", figures, [*bars, Bar("lost", 0, "at most", lost, "events")])
