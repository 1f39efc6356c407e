"""States as they were, and questions in SQL."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from epicast import Watermark
from epicast.cli import lake_tables, main
from epicast.pipeline.lake.compaction import compact, forget
from epicast.pipeline.lake.layout import Lake, LakeStream
from epicast.pipeline.lake.query import Moment, QueryError, answer, parse_place, refresh, with_views
from epicast.pipeline.lake.travel import (
    NoWayBack,
    State,
    state_at,
    state_at_time,
    state_in_version,
)
from epicast.pipeline.lake.versions import NoSuchVersion
from tests.pipeline.lake_events import START_US, event, gc, ingest, new_lake

LATEST = LakeStream("latest", 1, latest_per_key=True)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """a and b by turns, c once and for a while: three commits of ten."""
    made = new_lake(tmp_path / "lake", LATEST)
    rows = [event(n, b"ab"[n % 2 : n % 2 + 1], b"%d" % n) for n in range(1, 31)]
    rows[4], rows[24] = event(5, b"c", b"5"), gc(25, 'key == "c"')
    for batch in range(3):
        ingest(made, batch, latest=rows[10 * batch : 10 * batch + 10])
    return made


def seqs(state: State) -> dict[bytes, int]:
    return {bytes(row.key): row.seq for row in state.values.collect()}


def test_the_way_back_leads_to_versions_from_before_a_compaction(spark: Any, lake: Lake) -> None:
    def at(seq: int) -> State:
        return state_at(spark, lake, "latest", Watermark(0, seq))

    assert seqs(at(24)) == {b"a": 24, b"b": 23, b"c": 5}
    assert seqs(at(25)) == {b"a": 24, b"b": 23}
    compact(spark, lake)
    ingest(lake, 3, latest=[event(31, b"b", b"31")])
    now, then = at(31), at(12)
    assert (seqs(then), seqs(now)) == ({b"a": 12, b"b": 11, b"c": 5}, {b"a": 30, b"b": 31})
    assert now.version == then.version + 2
    time = datetime.fromtimestamp(START_US / 1e6 + 12.5, UTC)
    assert state_at_time(spark, lake, "latest", time).watermark == Watermark(0, 12)
    assert seqs(state_in_version(spark, lake, "latest", 1)) == {b"a": 10, b"b": 9, b"c": 5}
    with pytest.raises(NoWayBack, match=r"0:32 of 'latest' is not in the lake yet.*0:31"):
        at(32)
    with pytest.raises(NoWayBack, match="no event of 'latest' that is as old as that"):
        state_at_time(spark, lake, "latest", datetime(2000, 1, 1, tzinfo=UTC))
    with pytest.raises(NoSuchVersion, match="no version 99"):
        state_in_version(spark, lake, "latest", 99)
    assert forget(lake, keep_versions=2, older_than_s=0) == []
    # Once the old files are gone, so is the way back.
    assert len(forget(lake, keep_versions=1, older_than_s=0)) == 3
    with pytest.raises(NoWayBack, match="was then has been compacted away; from 0:30 on"):
        at(12)
    with pytest.raises(NoWayBack, match=r"files of version 1 .* were deleted"):
        state_in_version(spark, lake, "latest", 1)
    assert seqs(at(30)) == {b"a": 30, b"b": 29}


def test_questions_in_sql(spark: Any, lake: Lake) -> None:
    refresh(spark, lake)
    with_views(spark, lake)
    rows, more = answer(spark, "SELECT seq FROM bronze ORDER BY seq", 10)
    assert (rows["seq"].to_pylist(), more) == (list(range(1, 11)), True)
    rows, more = answer(spark, "SELECT decode(key, 'utf-8') AS k, seq FROM silver", 0)
    assert ({(r["k"], r["seq"]) for r in rows.to_pylist()}, more) == ({("a", 30), ("b", 29)}, False)
    (counts,), _ = answer(spark, "SELECT sum(events) AS n FROM gold", 10)[0].to_pydict().values(), 0
    assert counts == [29]
    assert answer(spark, "SELECT generated FROM savings", 5)[0].to_pylist() == [{"generated": 30}]
    with_views(spark, lake, Moment(place=Watermark(0, 4)), ["latest"])
    assert answer(spark, "SELECT max(seq) AS m FROM silver", 5)[0].to_pylist() == [{"m": 4}]
    assert answer(spark, "SELECT max(seq) AS m FROM bronze", 5)[0].to_pylist() == [{"m": 4}]
    with pytest.raises(QueryError, match=r"Spark does not understand the query: .*nowhere"):
        answer(spark, "SELECT * FROM nowhere", 5)
    with pytest.raises(QueryError, match="'1-2' is no place"):
        parse_place("1-2")


def test_commands(
    spark: Any, lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the session of the tests: starting another takes long."""
    monkeypatch.setattr(type(spark), "stop", lambda self: None)

    def call(*arguments: object) -> tuple[int, str, str]:
        status = main(["lake", *map(str, arguments)])
        written = capsys.readouterr()
        return status, written.out, written.err

    master = ("--master", spark.sparkContext.master)
    folder = lake.folder
    sql = "SELECT key, seq, time FROM silver ORDER BY seq"
    status, out, _ = call("query", folder, sql, "--json", *master)
    assert status == 0
    assert [(row["key"], row["seq"]) for row in json.loads(out)] == [("b", 29), ("a", 30)]
    status, out, err = call(
        "query", folder, "--stream", "latest", "--as-of", "0:4", "--csv", "--as-is", *master
    )
    assert out.splitlines()[0] == "stream,epoch,key,seq,time,payload"
    assert [line.split(",")[2:4] for line in out.splitlines()[1:]] == [["b", "3"], ["a", "4"]]
    assert "latest as of 0:4, from version" in err
    status, out, err = call("query", folder, "SELECT seq FROM bronze", "--limit", 1, *master)
    assert "Only the first 1 rows" in err
    status, out, _ = call("compact", folder, "--json", *master)
    done = json.loads(out)
    assert status == 0
    assert [each["files_after"] for each in done["compacted"]] == [1]
    assert done["deleted"] == []
    assert json.loads(call("refresh", folder, "--json", *master)[1]) == {"updated": []}
    status, _, err = call("query", folder, "SELECT nonsense", *master)
    assert status == 2
    assert err.splitlines()[-1].startswith("epicast: Spark does not understand the query")
    assert "Traceback" not in err
    (file,) = [path for path in lake.bronze.rglob("compact-*.parquet")]
    file.write_bytes(file.read_bytes()[:-20])
    status, _, err = call("query", folder, "SELECT * FROM bronze", *master)
    (line,) = [line for line in err.splitlines() if line.startswith("epicast: ")]
    assert (status, file.name in line, "\tat " in err) == (2, True, False), err
    for arguments, said in (
        (("query", folder, "--stream", "x", *master), "no stream 'x', only latest"),
        (("query", folder, "--as-of", "0:4", *master), "name it with --stream"),
        (("query", folder.parent, *master), "is no lake"),
    ):
        status, _, err = call(*arguments)
        assert (status, said in " ".join(err.split())) == (2, True), err


def test_values_that_json_does_not_know_become_text() -> None:
    row = {"a": b"\xff", "b": [b"x"], "c": {"d": datetime(2026, 1, 1, tzinfo=UTC)}, "e": None}
    assert lake_tables._plain(row) == {
        "a": "/w==", "b": ["x"], "c": {"d": "2026-01-01T00:00:00+00:00"}, "e": None,
    }  # fmt: skip
