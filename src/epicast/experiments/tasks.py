"""One run of an experiment as a value that can be sent, done anywhere, and recognised later."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from epicast.core.sampling import derive_seed
from epicast.experiments.model import Experiment, Parameters, Row, Scalar, Scale

_INT64 = range(-(2**63), 2**63)


class Task(Struct, frozen=True):
    experiment: Experiment
    parameters: Parameters
    seed: int
    key: str
    """Names the run: experiment, parameters and seed, not the code. Same key, same work."""


class Outcome(Struct, frozen=True):
    """What became of a task: rows, or the traceback of what went wrong."""

    key: str
    rows: list[Row]
    error: str = ""
    seconds: float = 0.0


def make_tasks(experiment: Experiment, scale: Scale, seed: int) -> list[Task]:
    """One task per point, in the order of the points."""
    tasks: dict[str, Task] = {}
    for point in experiment.points(scale):
        parameters = {name: _scalar(name, value) for name, value in point.items()}
        if "seed" in parameters:
            raise ValueError(
                f"{experiment.name}: 'seed' is not a parameter, every run is given one"
            )
        canonical = json.dumps(parameters, sort_keys=True)
        # 63 bits: the seed is a column of the results, whose integers are signed.
        run_seed = derive_seed(seed, experiment.name, canonical) >> 1
        identity = json.dumps([experiment.name, canonical, run_seed])
        key = blake2b(identity.encode(), digest_size=12).hexdigest()
        if key in tasks:
            raise ValueError(f"{experiment.name}: the point {canonical} occurs twice")
        tasks[key] = Task(experiment, parameters, run_seed, key)
    if not tasks:
        raise ValueError(f"{experiment.name}: no points at scale {scale}")
    return list(tasks.values())


def execute(task: Task) -> Outcome:
    """Run a task; whatever it raises becomes part of the outcome."""
    start = time.perf_counter()
    try:
        found = task.experiment.run(task.parameters, task.seed)
        rows = [found] if isinstance(found, Mapping) else found
        complete = [_complete(task, row) for row in rows]
    except Exception:
        return Outcome(task.key, [], traceback.format_exc(), time.perf_counter() - start)
    return Outcome(task.key, complete, "", time.perf_counter() - start)


def _complete(task: Task, row: Row) -> Row:
    """Parameters, seed and metrics together, as plain Python values."""
    whole: dict[str, Scalar] = {**task.parameters, "seed": task.seed}
    for name, value in row.items():
        plain = _scalar(name, value)
        if name in whole and whole[name] != plain:
            raise ValueError(f"the metric {name!r} has the name of a parameter with another value")
        whole[name] = plain
    return whole


def _scalar(name: str, value: Any) -> Scalar:
    """Numpy scalars become Python's; anything that is no scalar at all is refused."""
    if isinstance(value, str):
        return str(value)
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, int) and not isinstance(plain, bool) and plain not in _INT64:
        raise ValueError(f"{name!r} is {plain}, beyond 64 bits")
    if plain is None or isinstance(plain, (bool, int, float)):
        return plain
    raise TypeError(f"{name!r} is a {type(plain).__name__}; parameters and metrics are scalars")


def describe(parameters: Parameters) -> str:
    """`view=4, repetition=1`"""
    return ", ".join(f"{name}={value}" for name, value in parameters.items()) or "no parameters"
