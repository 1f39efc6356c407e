"""The files of a log: Arrow streams, one after the other, of which only the newest are kept.

What was written survives the death of the process, not that of the machine. Evidence must never
stand in the way of what it is about: if a file cannot be written, that is said once and the log
ends there, which the audit will notice.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from msgspec import Struct

from epicast.evidence.columns import column_of
from epicast.evidence.schema import SCHEMAS, EvidenceError, Facts, Kind

log = logging.getLogger("epicast.evidence")

END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""How an Arrow stream ends."""


class LogBounds(Struct, frozen=True):
    file_bytes: int = 64 << 20
    """A file that has so much is followed by another."""
    total_bytes: int = 4 << 30
    """The oldest files are deleted while all of them have more."""


class _Written(NamedTuple):
    path: Path
    size: int
    rows: int


class LogFiles:
    def __init__(self, root: Path, facts: Facts, bounds: LogBounds | None = None) -> None:
        self.schema = SCHEMAS[facts.role]
        self.folder = root / facts.folder
        self.rows = 0
        self.problem = ""
        """Why nothing is written any more."""
        self._facts = facts
        self._bounds = bounds or LogBounds()
        self._written: deque[_Written] = deque()
        self._dropped_rows = 0
        self._number = 0
        self._path: Path
        self._sink: pa.OSFile
        self._writer: pa.RecordBatchStreamWriter
        self._file_rows = 0
        try:
            self.folder.mkdir(parents=True)
            self._open_next()
        except OSError as error:
            raise EvidenceError(f"no evidence can be written to {root}: {error}") from error

    def write(self, columns: list[pa.Array]) -> None:
        """Rows, as the columns of the schema. They are not needed any more afterwards."""
        if self.problem:
            return
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        try:
            if self._sink.tell() >= self._bounds.file_bytes:
                self._finish_file()
                self._open_next()
            self._writer.write_batch(batch)
        except OSError as error:
            self._give_up(error)
            return
        self.rows += batch.num_rows
        self._file_rows += batch.num_rows

    def close(self, time: int = 0) -> None:
        """Say that the log is whole, and until when whoever wrote it would have known of more."""
        if self._sink.closed:
            return
        end = {"kind": Kind.END, "first": self.rows, "time": time}
        self.write(
            [
                column_of(
                    [end.get(field.name, b"" if pa.types.is_binary(field.type) else 0)], field.type
                )
                for field in self.schema
            ]
        )
        try:
            if not self.problem:
                self._finish_file()
        except OSError as error:
            self._give_up(error)

    def abandon(self) -> None:
        """Write nothing more, as if the process was killed."""
        self._sink.close()

    def _open_next(self) -> None:
        self._number += 1
        self._drop_oldest()
        metadata = self._facts.metadata(self._number, self.rows, self._dropped_rows)
        self._path = self.folder / f"{self._number:06}.arrow"
        self._file_rows = 0
        # Not touched before: what ext4 sees truncated it writes to the disk when it is closed.
        self._sink = pa.OSFile(str(self._path), "wb")
        self._writer = pa.ipc.new_stream(self._sink, self.schema.with_metadata(metadata))

    def _finish_file(self) -> None:
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        self._written.append(_Written(self._path, size, self._file_rows))

    def _drop_oldest(self) -> None:
        while self._written and (
            sum(file.size for file in self._written) + self._bounds.file_bytes
            > self._bounds.total_bytes
        ):
            oldest = self._written.popleft()
            oldest.path.unlink(missing_ok=True)
            self._dropped_rows += oldest.rows

    def _give_up(self, error: OSError) -> None:
        if not self.problem:
            self.problem = str(error)
            log.warning("the evidence in %s ends here: %s", self.folder, error)
        with suppress(OSError):
            self._sink.close()
