"""Tombstones that touch become one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from epicast.pipeline.lake.schema import TOMBSTONE

if TYPE_CHECKING:
    import pyarrow as pa


def merge_tombstones(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of bronze in order, with as few tombstones as that takes. For `mapInArrow`.

    A number that no row covers stays uncovered: a gap would be a loss, and must be seen as one.
    """
    import pyarrow as pa

    held: pa.Table | None = None
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        merged = _merged(rows if held is None else pa.concat_tables([held, rows]))
        held = merged.slice(max(0, merged.num_rows - 1))  # the next one may touch it
        yield from merged.slice(0, merged.num_rows - held.num_rows).to_batches()
    if held is not None:
        yield from held.to_batches()


def _merged(rows: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    if rows.num_rows < 2:
        return rows
    grave = pc.equal(rows["kind"], TOMBSTONE).to_numpy(zero_copy_only=False).astype(np.bool_)
    seqs, lasts = rows["seq"].to_numpy(), rows["last"].to_numpy()
    streams = rows["stream"].combine_chunks().dictionary_encode().indices.to_numpy()
    epochs = rows["epoch"].to_numpy()
    touches = grave[1:] & grave[:-1] & (seqs[1:] == lasts[:-1] + 1)
    touches &= (streams[1:] == streams[:-1]) & (epochs[1:] == epochs[:-1])
    if not touches.any():
        return rows
    first = np.flatnonzero(np.concatenate(([True], ~touches)))
    ends = np.concatenate((first[1:], [len(seqs)])) - 1
    column = rows.schema.get_field_index("last")
    kept = rows.take(pa.array(first))
    return kept.set_column(column, rows.schema.field(column), pa.array(lasts[ends]))
