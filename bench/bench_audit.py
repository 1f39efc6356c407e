"""The audit of many events and many more ranges, on Spark with 4 GB, beside numpy in one process.

One stream that keeps the latest event per key, published in batches of 1,000, keys drawn from
100,000. Three subscribers: two follow, in ranges of ten events; one reads history when all is over,
where most events are tombstones. Nothing is wrong with them, and the audit must say so.

Beside that, what writing such logs costs a geoplex under load.
"""

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.evidence_cost import logging_cost
from bench.evidence_files import (
    SECOND,
    MadeStream,
    acked_rows,
    got_rows,
    write_owner,
    write_publisher,
    write_subscriber,
)
from bench.harness import Bar, Figure, Result, run_child
from bench.numpy_audit import audit_in_memory

SIZE = 10
"""Events in a range."""


def run(quick: bool) -> Result:
    events = 1_000_000 if quick else 100_000_000
    folder = Path(tempfile.mkdtemp(prefix="epicast-bench-"))
    try:
        ranges = make(folder, events)
        on_spark = _measured("spark", folder)
        in_memory = _measured("numpy", folder)
        if on_spark["counts"] != in_memory["counts"] or not on_spark["holds"]:
            raise AssertionError(f"{on_spark} is not {in_memory}")
        figures: dict[str, Figure] = {
            "events": events,
            "ranges": ranges,
            "log_bytes": sum(file.stat().st_size for file in folder.rglob("*.arrow")),
            "numpy_s": round(in_memory["seconds"], 2),
            "numpy_peak_bytes": in_memory["peak_bytes"],
            "spark_peak_bytes": on_spark["peak_bytes"],
            "ranges_per_s": round(ranges / on_spark["seconds"]),
        }
        cost, of_writing = logging_cost(*((1, 1.0) if quick else (12, 8.0)))
        figures |= of_writing
        ratio = on_spark["seconds"] / in_memory["seconds"]
        bars = [
            Bar("audit_s", 300.0, "at most", on_spark["seconds"], "s"),
            Bar("vs_numpy", 3.0, "at most", ratio, "x"),
            Bar("logging_cost", 0.1, "at most", cost),
        ]
        return Result("audit", figures, bars)
    finally:
        shutil.rmtree(folder)


def make(folder: Path, events: int) -> int:
    """The logs; how many ranges subscribers have."""
    stream = MadeStream(
        events=events, keys=100_000, batch=1000, latest_per_key=True, every_ns=500_000
    )
    write_owner(folder, stream)
    write_publisher(folder, stream, acked_rows(stream))
    ranges = 0
    for name in ("one", "two"):
        rows = got_rows(stream, size=SIZE)
        ranges += len(rows["kind"])
        write_subscriber(folder, stream, rows, name)
    late = int(stream.stored[-1]) + SECOND
    rows = got_rows(stream, size=SIZE, dead=stream.superseded(), at_ns=late)
    write_subscriber(folder, stream, rows, "late")
    return ranges + len(rows["kind"])


def _measured(how: str, folder: Path) -> dict[str, Any]:
    """In a process of its own, so that neither leaves anything behind for the other."""
    child = run_child([sys.executable, "-m", "bench.bench_audit", how, str(folder)], 3600.0)
    found: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return found


class Memory:
    """The most that this process and all it started have had in memory at once."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._over.set()
        self._thread.join()
        return self.peak_bytes

    def _watch(self) -> None:
        while not self._over.wait(0.25):
            self.peak_bytes = max(self.peak_bytes, _resident(os.getpid()))


def _resident(process: int) -> int:
    """In proportion: pages that several processes share count once."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0
    own = sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    for thread in Path(f"/proc/{process}/task").iterdir():
        if thread.name != str(process):
            try:
                children += (thread / "children").read_text().split()
            except OSError:
                continue
    return own + sum(_resident(int(child)) for child in set(children))


def main(how: str, folder: Path) -> None:
    if how == "numpy":
        memory = Memory()
        started = time.perf_counter()
        result = audit_in_memory(folder)
        seconds = time.perf_counter() - started
    else:
        from epicast.pipeline.audit import audit_logs
        from epicast.pipeline.session import spark_session

        master = f"local[{os.cpu_count()}]"
        with spark_session(master, memory="4g") as spark:
            spark.range(1).count()
            memory = Memory()
            result = audit_logs(folder, spark=spark, master=master)
            seconds = result.seconds
    import msgspec

    found = {
        "seconds": seconds,
        "peak_bytes": memory.stop(),
        "holds": result.holds,
        "counts": msgspec.to_builtins(result.totals.counts),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
