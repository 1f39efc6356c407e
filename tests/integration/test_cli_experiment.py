"""`epicast experiment` as a person meets it: real processes, exit codes. On Spark:
tests/pipeline/test_sweep_command.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.experiment_cli import LAUNCH, epicast, is_one_line

WITHOUT_SPARK = "import sys; sys.modules['pyspark'] = None\n" + LAUNCH


def test_list() -> None:
    shown = epicast("experiment", "list")
    assert shown.returncode == 0
    assert "averages" in shown.stdout and "T1 T2" in shown.stdout and "6 / 10 / 14" in shown.stdout
    rows = json.loads(epicast("experiment", "list", "--json").stdout)
    assert rows[0] == {
        "name": "averages",
        "title": "Means of <samples> & more",
        "claims": ["T1", "T2"],
        "runs": {"smoke": 6, "paper": 10, "beyond": 14},
    }


def test_run_leaves_everything_and_claims_shows_it(tmp_path: Path) -> None:
    done = epicast(
        "experiment", "run", "averages", "--inline", "--out", tmp_path / "a", "--seed", "5"
    )
    assert done.returncode == 0, done.stderr
    assert "1 of 2 claims hold" in done.stdout
    assert f"Report: {tmp_path / 'a' / 'report.html'}" in done.stdout
    assert "averages: 6 of 6 done" in done.stderr
    for name in ("claims.json", "results.parquet", "report.html", "plots/means.png"):
        assert (tmp_path / "a" / name).stat().st_size > 0
    report = (tmp_path / "a" / "report.html").read_text("utf-8")
    assert f"epicast experiment run averages --scale smoke --seed 5 --out {tmp_path}/a" in report

    shown = epicast("experiment", "claims", tmp_path / "a")
    assert shown.returncode == 0
    assert "cannot [hold]" in shown.stdout and "NO" in shown.stdout
    assert epicast("experiment", "claims", tmp_path / "a", "--strict").returncode == 1
    claims = json.loads(epicast("experiment", "claims", tmp_path / "a", "--json").stdout)
    assert [(c["id"], c["holds"], c["directory"]) for c in claims] == [
        ("T1", True, str(tmp_path / "a")),
        ("T2", False, str(tmp_path / "a")),
    ]


def test_an_experiment_without_claims_shows_no_empty_table(tmp_path: Path) -> None:
    (tmp_path / "claims.json").write_text("[]", "utf-8")
    shown = epicast("experiment", "claims", tmp_path, "--strict")
    assert shown.returncode == 0
    assert shown.stdout == "No claim of a paper was judged; what was found is in the report.\n"


def test_run_by_claim_with_json(tmp_path: Path) -> None:
    done = epicast("experiment", "run", "--claim", "T2", "--inline", "--out", tmp_path, "--json")
    summary = json.loads(done.stdout)
    assert summary["experiment"] == "averages"
    assert summary["runs"] == {"total": 6, "reused": 0, "failed": 0}
    assert summary["claims"] == json.loads((tmp_path / "claims.json").read_text("utf-8"))
    again = epicast("experiment", "run", "--claim", "T2", "--inline", "--out", tmp_path, "--json")
    assert json.loads(again.stdout)["runs"] == {"total": 6, "reused": 6, "failed": 0}
    assert "6 of 6 runs are in" in again.stderr and "delete" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "averges"], "there is no experiment 'averges'; did you mean 'averages'?"),
        (["run", "--claim", "Z9"], "no experiment covers claim 'Z9'; covered: T1, T2, T3, T4, T5"),
        (["run", "averages", "--out", "/dev/null/x"], "cannot write to /dev/null/x: Not a dir"),
        (["claims", "/no/such"], "there is no /no/such/claims.json; write it with: epicast"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line_and_status_2(arguments: list[str], message: str) -> None:
    failed = epicast("experiment", *arguments)
    assert failed.returncode == 2
    assert failed.stdout == ""
    assert failed.stderr.startswith(f"epicast: {message}")
    assert is_one_line(failed.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ["experiment", "run"],
        ["experiment", "run", "averages", "--claim", "T1"],
        ["experiment", "run", "averages", "--scale", "huge"],
        ["experiment", "run", "averages", "--inline", "--master", "local[2]"],
        ["experiment", "frobnicate"],
        ["--frobnicate"],
    ],
)
def test_wrong_calls_are_status_2(arguments: list[str]) -> None:
    failed = epicast(*arguments)
    assert failed.returncode == 2
    assert "Traceback" not in failed.stderr and "Usage: epicast" in failed.stderr


def test_without_spark_it_says_what_to_install_and_inline_works(tmp_path: Path) -> None:
    words = ("experiment", "run", "averages", "--out", tmp_path / "out")
    refused = epicast(*words, script=WITHOUT_SPARK)
    assert refused.returncode == 2 and is_one_line(refused.stderr)
    assert "pip install 'epicast[spark]'; or run it without Spark: --inline" in refused.stderr
    assert not (tmp_path / "out").exists()
    assert epicast(*words, "--inline", script=WITHOUT_SPARK).returncode == 0


def test_another_experiments_directory_is_not_touched(tmp_path: Path) -> None:
    assert epicast("experiment", "run", "averages", "--inline", "--out", tmp_path).returncode == 0
    before = (tmp_path / "results.parquet").read_bytes()
    refused = epicast("experiment", "run", "gated", "--out", tmp_path, gate=tmp_path)
    assert refused.returncode == 2 and is_one_line(refused.stderr)
    assert "holds runs of 'averages'" in refused.stderr
    assert (tmp_path / "results.parquet").read_bytes() == before


def test_version_and_the_module_form() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "epicast", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("epicast ") and is_one_line(done.stdout)


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from epicast.cli import main; status = main(['experiment', 'run', '--help']); "
        "print(status, [m for m in ('numpy', 'pyarrow', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 []"
