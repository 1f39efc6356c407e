"""The audit as jobs of Spark.

First every log is surveyed, one task each. Then files are cut into pieces, pieces are brought
together by block, the owner's first, and blocks are judged one after the other. Between tasks
travel few rows with packed arrays. A task holds a piece of a log, or one block of one stream and
what one subscription got of it, never more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from epicast.evidence import EvidenceError, Role
from epicast.pipeline.audit.case import Case, Rules
from epicast.pipeline.audit.cutting import Piece, cut, key_ends, linked
from epicast.pipeline.audit.links import EVENTS_PER_PART, KeyEnds
from epicast.pipeline.audit.logs import find_logs
from epicast.pipeline.audit.packing import pack, unpack
from epicast.pipeline.audit.results import AuditResult
from epicast.pipeline.audit.running import Verdict, judge_blocks
from epicast.pipeline.audit.summing import summed
from epicast.pipeline.audit.surveys import Survey, survey
from epicast.pipeline.audit.watching import Watcher, watched
from epicast.pipeline.session import DEFAULT_MASTER, DEFAULT_MEMORY, spark_session
from epicast.pipeline.shipping import shipped_package

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext
    from pyspark.sql import DataFrame, SparkSession

PIECES = (
    "space int, stream long, place long, block long, part int, who long, position long, "
    "payload binary"
)
KEY_ENDS = "stream long, epoch long, part long, payload binary"
VERDICTS = "about int, who long, stream long, payload binary"
_ENDS = (np.uint64, np.int64, np.int64, np.int64)
_PARTITION_BYTES = 96 << 20
_BATCH_BYTES = 8 << 20
_TASK_BYTES = 64 << 20
_LOGS_PER_CORE = 32
_BYTES_PER_ROW, _BYTES_PER_EVENT = 25, 16
_ROW_BATCH = {
    # Rows are large here: what is handed to Python at once is bounded in bytes.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",
}


def audit_logs(
    directory: Path,
    *,
    master: str = DEFAULT_MASTER,
    memory: str = DEFAULT_MEMORY,
    rules: Rules | None = None,
    accept_truncated: bool = False,
    spark: SparkSession | None = None,
    watcher: Watcher | None = None,
) -> AuditResult:
    """With a session, that is used and left running; `master` is its."""
    rules = rules or Rules()
    folders = find_logs(directory)
    with ExitStack() as stack:
        session = spark or stack.enter_context(spark_session(master, memory=memory))
        stack.enter_context(shipped_package(session.sparkContext, master))
        stack.enter_context(_settings(session))
        started = time.perf_counter()
        surveys = _survey_all(session.sparkContext, folders, rules, watcher)
        case = Case(surveys, rules)
        verdicts = _judge_all(session, case, watcher)
        result = summed(str(directory), surveys, case, verdicts, accept_truncated)
        result.seconds = time.perf_counter() - started
        return result


def _survey_all(
    context: SparkContext, folders: list[Path], rules: Rules, watcher: Watcher | None
) -> list[Survey]:
    def look(folder: str) -> tuple[bytes, str]:
        try:
            found = survey(Path(folder), rules.clock_tolerance_ns, rules.block_bits)
        except EvidenceError as error:
            return b"", str(error)
        return msgspec.msgpack.encode(found), ""

    count = min(len(folders), _LOGS_PER_CORE * context.defaultParallelism)
    logs = context.parallelize([str(folder) for folder in folders], count).map(look)
    found = watched(context, "survey", logs.collect, watcher)
    for _, error in found:
        if error:
            raise EvidenceError(error)
    return [msgspec.msgpack.decode(encoded, type=Survey) for encoded, _ in found]


def _judge_all(spark: SparkSession, case: Case, watcher: Watcher | None) -> list[Verdict]:
    if not case.parts:
        return []
    shared = spark.sparkContext.broadcast(case)
    pieces = _pieces(spark, case, shared)

    def judge(batches: Iterable[Any]) -> Iterator[Any]:
        yield from _batches(judge_blocks(_as_pieces(batches), shared.value), VERDICTS)

    place = ["space", "stream", "place", "block"]
    judged = (
        pieces.repartition(_partitions(spark, case), *place)
        .sortWithinPartitions(*place, "part", "who", "position")
        .mapInArrow(judge, VERDICTS)
    )
    rows = watched(spark.sparkContext, "judge", judged.collect, watcher)
    shared.unpersist()
    return [Verdict(row[0], row[1], _unsigned(row[2]), bytes(row[3])) for row in rows]


def _pieces(spark: SparkSession, case: Case, shared: Broadcast[Case]) -> DataFrame:
    tasks = _tasks(spark, case, range(len(case.parts)))

    def cut_some(batches: Iterable[Any]) -> Iterator[Any]:
        for task in _numbers(batches):
            for index in tasks[task]:
                yield from _batches(cut(shared.value, index), PIECES)

    pieces: DataFrame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(cut_some, PIECES)
    owners = [
        index for index, (number, _) in enumerate(case.parts) if case.roles[number] == Role.OWNER
    ]
    if case.keyed and owners:
        pieces = pieces.union(_links(spark, case, owners, shared))
    return pieces


def _tasks(spark: SparkSession, case: Case, indices: Sequence[int]) -> list[list[int]]:
    """Files for each task: a large one alone, of small ones several."""
    sizes = [case.parts[index][1].size for index in indices]
    enough = min(_TASK_BYTES, sum(sizes) // spark.sparkContext.defaultParallelism)
    tasks: list[list[int]] = [[]]
    held = 0
    for index, size in zip(indices, sizes, strict=True):
        if tasks[-1] and held + size > enough:
            tasks.append([])
            held = 0
        tasks[-1].append(index)
        held += size
    return tasks


def _links(
    spark: SparkSession, case: Case, owners: list[int], shared: Broadcast[Case]
) -> DataFrame:
    """What is known of keys across stretches, as pieces."""
    bits = case.rules.block_bits
    parts = {stream: -(-case.rows_of(stream) // EVENTS_PER_PART) for stream in case.keyed}
    tasks = _tasks(spark, case, owners)

    def ends_of(batches: Iterable[Any]) -> Iterator[Any]:
        for index in (index for task in _numbers(batches) for index in tasks[task]):
            for stream, epoch, ends in key_ends(shared.value, index):
                yield from _batches(_by_part(stream, epoch, ends, parts[stream]), KEY_ENDS)

    def link(table: Any) -> Any:
        import pyarrow as pa

        stream, epoch = table.column("stream")[0].as_py(), table.column("epoch")[0].as_py()
        payloads = [value.as_buffer() for value in table.column("payload")]
        unpacked = [unpack(payload, *_ENDS) for payload in payloads]
        ends = KeyEnds(*map(np.concatenate, zip(*unpacked, strict=True)))
        found = linked(_unsigned(stream), _unsigned(epoch), ends, bits)
        batches = list(_batches(found, PIECES))
        return pa.Table.from_batches(batches, schema=_arrow_schema(PIECES))

    ends = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(ends_of, KEY_ENDS)
    return ends.groupBy("stream", "epoch", "part").applyInArrow(link, PIECES)


def _by_part(stream: int, epoch: int, ends: KeyEnds, parts: int) -> Iterator[tuple[Any, ...]]:
    """Keys are spread over parts by their hash."""
    part = (ends.hashes >> np.uint64(32)) % np.uint64(max(1, parts))
    for number in range(max(1, parts)):
        here = slice(None) if parts <= 1 else part == number
        yield stream, epoch, number, pack(*(column[here] for column in ends))


def _partitions(spark: SparkSession, case: Case) -> int:
    rows = sum(part.rows for _, part in case.parts)
    size = rows * _BYTES_PER_ROW + case.rows * _BYTES_PER_EVENT
    blocks = sum(1 + (each.last >> case.rules.block_bits) for each in case.extents.values())
    wanted = max(spark.sparkContext.defaultParallelism, size // _PARTITION_BYTES)
    return int(max(1, min(wanted, blocks)))


def _numbers(batches: Iterable[Any]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _as_pieces(batches: Iterable[Any]) -> Iterator[Piece]:
    for batch in batches:
        numbers = [batch.column(at).to_pylist() for at in range(7)]
        for at, (space, stream, place, block, part, who, position) in enumerate(
            zip(*numbers, strict=True)
        ):
            payload = batch.column(7)[at].as_buffer()
            where = _unsigned(stream), _unsigned(place)
            yield Piece(space, *where, block, part, who, position, payload)


def _batches(rows: Iterable[tuple[Any, ...]], schema: str) -> Iterator[Any]:
    """Record batches that are not too large; the last value of a row is its payload."""
    fields = _arrow_schema(schema)
    waiting: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        waiting.append((*map(_signed, row[:-1]), row[-1]))
        size += len(row[-1])
        if size >= _BATCH_BYTES:
            yield _batch(waiting, fields)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting, fields)


def _batch(rows: list[tuple[Any, ...]], fields: Any) -> Any:
    import pyarrow as pa

    columns = zip(zip(*rows, strict=True), fields, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in columns], schema=fields
    )


def _arrow_schema(text: str) -> Any:
    import pyarrow as pa

    types: dict[str, Callable[[], Any]] = {"long": pa.int64, "int": pa.int32, "binary": pa.binary}
    pairs = (column.split() for column in text.split(", "))
    return pa.schema([(name, types[kind]()) for name, kind in pairs])


def _signed(value: int) -> int:
    """Spark has no unsigned numbers: streams and epochs keep their bits."""
    return value - 2**64 if value >= 2**63 else value


def _unsigned(value: int) -> int:
    return value + 2**64 if value < 0 else value


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in _ROW_BATCH}
    for name, value in _ROW_BATCH.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
