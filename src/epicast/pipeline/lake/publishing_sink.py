"""A streaming query into a stream: `df.writeStream.format("epicast")`, each row published once.

    (
        df.writeStream.format("epicast")        # columns: payload, and key if there is one
        .option("proxy", "127.0.0.1:7400").option("stream", "prices")
        .option("checkpointLocation", "checkpoint")
        .start()
    )

Tasks only stage their rows, in files below the checkpoint. Once a batch is complete, a manifest is
written that says which files it is made of and which numbers its rows have among all this query
publishes; then they are published under these numbers, by a publisher that is the same whenever the
query runs. Whatever is done again after a crash has the same numbers, and the stream's owner drops
what it has.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec
import numpy as np
from msgspec import Struct
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from epicast import ConnectFailed, EventBatch, sync
from epicast.core.batch_layout import pieces_of
from epicast.pipeline.lake.connections import parse_proxies
from epicast.pipeline.lake.errors import LakeError, LakeOptionError, SourceAway
from epicast.pipeline.lake.tables import write_whole

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_ROWS_AT_A_TIME = 1 << 16
_KEPT_MANIFESTS = 100
_CONNECT_S = 30.0


class CannotPublish(LakeError):
    """Rows that are no events."""


class StagedFile(Struct, frozen=True):
    name: str
    rows: int


class Manifest(Struct, frozen=True):
    """Of one batch; once written, the batch is this and nothing else."""

    batch: int
    first: int
    """Of the publisher's own numbers."""
    files: tuple[StagedFile, ...]
    published: bool = False

    @property
    def next(self) -> int:
        return self.first + sum(file.rows for file in self.files)


@dataclass
class Staged(WriterCommitMessage):
    """What a task has staged; nothing if it had no rows."""

    name: str
    rows: int


class PublishingWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Spark has made the names of options lower case."""
        names = set(schema.fieldNames())
        if "payload" not in names or names - {"key", "payload"}:
            raise LakeOptionError(
                f"rows to be published have a column payload and may have a column key; these have "
                f"{', '.join(sorted(names))}"
            )
        for field in schema.fields:
            if field.dataType.simpleString() not in ("binary", "string"):
                raise LakeOptionError(
                    f"column {field.name} is {field.dataType.simpleString()}; what is published is "
                    "binary or string"
                )
        self._proxies = parse_proxies(options.get("proxy", ""))
        self._stream = options.get("stream", "")
        if not self._stream:
            raise LakeOptionError("stream: name the stream to publish to")
        self._checkpoint = _local(options.get("checkpointlocation", ""))
        self._folder = self._checkpoint / "epicast"

    # -- in tasks --------------------------------------------------------------------------------

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        import pyarrow as pa

        name = f"staged/{secrets.token_hex(12)}.arrow"
        path = self._folder / name
        rows = 0
        writer: Any = None
        for batch in iterator:
            if not batch.num_rows:
                continue
            columns = _columns(batch)
            if writer is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                writer = pa.ipc.new_file(path, columns.schema)
            writer.write_batch(columns)
            rows += columns.num_rows
        if writer is None:
            return Staged("", 0)
        writer.close()
        with path.open("rb") as file:
            os.fsync(file.fileno())
        return Staged(name, rows)

    # -- in the driver ---------------------------------------------------------------------------

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staged = [m for m in messages if isinstance(m, Staged) and m.rows]
        manifest = self._manifest(batchId)
        if manifest is None:
            files = tuple(StagedFile(message.name, message.rows) for message in staged)
            manifest = Manifest(batchId, self._next_number(batchId), files)
            self._save(manifest)
        else:
            # A second attempt at a batch: the first one's files count.
            self._delete({m.name for m in staged} - {file.name for file in manifest.files})
        if not manifest.published:
            self._publish(manifest)
            self._save(msgspec.structs.replace(manifest, published=True))
        self._delete({file.name for file in manifest.files})
        self._path_of(batchId - _KEPT_MANIFESTS).unlink(missing_ok=True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        manifest = self._manifest(batchId)
        kept = {file.name for file in manifest.files} if manifest is not None else set()
        self._delete({m.name for m in messages if isinstance(m, Staged) and m.rows} - kept)

    def _publish(self, manifest: Manifest) -> None:
        import pyarrow as pa

        if not manifest.files:
            return
        with self._connect() as node:
            stream = node.stream(self._stream, first_sequence=manifest.first)
            for file in manifest.files:
                with pa.memory_map(str(self._folder / file.name)) as source:
                    rows = pa.ipc.open_file(source).read_all()
                    for batch in rows.to_batches(_ROWS_AT_A_TIME):
                        stream.publish_many(events_of(batch, stream.info.id))

    def _connect(self) -> sync.Node:
        problems = []
        for address in self._proxies:
            try:
                return sync.connect(
                    address, agent=False, publisher=self.publisher(), timeout=_CONNECT_S
                )
            except ConnectFailed as error:
                problems.append(str(error))
        raise SourceAway("; ".join(problems))

    def publisher(self) -> int:
        """An id that is this query's, whenever it runs, and nobody else's."""
        path = self._checkpoint / "metadata"
        try:
            query = msgspec.json.decode(path.read_bytes())["id"]
        except (OSError, msgspec.MsgspecError, KeyError, TypeError) as error:
            raise CannotPublish(f"{path} does not say which query this is: {error}") from error
        digest = blake2b(f"{query}/{self._stream}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") or 1

    # -- manifests -------------------------------------------------------------------------------

    def _path_of(self, batch: int) -> Path:
        return self._folder / f"batch-{batch:020}.json"

    def _manifest(self, batch: int) -> Manifest | None:
        try:
            content = self._path_of(batch).read_bytes()
        except FileNotFoundError:
            return None
        return msgspec.json.decode(content, type=Manifest)

    def _next_number(self, batch: int) -> int:
        before = sorted(path for path in self._folder.glob("batch-*.json"))
        before = [path for path in before if path < self._path_of(batch)]
        if not before:
            return 1
        return msgspec.json.decode(before[-1].read_bytes(), type=Manifest).next

    def _save(self, manifest: Manifest) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._path_of(manifest.batch), msgspec.json.encode(manifest))

    def _delete(self, names: set[str]) -> None:
        for name in names:
            (self._folder / name).unlink(missing_ok=True)


def events_of(rows: pa.RecordBatch, stream: int) -> EventBatch:
    """Keys and payloads by turns, as an event batch has them."""
    import pyarrow as pa

    count = rows.num_rows
    order = np.arange(2 * count).reshape(2, count).T.reshape(-1)
    both = pa.concat_arrays([rows["key"], rows["payload"]]).take(pa.array(order))
    _, offsets, data = both.buffers()
    bounds = np.frombuffer(offsets, np.int32, 2 * count + 1, 4 * both.offset)
    data = b"" if data is None else memoryview(data)[bounds.item(0) : bounds.item(-1)]
    starts = (bounds - bounds[0]).astype(np.uint32)
    pieces = pieces_of(
        stream, 0, 1, count, count, (), np.zeros(1, dtype="<i8"), None, starts, None, data
    )
    return EventBatch.decode(b"".join(pieces))


def _columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """key and payload, as bytes."""
    import pyarrow as pa

    payloads = batch["payload"].cast(pa.binary())
    if payloads.null_count:
        raise CannotPublish(f"{payloads.null_count} rows have no payload, which events must have")
    keys = pa.repeat(b"", batch.num_rows)
    if "key" in batch.schema.names:
        keys = batch["key"].cast(pa.binary()).fill_null(b"")
    return pa.RecordBatch.from_arrays([keys.cast(pa.binary()), payloads], ["key", "payload"])


def _local(location: str) -> Path:
    """The checkpoint, which all of Spark must see as the same folder."""
    if not location:
        raise LakeOptionError("checkpointLocation: say where this query keeps its checkpoint")
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        raise LakeOptionError(
            f"checkpointLocation: {location} is not a folder that this machine has; rows are "
            "staged there before they are published"
        )
    return Path(unquote(parts.path) if parts.scheme else location)
