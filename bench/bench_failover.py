"""How long publishers wait when a replica is killed: a chain of three at half load.

A publisher finds out how much the chain takes and goes on at half of that. Again and again the
head, the middle or the tail is killed with SIGKILL, started again after a second and a half and let
in again. The pause is the longest time without an acknowledgement from the kill until the next one:
that of the removal or that of the return, whichever is longer. Subscribers in this and in another
region check that every event comes once, in order, and is what was published.
"""

import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from bench.failover_parts import ROWS, publish, subscribe
from bench.harness import Bar, Figure, Result
from epicast.core import EpicastError
from epicast.deployment import parse_geoplex
from epicast.experiments.geo_load import wait_for_chains
from epicast.experiments.parts import Team
from epicast.geo.local import LocalGeoplex

REPLICAS = ("us/1", "us/2", "us/3")
PLACES = ("head", "middle", "tail")
_DOWN_S = 1.5
"""How long a replica stays away."""
_TEXT = """
name = "failover"
[regions.us]
replicas = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]
data = "us"
[regions.eu]
proxy = "127.0.0.1:4"
data = "eu"
[streams.s]
owner = "us"
last_n = 200_000
"""


def run(quick: bool) -> Result:
    kills = 3 if quick else 100
    with tempfile.TemporaryDirectory(prefix="epicast-failover-") as folder:
        geoplex = parse_geoplex(_TEXT, "failover", folder)
        with LocalGeoplex(geoplex, any_ports=True) as local, Team() as team:
            wait_for_chains(local)
            readers = [team.start(subscribe, local.address(r)) for r in ("us", "eu")]
            publisher = team.start(publish, local.address("us"))
            for part in (publisher, *readers):
                part.hear(60)
            publisher.tell(1.0 if quick else 4.0)
            rate = publisher.hear(60)
            killed = [_kill(local, number % len(PLACES)) for number in range(kills)]
            wait_for_chains(local)
            publisher.tell("over")
            total, acknowledged = publisher.hear(60)
            for reader in readers:
                reader.tell(total)
            reports = [reader.hear(90) for reader in readers]
    wrong = sum(report[1] for report in reports)
    missing = sum(total - report[0] for report in reports)
    failures = [report[2] for report in reports if report[2]]
    if failures:
        raise EpicastError(f"a subscriber failed: {failures}")
    return _result(rate, killed, np.array(acknowledged), wrong, missing)


def _kill(local: LocalGeoplex, place: int) -> float:
    """The replica at that place; when."""
    wait_for_chains(local)
    statuses = local.status()
    victim = next(name for name in REPLICAS if statuses[name].protocol["chain_place"] == place)
    at = time.monotonic()
    local.kill(victim)
    time.sleep(_DOWN_S)
    local.start(victim)
    return at


def _result(
    rate: float, killed: list[float], acknowledged: np.ndarray, wrong: int, missing: int
) -> Result:
    pauses: dict[str, list[float]] = {place: [] for place in PLACES}
    for number, pause in enumerate(_pauses(killed, acknowledged)):
        pauses[PLACES[number % len(PLACES)]].append(pause)
    under_way = acknowledged[acknowledged > killed[0]]
    figures: dict[str, Figure] = {
        "half_load_events_per_s": round(rate),
        "acknowledged_events_per_s": round(len(under_way) * ROWS / (under_way.max() - killed[0])),
        "kills": len(killed),
    }
    bars = []
    for place, found in pauses.items():
        figures[f"{place}_p50_s"] = round(float(np.median(found)), 3)
        figures[f"{place}_worst_s"] = round(max(found), 3)
        p99 = float(np.percentile(found, 99))
        bars.append(Bar(f"{place}_p99_s", 1.0, "at most", p99, "s"))
    bars.append(Bar("lost", 0, "at most", missing))
    bars.append(Bar("wrong_or_twice", 0, "at most", wrong))
    return Result("failover", figures, bars)


def _pauses(killed: list[float], acknowledged: np.ndarray) -> Iterator[float]:
    """For each kill, the longest time between two acknowledgements that reaches into the time
    from it to the next one."""
    times = np.sort(acknowledged)
    for at, end in pairwise([*killed, np.inf]):
        first = max(0, np.searchsorted(times, at, side="right") - 1)
        window = times[first : np.searchsorted(times, end) + 1]
        yield float(np.diff(window).max(initial=0.0))
