"""The benchmark harness: bars, fair interleaving, child memory, and the command."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import bench
from bench.__main__ import available, main
from bench.harness import Bar, Rates, Result, interleave, run_child

MB = 1 << 20


@pytest.mark.parametrize(
    ("direction", "measured", "holds"),
    [
        ("at least", 2.0, True),
        ("at least", 1.99, False),
        ("at most", 2.0, True),
        ("at most", 2.01, False),
        ("at least", math.nan, False),
        ("at most", math.nan, False),
    ],
)
def test_bar_holds_up_to_its_goal(direction, measured, holds):
    assert Bar("speed", 2.0, direction, measured, "x").holds is holds


def test_bar_refuses_an_unknown_direction():
    with pytest.raises(ValueError, match="'above'"):
        Bar("speed", 2.0, "above", 3.0)


def test_json_has_plain_values_only():
    bars = [Bar("speed", 2.0, "at least", np.float64(3.5), "x"), Bar("lag", 1, "at most", math.inf)]
    result = Result("demo", {"events": np.int64(7), "host": "any", "bad": math.nan}, bars)
    assert json.loads(json.dumps(result.to_json(), allow_nan=False)) == {
        "name": "demo",
        "figures": {"events": 7, "host": "any", "bad": None},
        "bars": [
            {"name": "speed", "goal": 2.0, "measured": 3.5, "unit": "x", "holds": True},
            {"name": "lag", "goal": 1, "measured": None, "unit": "", "holds": False},
        ],
    }
    assert not result.holds


def test_interleave_alternates_and_moves_the_start():
    calls = []

    def candidate(name, rates):
        def call():
            calls.append(name)
            return rates.pop(0)

        return call

    rates = interleave(
        {"a": candidate("a", [0.0, 10.0, 30.0, 20.0]), "b": candidate("b", [0.0, 1.0, 2.0, 4.0])},
        rounds=3,
        warmup=1,
    )
    assert "".join(calls) == "ba" + "ab" + "ba" + "ab"
    assert rates["a"].samples == (10.0, 30.0, 20.0)
    assert (rates["a"].best, rates["a"].median) == (30.0, 20.0)
    assert rates["b"].best == 4.0


def test_interleave_refuses_nothing_to_do():
    with pytest.raises(ValueError, match="at least one"):
        interleave({}, 3)
    with pytest.raises(ValueError, match="at least one"):
        interleave({"a": lambda: 1.0}, 0)


def test_ratio_pairs_the_rounds():
    # The machine ran at a tenth of its speed in the last two rounds; the ratio does not notice.
    assert Rates((20.0, 2.0, 2.0)).over(Rates((10.0, 1.0, 1.0))) == 2.0


def test_child_memory_is_the_childs_own():
    ours = np.ones(256 * MB // 8)  # this process is larger than the child below
    small = run_child([sys.executable, "-c", "print('hello')"])
    large = run_child([sys.executable, "-c", f"x = b'x' * {100 * MB}"])
    assert ours.nbytes == 256 * MB
    assert small.stdout == "hello\n"
    assert small.peak_rss_bytes < 64 * MB
    assert 100 * MB <= large.peak_rss_bytes < 164 * MB


def test_child_failure_shows_stderr():
    with pytest.raises(RuntimeError, match=r"ended with 3\n(.|\n)*no such luck"):
        run_child(
            [
                sys.executable,
                "-c",
                "import sys; print('no such luck', file=sys.stderr); sys.exit(3)",
            ]
        )


def test_child_timeout():
    with pytest.raises(RuntimeError, match=r"still running after 0\.5 s"):
        run_child([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.5)


BENCH = """
from bench.harness import Bar, Result
def run(quick):
    return Result("{name}", {{"events": 12345, "quick": str(quick)}},
                  [Bar("speed", 2.0, "at least", {measured}, "x")])
"""


@pytest.fixture
def benches(tmp_path, monkeypatch) -> Path:
    """A bench package with one bench that meets its bar, one that does not."""
    monkeypatch.setattr(bench, "__path__", [str(tmp_path)])
    for module, measured in [("bench_fast_one", 3.0), ("bench_slow", 1.0)]:
        text = BENCH.format(name=module.removeprefix("bench_").replace("_", "-"), measured=measured)
        (tmp_path / f"{module}.py").write_text(text)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("bench.bench_")]:
        del sys.modules[name]


def test_command_finds_benches(benches):
    assert available() == ["fast-one", "slow"]


def test_command_writes_json_and_succeeds(benches, capsys):
    target = benches / "out.json"
    assert main(["fast-one", "--json", str(target)]) == 0
    written = json.loads(target.read_text())
    assert written["name"] == "fast-one"
    assert written["figures"] == {"events": 12345, "quick": "False"}
    assert [bar["holds"] for bar in written["bars"]] == [True]
    shown = capsys.readouterr().out
    assert "12,345" in shown
    assert "holds" in shown


def test_command_fails_on_a_missed_bar_unless_quick(benches, capsys):
    assert main(["slow"]) == 1
    assert "does not hold" in capsys.readouterr().out
    assert main(["slow", "--quick"]) == 0
    assert "not judged" in capsys.readouterr().out


def test_all_runs_every_bench_and_writes_a_list(benches):
    target = benches / "all.json"
    assert main(["all", "--json", str(target)]) == 1
    assert [result["name"] for result in json.loads(target.read_text())] == ["fast-one", "slow"]


def test_a_crash_fails_even_when_quick_and_spares_the_others(benches, capsys):
    (benches / "bench_broken.py").write_text("def run(quick): raise OSError('no socket')")
    assert main(["all", "--quick"]) == 1
    captured = capsys.readouterr()
    assert "no socket" in captured.err
    assert "slow" in captured.out
    assert "failed: broken" in captured.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "available: fast-one, slow, all"),
        (["slow", "--json", "/no/such/place/out.json"], "its directory does not exist"),
    ],
)
def test_wrong_call_exits_with_2(benches, capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
