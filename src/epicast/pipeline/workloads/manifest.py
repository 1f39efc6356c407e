"""`workload.json`: what a directory holds, how it came about, and a digest of all of it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from epicast.experiments.files import replace_text
from epicast.pipeline.workloads.errors import WorkloadError
from epicast.pipeline.workloads.files import ChunkFacts, chunk_path
from epicast.pipeline.workloads.spec import WorkloadSpec

FILE = "workload.json"
PLAN = "workload.partial.json"
"""Stands there instead while the workload is being made."""
_FORMAT = 1


class Trace(Struct, frozen=True):
    """Where an imported workload came from."""

    source: str
    time_unit: str
    key_column: str
    keys: str
    """"integers" as they were, or "hashed": the xxHash64 of the text, without its sign."""


class Workload(Struct, frozen=True, kw_only=True):
    format: int = _FORMAT
    spec: WorkloadSpec | None = None
    """How to make it again; None if it was imported."""
    trace: Trace | None = None
    rows: int
    updates: int
    inserts: int
    deletes: int
    seconds: float
    payload_bytes: int
    file_bytes: int
    digest: str
    chunks: list[ChunkFacts]

    def starts(self) -> list[int]:
        """Rows before each chunk."""
        before, found = 0, []
        for chunk in self.chunks:
            found.append(before)
            before += chunk.rows
        return found

    @property
    def title(self) -> str:
        if self.spec is None:
            return f"trace {self.trace.source if self.trace else ''}"
        spec = self.spec
        keys = f", {spec.keys:,} keys" if spec.keys is not None else ""
        inserted = f", {spec.insertions:g} insertions/s" if spec.insertions else ""
        return f"{spec.model} {spec.skew:g}{keys}, {spec.rate:g} updates/s{inserted}"


def describe(
    directory: Path,
    chunks: Sequence[ChunkFacts],
    spec: WorkloadSpec | None = None,
    trace: Trace | None = None,
) -> Workload:
    """Write `workload.json`, which makes the directory a workload."""
    digest = sha256("".join(chunk.digest for chunk in chunks).encode())
    rows = sum(chunk.rows for chunk in chunks)
    inserts = sum(chunk.inserts for chunk in chunks)
    deletes = sum(chunk.deletes for chunk in chunks)
    workload = Workload(
        spec=spec,
        trace=trace,
        rows=rows,
        updates=rows - inserts - deletes,
        inserts=inserts,
        deletes=deletes,
        seconds=(chunks[-1].last_time - chunks[0].first_time) / 1e9,
        payload_bytes=sum(chunk.payload_bytes for chunk in chunks),
        file_bytes=sum(
            chunk_path(directory, number).stat().st_size for number in range(len(chunks))
        ),
        digest=digest.hexdigest()[:32],
        chunks=list(chunks),
    )
    replace_text(directory / FILE, msgspec.json.format(msgspec.json.encode(workload)).decode())
    (directory / PLAN).unlink(missing_ok=True)
    return workload


def load_workload(directory: Path) -> Workload:
    path = directory / FILE
    try:
        workload = msgspec.json.decode(path.read_bytes(), type=Workload)
    except FileNotFoundError:
        hint = (
            "; it was not finished: start `epicast workload generate` again, with the same options"
            if (directory / PLAN).exists()
            else ""
        )
        raise WorkloadError(f"{directory} is not a workload: there is no {FILE}{hint}") from None
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise WorkloadError(f"{path} does not describe a workload: {error}") from None
    if workload.format != _FORMAT:
        raise WorkloadError(f"{path} has format {workload.format}; this version reads {_FORMAT}")
    return workload
