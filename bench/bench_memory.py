"""Resident memory after 10^8 events over 10^5 keys, of which all but the latest were collected.

* `uniform`: every key is as likely as any other.
* `rare_keys`: 1,000 keys get nearly everything; each of the others comes once, so that every old
  batch keeps one event that is never collected.

Each runs in a process of its own. The memory it starts with is taken before numba is imported.
"""

import json
import subprocess
import sys
import time

from bench.harness import Bar, Figure, Result
from bench.streams import KEY_BYTES, STREAM, KeyedStream
from epicast.log import GcPolicy, History

KEYS = 100_000
HOT_KEYS = 1_000
ROWS = 1_000
WORKLOADS = ("uniform", "rare_keys")


def run(quick: bool) -> Result:
    events = 2_000_000 if quick else 100_000_000
    figures: dict[str, Figure] = {"events": events}
    growth = []
    for workload in WORKLOADS:
        command = [sys.executable, "-m", "bench.bench_memory", workload, str(events)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        found = json.loads(done.stdout)
        growth.append(found.pop("growth_mb"))
        figures |= {f"{workload}_{name}": value for name, value in found.items()}
        figures[f"{workload}_growth_mb"] = growth[-1]
    return Result("memory", figures, [Bar("growth_mb", 300, "at most", max(growth), "MB")])


def measure(workload: str, events: int) -> dict[str, float]:
    source = KeyedStream(KEYS if workload == "uniform" else HOT_KEYS, ROWS)
    own_keys = 0 if workload == "uniform" else KEYS - HOT_KEYS
    start_mb = resident_mb()
    history = History.in_memory(STREAM, policy=GcPolicy(latest_per_key=True))
    batches = events // ROWS
    highest_mb = 0.0
    elapsed = 0.0
    for number in range(batches):
        own = number * own_keys // batches if own_keys else 0
        before = (number - 1) * own_keys // batches if own_keys else 0
        own_key = own.to_bytes(KEY_BYTES, "little") if own != before else b""
        batch = source.batch(number * ROWS + 1, own_key)
        start = time.perf_counter()
        history.append(batch)
        elapsed += time.perf_counter() - start
        if number % 1000 == 0:
            highest_mb = max(highest_mb, resident_mb())
    end_mb = resident_mb()
    statistics = history.statistics()
    return {
        "growth_mb": round(end_mb - start_mb, 1),
        "highest_growth_mb": round(max(highest_mb, end_mb) - start_mb, 1),
        "live_events": statistics.live_events,
        "stored_bytes": statistics.stored_bytes,
        "index_bytes": statistics.index_bytes,
        "events_per_s": round(events / elapsed),
    }


def resident_mb() -> float:
    with open("/proc/self/statm") as memory:
        return int(memory.read().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
