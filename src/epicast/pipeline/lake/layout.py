"""A lake is a folder:

lake.json     what it is a lake of
bronze/       every event, exactly once; Delta or plain Parquet
silver/       the current value of every key
gold/         rates, lags, savings
checkpoint/   Spark's own notes of how far the ingestion is

lake = Lake.open("lake")
lake.watermarks()      # {"prices": Watermark(epoch=0, seq=1200), …}: all of it is in bronze
lake.read_bronze(spark)
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from epicast import StreamInfo, Watermark
from epicast.pipeline.lake.errors import NoLake
from epicast.pipeline.lake.schema import BRONZE_SPARK
from epicast.pipeline.lake.tables import BronzeTable, open_bronze, write_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = 1
TableKind = Literal["delta", "parquet"]
_DOCUMENT = "lake.json"


class LakeStream(Struct, frozen=True):
    """A stream and what its history forgets, which is what a lake must not remember."""

    name: str
    id: int
    latest_per_key: bool = False
    last_n: int | None = None
    max_age_ns: int | None = None

    @classmethod
    def of(cls, info: StreamInfo) -> LakeStream:
        return cls(info.name, info.id, info.latest_per_key, info.last_n, info.max_age_ns)


class LakeDocument(Struct, frozen=True, kw_only=True):
    """lake.json."""

    format: int = FORMAT
    geoplex: str
    table: TableKind
    streams: tuple[LakeStream, ...]
    app: str
    """Under this name ingestion commits, so that what is committed twice is there once."""
    created: str


class Lake:
    """Made by `create` or `open`."""

    def __init__(self, folder: Path, document: LakeDocument) -> None:
        self.folder = folder
        self.document = document

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        *,
        geoplex: str,
        streams: Sequence[LakeStream],
        table: TableKind = "delta",
    ) -> Lake:
        """A folder that is empty, or not there yet, becomes a lake."""
        path = Path(folder).absolute()
        if path.exists() and any(path.iterdir()):
            raise NoLake(f"{path} is not empty and no lake: name another folder")
        document = LakeDocument(
            geoplex=geoplex,
            table=table,
            streams=tuple(sorted(streams, key=lambda stream: stream.name)),
            app=f"epicast-{secrets.token_hex(8)}",
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        path.mkdir(parents=True, exist_ok=True)
        write_whole(path / _DOCUMENT, msgspec.json.format(msgspec.json.encode(document)))
        return cls(path, document)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Lake:
        path = Path(folder).absolute()
        try:
            content = (path / _DOCUMENT).read_bytes()
        except OSError as error:
            raise NoLake(
                f"{path} is no lake ({error.strerror or error}: {_DOCUMENT}); make one with "
                "`epicast lake run`"
            ) from error
        try:
            document = msgspec.json.decode(content, type=LakeDocument)
        except msgspec.MsgspecError as error:
            raise NoLake(f"{path / _DOCUMENT} does not describe a lake: {error}") from error
        if document.format != FORMAT:
            raise NoLake(f"{path}: format {document.format} of lakes; this version knows {FORMAT}")
        return cls(path, document)

    @classmethod
    def exists(cls, folder: str | os.PathLike[str]) -> bool:
        return (Path(folder) / _DOCUMENT).exists()

    @property
    def geoplex(self) -> str:
        return self.document.geoplex

    @property
    def table(self) -> TableKind:
        return self.document.table

    @property
    def streams(self) -> dict[str, LakeStream]:
        return {stream.name: stream for stream in self.document.streams}

    @property
    def bronze(self) -> Path:
        return self.folder / "bronze"

    @property
    def silver(self) -> Path:
        return self.folder / "silver"

    @property
    def gold(self) -> Path:
        return self.folder / "gold"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def bronze_table(self) -> BronzeTable:
        """As it is now; it is made if it is not there yet."""
        return open_bronze(self.bronze, self.table, self.document.app)

    def bronze_files(self) -> list[str]:
        """The files that are in the table. Others may lie beside them and do not count."""
        return self.bronze_table().files()

    def watermarks(self) -> dict[str, Watermark]:
        """By stream: everything up to there is in bronze."""
        return self.bronze_table().watermarks()

    def read_bronze(self, spark: SparkSession, files: Sequence[str] | None = None) -> DataFrame:
        """The table as Spark sees it, or some of its files."""
        names = self.bronze_files() if files is None else list(files)
        if not names:
            return spark.createDataFrame([], BRONZE_SPARK)
        reader = spark.read.schema(BRONZE_SPARK).option("basePath", str(self.bronze))
        return reader.parquet(*names)
