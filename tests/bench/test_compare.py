"""Tests of `bench.compare`: its verdict, and which sources it measures."""

import subprocess
from pathlib import Path

import pytest

from bench import compare
from bench.compare import Comparison


@pytest.mark.parametrize(
    ("after", "again", "holds"),
    [
        ((100, 100, 100), (100, 100, 100), True),
        ((95, 96, 40), (100, 100, 100), True),  # the median counts
        ((90, 90, 100), (100, 100, 100), False),
        ((90, 90, 100), (100, 89, 100), True),  # the machine alone does as much
    ],
)
def test_a_figure_may_fall_by_a_twentieth_or_by_what_is_noise(after, again, holds):
    assert Comparison("any", (100.0, 100.0, 100.0), after, again).holds is holds


def test_a_measurement_imports_the_sources_it_is_given(tmp_path, monkeypatch):
    package = tmp_path / "src" / "epicast"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    fake = tmp_path / "bench_fake.py"
    fake.write_text("def speeds():\n    return {'rate': lambda: 7.0}\n")
    monkeypatch.setattr(compare, "ROOT", tmp_path)
    program = (tmp_path / "bench").resolve()
    program.mkdir()
    (program / "__init__.py").write_text("")
    (program / "compare.py").write_text(Path(compare.__file__).read_text("utf-8"))
    fake.rename(program / "bench_fake.py")
    assert compare.measure("fake", "rate", tmp_path / "src") == 7.0
    with pytest.raises(RuntimeError, match="instead of"):
        compare.measure("fake", "rate", tmp_path / "elsewhere")


def test_the_earlier_sources_are_removed_afterwards():
    with compare.sources_of("HEAD") as sources:
        assert (sources / "epicast" / "__init__.py").exists()
    assert not sources.exists()
    listed = subprocess.run(
        ["git", "-C", str(compare.ROOT), "worktree", "list"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(sources.parent) not in listed.stdout


@pytest.mark.parametrize("name", ["geo", "latency", "ordered-peers", "peers", "relay"])
def test_speeds_are_named_and_can_be_called(name):
    speeds = compare.speeds(name)
    assert speeds and all(callable(rate) for rate in speeds.values())


def test_a_benchmark_without_speeds_is_named():
    with pytest.raises(SystemExit, match="'fuzz' has no speeds"):
        compare.speeds("fuzz")
