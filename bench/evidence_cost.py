"""What writing evidence costs a geoplex under full load: `bench geo` with and without, in turns."""

import statistics
import tempfile
from pathlib import Path

from epicast.experiments.geo_load import LATEST_PER_KEY, measure

REGIONS = 3


def logging_cost(rounds: int, seconds: float) -> tuple[float, dict[str, float]]:
    """The share of the throughput it costs, and the figures that come from.

    Neighbouring runs differ by a tenth whatever they do, and the machine changes over minutes: what
    counts is the median of many ratios, each of two runs one after the other, the first of which is
    with evidence every other time.
    """
    plain, logged, written = [], [], []
    for number in range(rounds):
        for with_evidence in (number % 2 == 1, number % 2 == 0):
            if not with_evidence:
                plain.append(measure(REGIONS, LATEST_PER_KEY, seconds).events_per_s)
                continue
            with tempfile.TemporaryDirectory(prefix="epicast-evidence-") as name:
                folder = Path(name)
                found = measure(REGIONS, LATEST_PER_KEY, seconds, evidence=folder)
                logged.append(found.events_per_s)
                written.append(sum(file.stat().st_size for file in folder.rglob("*.arrow")))
    shares = [1 - there / without for without, there in zip(plain, logged, strict=True)]
    low, cost, high = _quartiles(shares)
    figures = {
        "geo_events_per_s": round(statistics.median(plain)),
        "geo_events_per_s_with_evidence": round(statistics.median(logged)),
        "logging_cost_lower_quartile": round(low, 3),
        "logging_cost_upper_quartile": round(high, 3),
        "evidence_mb_per_round": round(statistics.median(written) / 1e6),
    }
    return cost, figures


def _quartiles(values: list[float]) -> list[float]:
    if len(values) == 1:
        return values * 3
    return statistics.quantiles(values, n=4, method="inclusive")
