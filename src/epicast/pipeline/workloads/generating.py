"""Making a workload: chunks in tasks, which write their files themselves.

An interrupted run leaves finished chunks and the plan they belong to; the next one goes on from
there. On a cluster the directory must be the same for all workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from epicast.experiments.files import replace_text
from epicast.pipeline.jobs import run_tasks
from epicast.pipeline.workloads.chunks import maker_of
from epicast.pipeline.workloads.errors import WorkloadError
from epicast.pipeline.workloads.files import (
    EVENTS,
    ChunkFacts,
    check_free,
    chunk_path,
    read_facts,
    write_chunk,
    write_columns,
)
from epicast.pipeline.workloads.manifest import FILE, PLAN, Workload, describe
from epicast.pipeline.workloads.spec import WorkloadSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHUNKS_PER_TASK = 8
_TASKS_PER_CORE = 8
_SAMPLE_ROWS = 1 << 17
_MARGIN = 1.1


class _Task(NamedTuple):
    spec: WorkloadSpec
    directory: str
    chunks: Sequence[int]


def generate(
    spark: SparkSession,
    spec: WorkloadSpec,
    directory: Path,
    begin: Callable[[int], object] = lambda total: None,
    advance: Callable[[], object] = lambda: None,
) -> Workload:
    """`begin` is told how many chunks there are to make, `advance` of each one."""
    directory = directory.absolute()
    done = prepare(spec, directory)
    left = [chunk for chunk in range(spec.chunks) if chunk not in done]
    begin(len(left))
    size = max(1, min(_CHUNKS_PER_TASK, len(left) // (cores_of(spark) * _TASKS_PER_CORE)))
    tasks = [
        _Task(spec, str(directory), left[low : low + size]) for low in range(0, len(left), size)
    ]
    for number, facts in run_tasks(spark, make_chunks, tasks):
        for chunk, fact in zip(tasks[number].chunks, facts, strict=True):
            done[chunk] = fact
            advance()
    return describe(directory, [done[chunk] for chunk in range(spec.chunks)], spec)


def make_chunks(task: _Task) -> list[ChunkFacts]:
    """In a worker."""
    maker = maker_of(task.spec)
    folder = Path(task.directory)
    return [write_chunk(chunk_path(folder, chunk), maker.make(chunk)) for chunk in task.chunks]


def prepare(spec: WorkloadSpec, directory: Path) -> dict[int, ChunkFacts]:
    """Take possession of the directory; what is there of this workload already."""
    spec.check()
    plan = directory / PLAN
    if (directory / FILE).exists():
        raise WorkloadError(f"{directory} holds a workload already; choose another directory")
    done: dict[int, ChunkFacts] = {}
    if plan.exists():
        if any((directory / EVENTS).glob("part-*")):
            _check_plan(plan, spec)
        for chunk in range(spec.chunks):
            path = chunk_path(directory, chunk)
            if path.exists():
                done[chunk] = read_facts(path)
    elif directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise WorkloadError(f"{directory} is there already and is no workload; choose another")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        check_room(spec, directory, 1 - len(done) / spec.chunks)
        (directory / EVENTS).mkdir(exist_ok=True)
        replace_text(plan, msgspec.json.format(msgspec.json.encode(spec)).decode())
    except OSError as error:
        raise WorkloadError(f"{directory}: cannot be written: {error.strerror}") from None
    return done


def check_room(spec: WorkloadSpec, directory: Path, share: float) -> None:
    needed = int(_MARGIN * share * estimated_bytes(spec))
    try:
        check_free(directory, needed, f"{spec.events:,} events take about")
    except WorkloadError:
        if not any(directory.iterdir()):
            directory.rmdir()
        raise


def estimated_bytes(spec: WorkloadSpec) -> float:
    """From what the first events take."""
    sample = maker_of(spec).make(0).part(0, _SAMPLE_ROWS)
    buffer = BytesIO()
    write_columns(buffer, sample, {})
    rows = spec.events * (1 + 2 * spec.temporary / spec.total_rate)
    return buffer.tell() / len(sample.time) * rows


def cores_of(spark: SparkSession) -> int:
    return max(1, spark.sparkContext.defaultParallelism)


def _check_plan(plan: Path, spec: WorkloadSpec) -> None:
    try:
        other = msgspec.json.decode(plan.read_bytes(), type=WorkloadSpec)
    except msgspec.MsgspecError as error:
        raise WorkloadError(f"{plan} is damaged ({error}); remove {plan.parent}") from None
    if other != spec:
        names = [n for n in spec.__struct_fields__ if getattr(spec, n) != getattr(other, n)]
        told = ", ".join(f"{name} is {getattr(other, name)}" for name in names)
        raise WorkloadError(
            f"{plan.parent} holds a part of another workload ({told}); finish that one, or choose "
            "another directory"
        )
