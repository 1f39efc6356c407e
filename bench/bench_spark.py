"""What Spark costs: per run of a sweep, per command, and what a second worker brings.

Sweeps are measured after their session has started and its workers have run something, as in a
long sweep. `overhead_ms_per_run` has trivial runs on two workers beside the same runs in this
process; `two_workers_speedup` has the same busy runs on one worker and on two, by turns. For the
first result a command is timed, `epicast doctor spark`, from its start until it has counted
something, in a cache folder of its own: first empty, then with a start-up cache in it.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.harness import Bar, Child, Figure, Result, interleave, run_child
from bench.sweep_parts import Counting, Trivial
from epicast.experiments.executor import Executor, InlineExecutor
from epicast.experiments.model import Experiment, Scale
from epicast.experiments.tasks import make_tasks
from epicast.pipeline.session import spark_session
from epicast.pipeline.sweeping import SparkExecutor

ROOT = Path(__file__).parents[1]
Found = tuple[Mapping[str, Figure], Sequence[Bar]]


def run(quick: bool) -> Result:
    os.environ["PYTHONPATH"] = str(ROOT)  # workers import the experiments of this benchmark
    figures: dict[str, Figure] = {}
    bars: list[Bar] = []
    parts: list[Callable[[bool], Found]] = [overhead, speedup, first_result]
    for part in parts:
        more_figures, more_bars = part(quick)
        figures |= more_figures
        bars += more_bars
    return Result("spark", figures, bars)


def overhead(quick: bool) -> Found:
    runs, rounds = (40, 1) if quick else (400, 3)
    with spark_session("local[2]") as spark:
        executor = SparkExecutor("local[2]", spark)
        seconds_of(executor, Trivial(10))
        rates = interleave(
            {
                "spark": lambda: runs / seconds_of(executor, Trivial(runs)),
                "inline": lambda: runs / seconds_of(InlineExecutor(), Trivial(runs)),
            },
            rounds,
        )
    on_spark, inline = 1000 / rates["spark"].median, 1000 / rates["inline"].median
    return (
        {"trivial_run_on_spark_ms": round(on_spark, 2), "trivial_run_inline_ms": round(inline, 4)},
        [Bar("overhead_ms_per_run", 50, "at most", on_spark - inline, "ms")],
    )


def speedup(quick: bool) -> Found:
    runs, steps, rounds = (8, 1_000_000, 1) if quick else (40, 4_000_000, 3)
    sweep = Counting(runs, steps=steps)

    def on(master: str) -> Callable[[], float]:
        def rate() -> float:
            with spark_session(master) as spark:
                executor = SparkExecutor(master, spark)
                seconds_of(executor, Counting(4, steps=10_000))
                return runs / seconds_of(executor, sweep)

        return rate

    rates = interleave({"one": on("local[1]"), "two": on("local[2]")}, rounds)
    return (
        {
            "busy_runs_per_s_one_worker": round(rates["one"].median, 3),
            "busy_runs_per_s_two_workers": round(rates["two"].median, 3),
        },
        [Bar("two_workers_speedup", 1.7, "at least", rates["two"].over(rates["one"]), "x")],
    )


def seconds_of(executor: Executor, experiment: Experiment) -> float:
    tasks = make_tasks(experiment, Scale.SMOKE, 1)
    start = time.perf_counter()
    outcomes = list(executor.run(tasks))
    elapsed = time.perf_counter() - start
    failed = [outcome.error for outcome in outcomes if outcome.error]
    if failed or len(outcomes) != len(tasks):
        raise RuntimeError(f"{len(failed)} of {len(tasks)} runs failed: {failed[:1]}")
    return elapsed


def first_result(quick: bool) -> Found:
    """The best of some: whatever else the machine does only makes it longer."""
    times = 1 if quick else 3
    with tempfile.TemporaryDirectory(prefix="epicast-bench-") as folder:
        cold = [doctor(folder) for _ in range(times)]
        figures: dict[str, Figure] = {
            "java": json.loads(cold[0].stdout)["java"],
            "session_s_without_cache": shortest(cold, session),
            "command_s_without_cache": shortest(cold, whole),
        }
        bars = [Bar("first_result_s", 15, "at most", shortest(cold, to_first_result), "s")]
        if quick:  # making the cache takes longer than everything else
            return figures, bars
        figures["build_cache_s"] = round(doctor(folder, "--build-cache").seconds, 1)
        cached = [doctor(folder) for _ in range(times)]
    if not json.loads(cached[0].stdout)["startup_cache"]:
        raise RuntimeError(f"the start-up cache is not used: {cached[0].stdout}")
    figures["session_s_with_cache"] = shortest(cached, session)
    figures["command_s_with_cache"] = shortest(cached, whole)
    best = shortest(cached, to_first_result)
    bars.append(Bar("first_result_with_cache_s", 8, "at most", best, "s"))
    return figures, bars


def shortest(commands: Sequence[Child], part: Callable[[Child], float]) -> float:
    return round(min(map(part, commands)), 2)


def whole(command: Child) -> float:
    return command.seconds


def session(command: Child) -> float:
    return float(json.loads(command.stdout)["session_s"])


def to_first_result(command: Child) -> float:
    """Without what the command does once it has it: count again, and stop the session."""
    found = json.loads(command.stdout)
    return command.seconds - float(found["next_result_s"]) - float(found["stop_s"])


def doctor(cache: str, *options: str) -> Child:
    command = [sys.executable, "-m", "epicast", "doctor", "spark", "--json", *options]
    return run_child(command, env={**os.environ, "XDG_CACHE_HOME": cache})
