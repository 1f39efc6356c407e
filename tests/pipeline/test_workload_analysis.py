"""What jobs find in a workload, against plain loops and a real history."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from epicast.experiments.key_workload import encode_events
from epicast.log import GcPolicy, History
from epicast.pipeline import session
from epicast.pipeline.errors import SparkFailed
from epicast.pipeline.workloads.ages import AgeBin, ages_of_updates, fit_of
from epicast.pipeline.workloads.analysis import analyse, to_json, write_report
from epicast.pipeline.workloads.chunks import Columns, Op
from epicast.pipeline.workloads.curve import Point, marks_of, storage_curve
from epicast.pipeline.workloads.errors import WorkloadError
from epicast.pipeline.workloads.files import chunk_path, read_columns, write_chunk
from epicast.pipeline.workloads.generating import generate
from epicast.pipeline.workloads.last_events import count_last_events, last_event_per_key
from epicast.pipeline.workloads.manifest import Workload, describe
from epicast.pipeline.workloads.spec import NS_PER_S, WorkloadSpec
from epicast.pipeline.workloads.verdicts import judge
from tests.pipeline.conftest import MASTER

ZETA = WorkloadSpec(
    model="zeta", events=25_000, skew=1.1, insertions=10.0, chunk_events=3_000, seed=2
)
ZIPF = replace(ZETA, model="zipf", keys=2_000)
TEMPORARY = replace(ZIPF, temporary=40.0, lifetime=4.0)


def columns_of(directory: Path, workload: Workload) -> Columns:
    chunks = [
        read_columns(chunk_path(directory, number), *Columns._fields)
        for number in range(len(workload.chunks))
    ]
    return Columns(*(np.concatenate(parts) for parts in zip(*chunks, strict=True)))


@pytest.mark.parametrize("spec", [ZETA, TEMPORARY])
def test_last_event_per_key(spark: Any, tmp_path: Path, spec: WorkloadSpec) -> None:
    workload = generate(spark, spec, tmp_path)
    columns = columns_of(tmp_path, workload)
    expected = {
        key: (number, op)
        for number, (key, op) in enumerate(
            zip(columns.key.tolist(), columns.op.tolist(), strict=True), start=1
        )
    }
    found = last_event_per_key(spark, tmp_path)
    assert found.schema.simpleString() == "struct<key:bigint,number:bigint,op:tinyint>"
    assert {row.key: (row.number, row.op) for row in found.collect()} == expected
    total = sum(number for number, _ in expected.values())
    assert count_last_events(spark, tmp_path) == (len(expected), total)


@pytest.mark.parametrize("spec", [ZETA, ZIPF])
def test_the_curve_is_that_of_a_real_history(
    spark: Any, tmp_path: Path, spec: WorkloadSpec
) -> None:
    workload = generate(spark, spec, tmp_path)
    key = columns_of(tmp_path, workload).key
    marks = [1, 2, 500, 3_000, 3_001, 17_777, 25_000]
    history = History.in_memory(1, policy=GcPolicy(latest_per_key=True))
    expected = []
    for mark in marks:
        history.append(encode_events(1, history.end + 1, key[history.end : mark]))
        expected.append(Point(mark, history.statistics().live_events))
    history.close()
    assert storage_curve(spark, workload, tmp_path, marks) == expected


def plain_curve(columns: Columns, marks: list[int]) -> list[Point]:
    live: set[int] = set()
    found = []
    for number, (key, op) in enumerate(
        zip(columns.key.tolist(), columns.op.tolist(), strict=True), start=1
    ):
        (live.discard if op == Op.DELETE else live.add)(key)
        if number in marks:
            found.append(Point(number, len(live)))
    return found


def test_deleted_keys_are_not_stored(spark: Any, tmp_path: Path) -> None:
    workload = generate(spark, TEMPORARY, tmp_path)
    columns = columns_of(tmp_path, workload)
    marks = marks_of(workload.rows)
    assert storage_curve(spark, workload, tmp_path) == plain_curve(columns, marks)
    assert workload.deletes > 1_000


def test_keys_come_back_after_they_were_deleted(spark: Any, tmp_path: Path) -> None:
    """Few keys, near and far, and all operations in any order, as in an imported trace."""
    rng = np.random.default_rng(4)
    rows, chunks = 1_500, []
    (tmp_path / "events").mkdir()
    for number in range(5):
        columns = Columns(
            np.arange(rows) + number * rows,
            rng.choice([1, 2, 3, -7, 1 << 40, (1 << 62) + 9, -(1 << 61)], rows),
            rng.integers(0, 3, rows, dtype=np.int8),
            np.zeros(rows, dtype=np.int32),
        )
        chunks.append(write_chunk(chunk_path(tmp_path, number), columns))
    workload = describe(tmp_path, chunks)
    marks = [1, 2, 3, 4, 5, 7, 10, 100, 1_499, 1_500, 1_501, 4_000, 7_500]
    columns = columns_of(tmp_path, workload)
    found = storage_curve(spark, workload, tmp_path, marks)
    assert found == plain_curve(columns, marks)
    assert len({point.stored for point in found}) > 3


def test_ages(spark: Any, tmp_path: Path) -> None:
    spec = replace(ZETA, skew=1.5, rate=50.0)
    workload = generate(spark, spec, tmp_path)
    columns = columns_of(tmp_path, workload)
    births: dict[int, int] = {}
    ages = []
    for time, key, op in zip(*(column.tolist() for column in columns[:3]), strict=True):
        if op == Op.INSERT:
            births[key] = time
        elif key < 0:
            ages.append((time - births[key]) / NS_PER_S)
    found = ages_of_updates(spark, workload, tmp_path)
    assert [one.updates for one in found[:-1]] == [
        sum(one.low <= age < one.high for age in ages) for one in found[:-1]
    ]
    assert sum(one.updates for one in found) > 1_000
    assert not list(tmp_path.glob(".ages*"))
    assert ages_of_updates(spark, replace(workload, spec=None), tmp_path) == []


def test_files_that_are_not_what_they_were(spark: Any, tmp_path: Path) -> None:
    """Each is named before a job is started."""
    whole = tmp_path / "whole"
    generate(spark, ZETA, whole)
    damages: dict[str, Callable[[Path], object]] = {
        "is missing": Path.unlink,
        "is damaged, or was not written to its end": lambda file: file.write_bytes(b"PAR1"),
        "is not the file that": lambda file: shutil.copy(chunk_path(whole, 2), file),
    }
    for said, damage in damages.items():
        copy = shutil.copytree(whole, tmp_path / "copy")
        damage(chunk_path(copy, 1))
        with pytest.raises(WorkloadError, match=rf"{chunk_path(copy, 1)} {said}"):
            analyse(spark, [whole, copy])
        shutil.rmtree(copy)


def test_what_spark_raises_is_a_sentence(monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    monkeypatch.setattr(session, "start_session", lambda *_, **__: spark)
    monkeypatch.setattr(session, "_stop", lambda spark: None)
    with (
        pytest.raises(SparkFailed, match=r"the job failed: .*nowhere") as failed,
        session.spark_session(MASTER) as started,
    ):
        started.sql("SELECT * FROM nowhere").collect()
    assert "\n" not in str(failed.value)


def test_a_power_law_is_fitted() -> None:
    edges = [10 ** (at / 10) for at in range(41)]
    bins = [
        AgeBin(low, high, round(1e9 * (high - low) * (low * high) ** -0.65))
        for low, high in pairwise(edges)
    ]
    fit = fit_of(bins)
    assert fit is not None and fit.slope == pytest.approx(-1.3, abs=0.01) and fit.explained > 0.99
    assert fit_of(bins[:2]) is None


def test_claims(spark: Any, tmp_path: Path) -> None:
    base = replace(ZETA, events=200_000, chunk_events=60_000)
    zipf = replace(base, model="zipf", keys=100_000)
    specs = {
        "zeta-1.1": base,
        "zeta-1.2": replace(base, skew=1.2),
        "zeta-50": replace(base, rate=50.0),
        "fixed": replace(zipf, insertions=0.0),
        "steep": replace(zipf, insertions=0.0, skew=1.3),
        "inserting": replace(zipf, insertions=20.0),
    }
    for name, spec in specs.items():
        generate(spark, spec, tmp_path / name)
    done: list[int] = []
    analyses, verdicts = analyse(spark, [tmp_path / name for name in specs], lambda: done.append(1))
    assert len(done) == len(specs)
    claims = {claim.id: claim for claim in verdicts.claims}
    assert claims.keys() == {"S5", "S6", "S7"} and not verdicts.missing
    # Of the two of skew 1.1 that is taken which is like the one of skew 1.2.
    assert claims["S5"].holds and claims["S5"] in judge(analyses[:2]).claims
    assert claims["S6"].holds and "more with more skew: yes" in claims["S6"].detail
    assert claims["S7"].holds, claims["S7"]
    assert "steeper with skew: yes; higher with λ: yes" in claims["S7"].detail
    (zeta,) = [claim for claim in judge(analyses[:2]).claims if claim.id == "S5"]
    assert zeta.holds and "skew 1.1: 5" in zeta.ours
    swapped = [analyses[1], replace(analyses[0], curve=analyses[1].curve)]
    (zeta,) = [claim for claim in judge(swapped).claims if claim.id == "S5"]
    assert not zeta.holds
    assert "S5 needs Zeta" in judge([analyses[0], analyses[2]]).missing[0]
    assert len(judge([]).missing) == 3
    report = tmp_path / "report.html"
    write_report(report, analyses, verdicts)
    text = report.read_text("utf-8")
    assert "data:image/" in text and "S6" in text and "zeta 1.2" in text
    document = to_json(analyses, verdicts)
    assert document["workloads"][3]["curve"][-1]["generated"] == 200_000
