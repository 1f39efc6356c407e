"""A workload of 10^9 Zipf events generated and written on Spark, and the last event of every key.

Both are also done by plain numpy in one process, for a part of the same events, so that the figures
say what Spark adds and what two cores are good for. The results of both ways must be the same.
Starting the session is not counted.
"""

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.harness import Bar, Figure, Result
from epicast.pipeline.session import spark_session
from epicast.pipeline.workloads.chunks import ChunkMaker
from epicast.pipeline.workloads.files import EVENTS, chunk_path, read_columns, write_chunk
from epicast.pipeline.workloads.generating import generate
from epicast.pipeline.workloads.last_events import count_last_events
from epicast.pipeline.workloads.manifest import Workload
from epicast.pipeline.workloads.spec import WorkloadSpec

KEYS = 1_000_000
GENERATE_BAR_S = 480.0
LAST_BAR_S = 240.0
PART = 10
"""Plain numpy does this fraction of the chunks."""


def run(quick: bool) -> Result:
    events = 10_000_000 if quick else 1_000_000_000
    spec = WorkloadSpec(model="zipf", events=events, keys=KEYS, skew=1.1, seed=1)
    folder = Path(tempfile.mkdtemp(prefix="epicast-bench-"))
    try:
        return measure(spec, folder)
    finally:
        shutil.rmtree(folder)


def measure(spec: WorkloadSpec, folder: Path) -> Result:
    with spark_session("local[*]") as spark:
        spark.sparkContext.parallelize(range(2), 2).map(import_all).collect()
        start = time.perf_counter()
        made = generate(spark, spec, folder / "spark")
        generate_s = time.perf_counter() - start
        start = time.perf_counter()
        found = count_last_events(spark, folder / "spark")
        last_s = time.perf_counter() - start
    chunks = max(1, spec.chunks // PART)
    part = sum(facts.rows for facts in made.chunks[:chunks])
    generate_plain_s = plain_generate(spec, made, folder / "plain", chunks)
    start = time.perf_counter()
    plain_last_numbers(folder / "plain", made, chunks)
    last_plain_s = time.perf_counter() - start
    if found != totals(plain_last_numbers(folder / "spark", made, spec.chunks)):
        raise AssertionError("numpy and Spark find different last events")
    figures: dict[str, Figure] = {
        "events": made.rows,
        "keys_found": found[0],
        "bytes_per_event": round(made.file_bytes / made.rows, 3),
        "generate_events_per_s": round(made.rows / generate_s),
        "last_per_key_events_per_s": round(made.rows / last_s),
        "generate_vs_numpy": round(made.rows / generate_s * generate_plain_s / part, 3),
        "last_per_key_vs_numpy": round(made.rows / last_s * last_plain_s / part, 3),
    }
    return Result(
        "workload",
        figures,
        [
            Bar("generate_s", GENERATE_BAR_S, "at most", round(generate_s, 2), "s"),
            Bar("last_per_key_s", LAST_BAR_S, "at most", round(last_s, 2), "s"),
        ],
    )


def import_all(number: int) -> int:
    """Have the workers up, and their modules loaded."""
    import pyarrow.parquet

    return number + bool(pyarrow.parquet)


def plain_generate(spec: WorkloadSpec, made: Workload, folder: Path, chunks: int) -> float:
    (folder / EVENTS).mkdir(parents=True)
    start = time.perf_counter()
    maker = ChunkMaker(spec)
    facts = [write_chunk(chunk_path(folder, at), maker.make(at)) for at in range(chunks)]
    elapsed = time.perf_counter() - start
    if facts != made.chunks[:chunks]:
        raise AssertionError("Spark has generated something else than numpy")
    return elapsed


def plain_last_numbers(folder: Path, made: Workload, chunks: int) -> np.ndarray:
    last = np.zeros(KEYS + 1, dtype=np.int64)
    before = 0
    for number in range(chunks):
        (key,) = read_columns(chunk_path(folder, number), "key")
        last[key] = np.arange(before + 1, before + 1 + len(key))
        before += len(key)
    return last


def totals(last: np.ndarray) -> tuple[int, int]:
    return int(np.count_nonzero(last)), int(last.sum())
