"""Rows to Parquet, the same bytes for the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epicast.experiments.files import replace_file
from epicast.experiments.model import Row, Scalar


def write_parquet(path: Path, rows: Sequence[Row], metadata: Mapping[str, str]) -> None:
    """Columns in order of appearance; a value a row does not have is null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    fields = [pa.field(name, _column_type(name, columns[name])) for name in names]
    table = pa.table(columns, schema=pa.schema(fields, metadata=dict(metadata)))
    with replace_file(path) as partial:
        pq.write_table(table, partial, compression="zstd")


def _column_type(name: str, values: Sequence[Scalar]) -> Any:
    """The narrowest type that holds the column: whole numbers among fractions become fractions."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    for members, arrow_type in (
        (set(), pa.null()),
        ({bool}, pa.bool_()),
        ({int}, pa.int64()),
        ({int, float}, pa.float64()),
        ({str}, pa.string()),
    ):
        if kinds <= members:
            return arrow_type
    found = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(f"the column {name!r} mixes {found}")
