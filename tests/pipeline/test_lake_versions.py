"""Tables as lists of files: which version has what, and who comes second."""

from pathlib import Path

import pytest

from epicast import Watermark
from epicast.pipeline.lake.bronze_versions import bronze_versions
from epicast.pipeline.lake.layout import LakeStream
from epicast.pipeline.lake.silver import silver_table
from epicast.pipeline.lake.versions import NoSuchVersion, StreamTable, TableBusy
from tests.pipeline.lake_events import event, ingest, new_lake

STREAM = LakeStream("s", 1)


@pytest.fixture(params=["delta", "parquet"])
def silver(request: pytest.FixtureRequest, tmp_path: Path) -> StreamTable:
    return silver_table(new_lake(tmp_path / "lake", STREAM, kind=request.param))


def test_of_two_updates_from_one_version_the_second_is_refused(silver: StreamTable) -> None:
    """Even if they replace no file: each would add the same rows."""
    base = silver.snapshot()
    silver.replace(base, [], [], watermarks={"s": Watermark(0, 1)})
    with pytest.raises(TableBusy):
        silver.replace(base, [], [], watermarks={"s": Watermark(0, 2)})
    assert silver.snapshot().watermarks == {"s": Watermark(0, 1)}
    silver.replace(silver.snapshot(), [], [], watermarks={"s": Watermark(0, 3)})
    assert silver.snapshot().watermarks == {"s": Watermark(0, 3)}


def test_every_version_has_its_own_watermarks(tmp_path: Path) -> None:
    lake = new_lake(tmp_path / "lake", STREAM)
    for batch in range(3):
        ingest(lake, batch, s=[event(batch + 1, b"a", b"")])
    table = bronze_versions(lake)
    base = table.snapshot()
    table.replace(base, [], [], compacted={"s": Watermark(0, 3)})
    ingest(lake, 3, s=[event(4, b"a", b"")])
    seen = [
        (v, table.snapshot(v).watermarks.get("s"), table.snapshot(v).compacted.get("s"))
        for v in range(6)
    ]
    ends = [None, *(Watermark(0, n) for n in (1, 2, 3, 3, 4))]
    compacted = [None] * 4 + [Watermark(0, 3)] * 2
    assert seen == list(zip(range(6), ends, compacted, strict=True))
    assert [snapshot.version for snapshot in table.ways_back()] == [5, base.version]
    with pytest.raises(NoSuchVersion, match="no version 6"):
        table.snapshot(6)


def test_plain_parquet_has_only_the_newest_version(tmp_path: Path) -> None:
    lake = new_lake(tmp_path / "lake", STREAM, kind="parquet")
    ingest(lake, 0, s=[event(1, b"a", b"")])
    ingest(lake, 1, s=[event(2, b"a", b"")])
    table = bronze_versions(lake)
    assert table.snapshot(1).watermarks == {"s": Watermark(0, 2)}
    with pytest.raises(NoSuchVersion, match="plain Parquet, of which only version 1 is there"):
        table.snapshot(0)
