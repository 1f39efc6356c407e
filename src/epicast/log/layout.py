"""Where things lie inside a stored batch: the layout of `epicast.core.batch`, seen from outside.

Kernels read batches without making objects of them, so the numbers are needed here too;
`tests/log/test_layout.py` compares them with what `EventBatch` writes.
"""

from __future__ import annotations

from struct import Struct

BATCH_HEADER = Struct("<BBHIQIIQQII")
"""Version, flags, reserved, rows, stream, epoch, runs, first, last, offset base, data bytes."""
BATCH_HEADER_BYTES = BATCH_HEADER.size
BATCH_VERSION = 1
RUN_BYTES = 24
LENGTHS = Struct("<II")
LENGTHS_BYTES = LENGTHS.size
SPARSE, KINDS, ONE_TIME, EVEN = 1, 2, 4, 8
EPOCH_AT = 16

FRAME = Struct("<II")
"""CRC32C and length of the batch that follows. The checksum is that of the length, the batch and
the zeros that fill up its last eight bytes, so that columns of stored batches are aligned."""
FRAME_BYTES = FRAME.size
