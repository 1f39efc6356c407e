"""bronze for those who read old versions of it, or replace its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epicast.pipeline.lake.schema import bronze_schema
from epicast.pipeline.lake.versions import StreamTable, open_table

if TYPE_CHECKING:
    from epicast.pipeline.lake.layout import Lake


def bronze_versions(lake: Lake) -> StreamTable:
    return open_table(lake.bronze, lake.table, bronze_schema())
