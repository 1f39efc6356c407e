"""What replication costs: `bench geo` with every region a chain of three, against single proxies.

Nine proxies, three drivers and three agents on the cores there are; every event is stored nine
times instead of three times. Rounds of one and of the other take turns.
"""

from bench.harness import Bar, Figure, Rates, Result
from epicast.experiments.geo_load import LATEST_PER_KEY, measure

REPLICAS = 3


def run(quick: bool) -> Result:
    seconds, rounds = (2.0, 1) if quick else (6.0, 3)
    single, chained = [], []
    figures: dict[str, Figure] = {}
    for _ in range(rounds):
        single.append(measure(3, LATEST_PER_KEY, seconds).events_per_s)
        measured = measure(3, LATEST_PER_KEY, seconds, replicas=REPLICAS)
        chained.append(measured.events_per_s)
        figures["chained_p99_ms"] = round(measured.p99_ms, 1)
    figures["single_events_per_s"] = round(Rates(tuple(single)).median)
    figures["chained_events_per_s"] = round(Rates(tuple(chained)).median)
    if not quick:
        disk = measure(3, LATEST_PER_KEY, seconds, replicas=REPLICAS, disk=True)
        figures["chained_disk_events_per_s"] = round(disk.events_per_s)
        figures["chained_disk_p99_ms"] = round(disk.p99_ms, 1)
    ratio = Rates(tuple(chained)).over(Rates(tuple(single)))
    return Result("chain", figures, [Bar("vs_single", 0.25, "at least", ratio, "x")])
