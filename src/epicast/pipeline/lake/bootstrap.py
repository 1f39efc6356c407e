"""A subscriber that starts from the lake instead of the beginning of the stream; without Spark.

    snapshot = bootstrap.read("lake", "prices")
    for batch in snapshot.batches():                 # Arrow: key, payload, seq, time
        cache.fill(batch["key"], batch["payload"])
    async for item in prices.subscribe(after=snapshot.watermark):
        ...

The snapshot has the current value of every key as of its watermark: silver, and what bronze has
besides. If the stream has begun a new epoch since, the first item is a `Reset`, and the snapshot is
void like anything that was built from the old epoch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epicast import Watermark
from epicast.log.policy import policy_of
from epicast.pipeline.errors import missing
from epicast.pipeline.lake.errors import LakeError

if TYPE_CHECKING:
    import pyarrow as pa

    from epicast.pipeline.lake.collecting import Rules
    from epicast.pipeline.lake.layout import Lake

_COLUMNS = ["epoch", "key", "seq", "time", "payload"]
_ROWS_AT_A_TIME = 1 << 20


class NotInLake(LakeError):
    """The lake has nothing of the stream."""


@dataclass(frozen=True)
class Snapshot:
    stream: str
    watermark: Watermark
    """Subscribe after this."""
    values: pa.Table
    """key, payload, seq, time; one row per key, in the order of seq."""

    def batches(self, max_rows: int = 1 << 16) -> Iterator[pa.RecordBatch]:
        yield from self.values.to_batches(max_rows)


def read(lake: str | os.PathLike[str] | Lake, stream: str) -> Snapshot:
    """As new as bronze is."""
    try:
        import deltalake  # noqa: F401
        import pyarrow
    except ImportError as error:
        raise missing(f"pyarrow and deltalake ({error})") from error
    from epicast.pipeline.lake.bronze_versions import bronze_versions
    from epicast.pipeline.lake.failures import DamagedTable
    from epicast.pipeline.lake.layout import Lake
    from epicast.pipeline.lake.silver import silver_table

    found = lake if isinstance(lake, Lake) else Lake.open(lake)
    if stream not in found.streams:
        raise NotInLake(
            f"{found.folder} has no stream {stream!r}, only {', '.join(sorted(found.streams))}"
        )
    bronze = bronze_versions(found).snapshot()
    mark = bronze.watermarks.get(stream)
    if mark is None:
        raise NotInLake(f"{found.folder} has nothing of {stream!r} yet; is `epicast lake run` on?")
    silver = silver_table(found).snapshot()
    since = silver.watermarks.get(stream)
    files = bronze.paths([stream]) if since != mark else []
    try:
        rules = _rules(found, stream, mark, files, since)
        if since is not None and rules.needs_all_events:
            since = None
            rules = _rules(found, stream, mark, files, None)
        rows = _current(rules, files, since, silver.paths([stream]) if since is not None else [])
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise DamagedTable(f"a table of {found.folder} cannot be read: {error}") from error
    return Snapshot(stream, mark, rows.select(["key", "payload", "seq", "time"]).sort_by("seq"))


def _rules(
    lake: Lake, stream: str, mark: Watermark, files: list[str], since: Watermark | None
) -> Rules:
    import pyarrow.compute as pc

    from epicast.pipeline.lake.collecting import gc_events_of, rules_of
    from epicast.pipeline.lake.schema import GC, RESET

    policy = policy_of(lake.streams[stream])
    if not files:
        return rules_of(mark.epoch, policy, [], mark.seq)
    wanted = pc.field("kind").isin([GC, RESET]) & _behind(mark.epoch, since)
    rows = _dataset(files).to_table(filter=wanted)
    resets = pc.max(rows.filter(pc.equal(rows["kind"], RESET))["seq"]).as_py()
    return rules_of(mark.epoch, policy, gc_events_of(rows), mark.seq, resets or 0)


def _current(
    rules: Rules, files: list[str], since: Watermark | None, silver: list[str]
) -> pa.Table:
    """What was current, if it is of the same epoch, and the events behind it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from epicast.pipeline.lake.collecting import Collecting, newest_per_key
    from epicast.pipeline.lake.schema import EVENT, bronze_file_schema

    schema = bronze_file_schema()
    found = pa.table({name: pa.array([], schema.field(name).type) for name in _COLUMNS})
    collecting = Collecting(rules)
    scans = []
    if silver:
        same_epoch = pc.field("epoch") == rules.epoch
        scans.append(_dataset(silver).to_batches(columns=_COLUMNS, filter=same_epoch))
    if files:
        events = (pc.field("kind") == EVENT) & _behind(rules.epoch, since)
        scans.append(_dataset(files).to_batches(columns=_COLUMNS, filter=events))
    for scan in scans:
        for batch in scan:
            kept = collecting.keep_matched_by_none(pa.Table.from_batches([batch]))
            found = pa.concat_tables([found, kept])
            if found.num_rows >= _ROWS_AT_A_TIME:
                found = newest_per_key(found)
    return newest_per_key(found)


def _dataset(files: list[str]) -> Any:
    import pyarrow.dataset as ds

    from epicast.pipeline.lake.schema import bronze_file_schema

    return ds.dataset(files, schema=bronze_file_schema(), format="parquet")


def _behind(epoch: int, since: Watermark | None) -> Any:
    """Rows of the epoch that silver has not seen."""
    import pyarrow.compute as pc

    same = pc.field("epoch") == epoch
    return same & (pc.field("seq") > since.seq) if since and since.epoch == epoch else same
