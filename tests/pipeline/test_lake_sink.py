"""A streaming query publishes every row once, however often it dies."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from epicast import Event, sync
from epicast.geo.local import LocalGeoplex
from epicast.pipeline.lake.errors import LakeOptionError
from epicast.pipeline.lake.publishing_sink import CannotPublish, PublishingWriter, events_of
from epicast.pipeline.lake.source import register

SCHEMA = StructType([StructField("key", BinaryType()), StructField("payload", BinaryType())])


@pytest.fixture(scope="module")
def local() -> Any:
    with LocalGeoplex() as running:
        yield running


@pytest.fixture
def before(local: LocalGeoplex) -> int:
    with sync.connect(local.address("ap"), agent=False) as node:
        return node.stream("audit").head().seq


def published(local: LocalGeoplex, after: int, count: int) -> list[tuple[bytes, bytes]]:
    """Behind a number; exactly so many, or it fails."""
    with sync.connect(local.address("ap"), agent=False) as node:
        stream = node.stream("audit")
        assert stream.head().seq == after + count
        found: list[tuple[bytes, bytes]] = []
        with stream.subscribe(after) as subscription:
            while len(found) < count:
                items = subscription.pull(timeout=20)
                assert items
                found += [(e.key, e.payload) for e in items if isinstance(e, Event)]
    return found


def options(local: LocalGeoplex, checkpoint: Path) -> dict[str, str]:
    return {"proxy": local.address("ap"), "stream": "audit", "checkpointlocation": str(checkpoint)}


def writer(local: LocalGeoplex, checkpoint: Path) -> PublishingWriter:
    checkpoint.mkdir(exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": f"query of {checkpoint}"}))
    return PublishingWriter(options(local, checkpoint), SCHEMA)


def batch(*payloads: bytes) -> pa.RecordBatch:
    keys = [b"k" + payload for payload in payloads]
    return pa.RecordBatch.from_pydict({"key": keys, "payload": list(payloads)})


def test_a_batch_that_comes_again_is_the_same(
    local: LocalGeoplex, before: int, tmp_path: Path
) -> None:
    sink = writer(local, tmp_path / "checkpoint")
    nothing = sink.write(iter([]))
    sink.commit(
        [sink.write(iter([batch(b"1", b"2")])), nothing, sink.write(iter([batch(b"3")]))], 0
    )
    sink.commit([nothing, None], 1)
    # Done again, with other rows: what counts is what was there first.
    sink.commit([sink.write(iter([batch(b"x")]))], 0)
    sink.commit([sink.write(iter([batch(b"4")]))], 2)
    expected = [(b"k1", b"1"), (b"k2", b"2"), (b"k3", b"3"), (b"k4", b"4")]
    assert published(local, before, 4) == expected
    # As if it had died before it could note that batch 2 was published: the owner knows better.
    sink = writer(local, tmp_path / "checkpoint")
    staged = sink.write(iter([batch(b"4")]))
    path = tmp_path / "checkpoint" / "epicast" / "batch-00000000000000000002.json"
    manifest = json.loads(path.read_text())
    assert (manifest["first"], manifest["published"]) == (4, True)
    files = [{"name": staged.name, "rows": 1}]
    path.write_text(json.dumps({**manifest, "published": False, "files": files}))
    sink.commit([], 2)
    assert published(local, before, 4) == expected
    assert not list((tmp_path / "checkpoint").rglob("*.arrow"))


KILLED = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
from epicast.client import sync
from epicast.pipeline.lake import publishing_sink
from pyspark.sql.types import BinaryType, StructField, StructType
publishing_sink._ROWS_AT_A_TIME = 10
publish, left = sync.Stream.publish_many, [2]
def publish_some(self, *arguments):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return publish(self, *arguments)
sync.Stream.publish_many = publish_some
schema = StructType([StructField("payload", BinaryType())])
options = {"proxy": sys.argv[1], "stream": "audit", "checkpointlocation": sys.argv[2]}
sink = publishing_sink.PublishingWriter(options, schema)
rows = pa.RecordBatch.from_pydict({"payload": [b"%d" % n for n in range(50)]})
sink.commit([sink.write(iter([rows]))], 0)
"""


def test_sigkill_in_the_middle_of_publishing(
    local: LocalGeoplex, before: int, tmp_path: Path
) -> None:
    sink = writer(local, tmp_path / "checkpoint")
    arguments = [local.address("ap"), str(tmp_path / "checkpoint")]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert len(published(local, before, 20)) == 20
    sink.commit([sink.write(iter([batch(b"another attempt")]))], 0)
    assert published(local, before, 50) == [(b"", b"%d" % n) for n in range(50)]


def test_a_query_that_loses_its_last_commit_publishes_nothing_twice(
    spark: Any, local: LocalGeoplex, before: int, tmp_path: Path
) -> None:
    register(spark)
    rows = tmp_path / "rows"

    def run(first: int, last: int) -> None:
        if last > first:
            texts = [(f"k{n}", str(n)) for n in range(first, last)]
            frame = spark.createDataFrame(texts, "key string, payload string")
            frame.coalesce(1).write.mode("append").parquet(str(rows))
        stream = spark.readStream.schema("key string, payload string").parquet(str(rows))
        query = stream.writeStream.format("epicast").trigger(availableNow=True)
        for name, value in options(local, tmp_path / "checkpoint").items():
            query = query.option("checkpointLocation" if "point" in name else name, value)
        assert query.start().awaitTermination(120)

    run(0, 30)
    run(30, 40)
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    assert len(commits) == 2
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink()
    run(40, 40)
    assert commits[-1].exists(), "the batch was not done again"
    run(40, 45)
    found = published(local, before, 45)
    assert sorted(found) == sorted((b"k%d" % n, b"%d" % n) for n in range(45))
    assert set(found[:30]) == {(b"k%d" % n, b"%d" % n) for n in range(30)}


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=9)), min_size=1, max_size=20))
def test_columns_become_events(rows: list[tuple[bytes, bytes]]) -> None:
    keys, payloads = zip(*rows, strict=True)
    whole = pa.RecordBatch.from_pydict({"key": keys, "payload": payloads})
    for part, wanted in ((whole, rows), (whole.slice(len(rows) // 2), rows[len(rows) // 2 :])):
        events = events_of(part, 7)
        assert list(zip(events.keys(), events.payloads(), strict=True)) == wanted
        assert (events.stream, events.first, events.last) == (7, 1, len(wanted))


def test_what_cannot_be_published_is_said(local: LocalGeoplex, tmp_path: Path) -> None:
    good = options(local, tmp_path)
    for schema, said in (
        (StructType([StructField("value", StringType())]), "these have value"),
        (StructType([StructField("payload", LongType())]), "column payload is bigint"),
    ):
        with pytest.raises(LakeOptionError, match=said):
            PublishingWriter(good, schema)
    for name in good:
        with pytest.raises(LakeOptionError, match=name.replace("location", "Location")):
            PublishingWriter({**good, name: ""}, SCHEMA)
    with pytest.raises(LakeOptionError, match="not a folder that this machine has"):
        PublishingWriter({**good, "checkpointlocation": "s3://bucket/x"}, SCHEMA)
    sink = PublishingWriter(good, SCHEMA)
    with pytest.raises(CannotPublish, match="1 rows have no payload"):
        sink.write(iter([pa.RecordBatch.from_pydict({"payload": pa.array([None], pa.binary())})]))
    with pytest.raises(CannotPublish, match="does not say which query this is"):
        sink.publisher()
