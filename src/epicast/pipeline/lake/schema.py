"""The columns of the tables, as Arrow and as Spark name them.

bronze holds every event and every tombstone of every stream, in the order of (epoch, seq):

stream   the stream's name; the table is partitioned by it
epoch    raised by the stream's owner when it lost events beyond repair
seq      number of the event; first of the range for a tombstone
last     equal to seq, except for a tombstone, where it ends the range
kind     event, gc (the payload is a predicate), tombstone or reset
time     at the owner; null for tombstones and resets
key      null for tombstones and resets
payload  null for tombstones and resets

A reset says that the stream goes on behind (epoch, seq): with a higher epoch than before, what was
built from the older one is void; with the same, the numbers in between were dropped by retention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

EVENT, GC, TOMBSTONE, RESET = "event", "gc", "tombstone", "reset"
KINDS = (EVENT, GC, TOMBSTONE, RESET)

BRONZE_SPARK = (
    "stream string, epoch long, seq long, last long, kind string, time timestamp, key binary, "
    "payload binary"
)
"""As Spark writes schemas. Delta and Parquet readers see the same names and types."""


def bronze_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field("stream", pa.string()), *bronze_file_schema()])


def bronze_file_schema() -> pa.Schema:
    """What is in a file: the stream is in the name of its folder, as is usual for partitions."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("epoch", pa.int64()),
            pa.field("seq", pa.int64()),
            pa.field("last", pa.int64()),
            pa.field("kind", pa.string()),
            pa.field("time", pa.timestamp("us", tz="UTC")),
            pa.field("key", pa.binary()),
            pa.field("payload", pa.binary()),
        ]
    )
