"""What is left in the directory: schema of the claims, types of the table, honesty on failure."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from epicast.core import ConfigError
from epicast.experiments.executor import InlineExecutor
from epicast.experiments.model import Claim, Experiment, Scale
from epicast.experiments.outputs import command_line, judge, read_claims, write_outputs
from epicast.experiments.results import Results
from epicast.experiments.sweep import Failure, Sweep, run_sweep
from epicast.experiments.table import write_parquet
from tests.unit.experiments.synthetic import Averages


def finished(directory: Path, experiment: Experiment | None = None) -> Sweep:
    return run_sweep(experiment or Averages(), Scale.SMOKE, 1, directory, InlineExecutor())


def with_failure(sweep: Sweep) -> Sweep:
    failure = Failure(sweep.tasks[0], "Traceback …\nValueError: <boom>")
    return Sweep(
        sweep.experiment, sweep.scale, sweep.seed, sweep.tasks, sweep.results, [failure], 0, 1.0
    )


def test_claims_file(tmp_path: Path) -> None:
    returned = write_outputs(finished(tmp_path), tmp_path)
    claims = json.loads((tmp_path / "claims.json").read_text("utf-8"))
    assert [set(claim) for claim in claims] == [{"id", "paper", "ours", "holds", "detail"}] * 2
    assert [claim["id"] for claim in claims] == ["T1", "T2"]
    assert [claim["holds"] for claim in claims] == [True, False]
    assert read_claims([tmp_path, tmp_path]) == [(tmp_path, claim) for claim in returned] * 2


def test_everything_is_there_and_nothing_half_written(tmp_path: Path) -> None:
    write_outputs(finished(tmp_path), tmp_path)
    found = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert found == [
        "claims.json", "plots/means.png", "report.html", "results.parquet", "runs/runs.jsonl",
    ]  # fmt: skip
    assert (tmp_path / "plots" / "means.png").read_bytes().startswith(b"\x89PNG")


def test_results_file(tmp_path: Path) -> None:
    write_outputs(finished(tmp_path), tmp_path)
    table = pq.read_table(tmp_path / "results.parquet")
    assert {field.name: str(field.type) for field in table.schema} == {
        "size": "int64", "kind": "string", "seed": "int64", "part": "string", "mean": "double",
        "largest": "double", "count": "int64",
    }  # fmt: skip
    assert table.num_rows == 12
    assert table.column("count").to_pylist()[:4] == [None, 5, None, 5]
    assert table.schema.metadata[b"experiment"] == b"averages"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, None], "bool"),
        ([1, 2], "int64"),
        ([1, 2.5], "double"),
        ([None, "x"], "string"),
        ([None, None], "null"),
    ],
)
def test_column_types(tmp_path: Path, values: list[Any], kind: str) -> None:
    write_parquet(tmp_path / "t.parquet", [{"x": value} for value in values], {})
    table = pq.read_table(tmp_path / "t.parquet")
    assert str(table.schema.field("x").type) == kind
    assert table.column("x").to_pylist() == values


@pytest.mark.parametrize("values", [[1, "x"], [True, 1]])
def test_a_mixed_column_is_refused_and_leaves_no_file(tmp_path: Path, values: list[Any]) -> None:
    with pytest.raises(TypeError, match="the column 'x' mixes"):
        write_parquet(tmp_path / "t.parquet", [{"x": value} for value in values], {})
    assert list(tmp_path.iterdir()) == []


def test_with_a_failed_run_no_claim_holds(tmp_path: Path) -> None:
    claims = write_outputs(with_failure(finished(tmp_path)), tmp_path)
    assert [(claim.id, claim.holds, claim.ours) for claim in claims] == [
        ("T1", False, "not measured"),
        ("T2", False, "not measured"),
    ]
    assert claims[0].detail == "1 of 6 runs failed"
    assert "<boom>" not in (tmp_path / "report.html").read_text("utf-8")


class Judging(Averages):
    verdicts: Sequence[Claim] = ()

    def claims(self, results: Results) -> Sequence[Claim]:
        return self.verdicts  # type: ignore[return-value]


def test_numpy_verdicts_become_plain(tmp_path: Path) -> None:
    judging = Judging()
    true, false = np.array([True, False])
    judging.verdicts = [Claim("T1", "a", "b", true), Claim("T2", "a", "b", false)]
    verdicts = [claim.holds for claim in judge(finished(tmp_path, judging))]
    assert [type(verdict) for verdict in verdicts] == [bool, bool]
    assert verdicts == [True, False]


@pytest.mark.parametrize("ids", [["T1"], ["T1", "T2", "T9"], []])
def test_an_experiment_judges_exactly_its_claims(tmp_path: Path, ids: list[str]) -> None:
    judging = Judging()
    judging.verdicts = [Claim(id, "a", "b", True) for id in ids]
    with pytest.raises(ValueError, match="averages covers"):
        judge(finished(tmp_path, judging))


def test_reading_claims_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no .*claims\.json; write it with: epicast"):
        read_claims([tmp_path])
    (tmp_path / "claims.json").write_text('[{"id": 5}]')
    with pytest.raises(ConfigError, match="is not a list of claims"):
        read_claims([tmp_path])
    (tmp_path / "claims.json").write_text("[")
    with pytest.raises(ConfigError, match="is not a list of claims"):
        read_claims([tmp_path])


def test_command_line_can_be_pasted() -> None:
    command = command_line("x", Scale.PAPER, 3, Path("my dir"))
    assert command == "epicast experiment run x --scale paper --seed 3 --out 'my dir'"
    there = command_line("x", Scale.PAPER, 3, Path("my dir"), "local[2]")
    assert there == f"{command} --master 'local[2]'"
    assert command_line("x", Scale.PAPER, 3, Path("my dir"), inline=True) == f"{command} --inline"
