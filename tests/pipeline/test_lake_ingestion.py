"""Bronze holds every number once, whenever the driver dies between two steps of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from epicast import Watermark, sync
from epicast.geo.local import LocalGeoplex
from epicast.pipeline.lake.errors import NoLake, TooLittleDisk, WrongLake
from epicast.pipeline.lake.ingestion import Committer, checkpoint_of, start_query
from epicast.pipeline.lake.ingestion_options import IngestionOptions
from epicast.pipeline.lake.layout import Lake, LakeStream
from epicast.pipeline.lake.opening import lake_for
from epicast.pipeline.lake.status import status_of
from epicast.pipeline.lake.tables import NewFile
from tests.pipeline.lake_support import (
    assert_exactly_once,
    new_lake,
    one_region,
    plain_rows,
    publish,
)

STREAMS = ("one", "two", "three", "four", "beside", "quiet")
KINDS = ("delta", "parquet")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("geoplex")
    geoplex = one_region(STREAMS, data, policy="latest_per_key = true")
    with LocalGeoplex(geoplex, any_ports=True) as local:
        yield local.address("us")


class Died(Exception):
    """Stands for SIGKILL at that moment."""


def ingest(spark: Any, lake: Lake, address: str, *, dies: str = "", **options: Any) -> list[int]:
    """All there is now; the rows of each batch. Dies `before` or `after` the first commit."""
    batches: list[int] = []
    chosen = IngestionOptions(lake=str(lake.folder), proxy=address, once=True, **options)
    committer = Committer(lake, chosen, lambda committed: batches.append(committed.rows))
    if dies:
        committer._table = Dying(committer._table, dies)  # type: ignore[assignment]
    query = start_query(spark, lake, chosen, committer)
    try:
        query.awaitTermination()
    except Exception:
        if committer.error is None:
            raise
        raise committer.error from None
    return batches


class Dying:
    """A table whose first commit is the last thing that happens, or does not happen."""

    def __init__(self, table: Any, when: str) -> None:
        self._table = table
        self._when = when

    def last_batch(self) -> int:
        return int(self._table.last_batch())

    def commit(
        self, batch: int, files: Sequence[NewFile], watermarks: Mapping[str, Watermark]
    ) -> bool:
        if self._when == "half moved":
            self._table._put_in_place(batch, files[:1])
        elif self._when == "after":
            self._table.commit(batch, files, watermarks)
        raise Died


def check(spark: Any, lake: Lake, expected: Mapping[str, int]) -> None:
    """Spark and a plain reader see the same rows, and each number once."""
    rows = plain_rows(lake)
    for stream, last in expected.items():
        assert_exactly_once(rows, stream, last)
    by_spark = lake.read_bronze(spark).collect()
    order = ["stream", "epoch", "seq"]
    plain = [
        {**row, "time": row["time"] and row["time"].replace(tzinfo=None)}
        for row in rows.sort_by([(name, "ascending") for name in order]).to_pylist()
    ]
    assert sorted((row.asDict() for row in by_spark), key=_place) == plain
    reached = {name: place.seq for name, place in Lake.open(lake.folder).watermarks().items()}
    assert {name: reached.get(name, 0) for name in expected} == dict(expected)


def _place(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["stream"], row["epoch"], row["seq"]


@pytest.mark.parametrize(
    ("kind", "stream", "dies"),
    [
        ("delta", "one", "before"),
        ("delta", "two", "after"),
        ("parquet", "three", "half moved"),
        ("parquet", "four", "after"),
    ],
)
def test_a_driver_that_dies_in_a_commit(
    spark: Any, address: str, tmp_path: Path, kind: str, stream: str, dies: str
) -> None:
    publish(address, stream, 2000, keys=300)
    publish(address, "beside", 10)
    lake = new_lake(tmp_path / "lake", address, [stream, "beside", "quiet"], kind)
    with pytest.raises(Died):
        ingest(spark, lake, address, dies=dies, max_events=1500)
    # Meanwhile what the first attempt has read may be collected: the second reads tombstones.
    publish(address, stream, 500, keys=300)
    rows = ingest(spark, lake, address, max_events=1500)
    assert len(rows) >= 1
    with sync.connect(address, agent=False) as node:
        beside = node.stream("beside").head().seq
    check(spark, lake, {stream: 2500, "beside": beside, "quiet": 0})
    if kind == "parquet":
        assert sorted(map(str, lake.bronze.rglob("batch-*.parquet"))) == sorted(lake.bronze_files())


def test_without_its_checkpoint_a_lake_goes_on_where_the_table_ends(
    spark: Any, address: str, tmp_path: Path
) -> None:
    publish(address, "quiet", 100)
    lake = new_lake(tmp_path / "lake", address, ["quiet"])
    ingest(spark, lake, address)
    for path in sorted(lake.checkpoint.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    publish(address, "quiet", 50)
    ingest(spark, lake, address)
    check(spark, lake, {"quiet": 150})

    found = status_of(lake, address)
    assert found["streams"]["quiet"]["behind"] == 0
    assert (found["bronze"]["rows"], found["bronze"]["files"]) == (plain_rows(lake).num_rows, 2)
    with pytest.raises(TooLittleDisk, match="make room, or lower --min-free-mb"):
        publish(address, "quiet", 1)
        ingest(spark, lake, address, min_free_mb=1 << 40)


def test_a_checkpoint_of_another_lake_is_refused(tmp_path: Path) -> None:
    first, second = (
        Lake.create(tmp_path / name, geoplex="g", streams=[LakeStream(name, 1)])
        for name in ("first", "second")
    )
    checkpoint_of(first)
    first.checkpoint.rename(second.checkpoint)
    with pytest.raises(WrongLake, match=r"another lake \(of geoplex 'g', streams first\)"):
        checkpoint_of(second)
    (second.checkpoint / "epicast.json").rename(second.checkpoint / "metadata")
    with pytest.raises(WrongLake, match="is not a checkpoint of this lake"):
        checkpoint_of(second)


def test_the_lake_that_is_opened_is_the_one_that_is_meant(address: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "lake")
    made = lake_for(folder, address, ["one"], "parquet")
    assert (made.geoplex, made.table, [*made.streams]) == ("small", "parquet", ["one"])
    assert made.streams["one"].latest_per_key
    assert lake_for(folder, address, None, None).document == made.document
    assert lake_for(folder, "127.0.0.1:1", None, None, 0.1).document == made.document
    wrong: list[tuple[Callable[[], Lake], type[Exception], str]] = [
        (lambda: lake_for(folder, address, ["two"], None), WrongLake, "a lake of one, not of two"),
        (lambda: lake_for(folder, address, None, "delta"), WrongLake, "as parquet, not as delta"),
        (lambda: lake_for(str(tmp_path), address, None, None), NoLake, "is not empty and no lake"),
        (lambda: Lake.open(tmp_path), NoLake, "is no lake"),
    ]
    for call, error, sentence in wrong:
        with pytest.raises(error, match=sentence):
            call()
    document = (tmp_path / "lake" / "lake.json").read_text("utf-8")
    (tmp_path / "lake" / "lake.json").write_text(document.replace('"small"', '"large"'), "utf-8")
    with pytest.raises(WrongLake, match="a lake of geoplex 'large'"):
        lake_for(folder, address, None, None)
