"""What writing evidence costs a geoplex under full load: `bench geo` with and without, in turns."""

import shutil
import statistics
import tempfile
from pathlib import Path

from epicast.experiments.geo_load import LATEST_PER_KEY, measure

REGIONS = 3


def logging_cost(rounds: int, seconds: float) -> tuple[float, dict[str, float]]:
    """The share of the throughput it costs, and the figures that come from."""
    plain, logged, written = [], [], []
    for _ in range(rounds):
        plain.append(measure(REGIONS, LATEST_PER_KEY, seconds).events_per_s)
        folder = Path(tempfile.mkdtemp(prefix="epicast-evidence-"))
        try:
            logged.append(measure(REGIONS, LATEST_PER_KEY, seconds, evidence=folder).events_per_s)
            written.append(sum(file.stat().st_size for file in folder.rglob("*.arrow")))
        finally:
            shutil.rmtree(folder)
    without, with_logs = statistics.median(plain), statistics.median(logged)
    figures = {
        "geo_events_per_s": round(without),
        "geo_events_per_s_with_evidence": round(with_logs),
        "evidence_mb_per_round": round(statistics.median(written) / 1e6),
    }
    return 1 - with_logs / without, figures
