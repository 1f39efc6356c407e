"""Claim S7 as a job: how many updates hit keys of which age.

The age of a key is the time since it was inserted; keys that were there from the beginning have
none. Inserted keys are numbered in order, so their times of birth are one dense column. A first
pass writes it to a file, which the tasks of the second map into their memory.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from epicast.pipeline.jobs import run_tasks
from epicast.pipeline.workloads.chunks import Op
from epicast.pipeline.workloads.files import chunk_path, read_columns
from epicast.pipeline.workloads.generating import cores_of
from epicast.pipeline.workloads.last_events import Stretch, stretches
from epicast.pipeline.workloads.manifest import Workload
from epicast.pipeline.workloads.spec import NS_PER_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BINS_PER_DECADE = 10
_TASKS_PER_CORE = 8
_COMPARABLE = 10
"""A key can only be x old after x: ages beyond a tenth of the run are not fitted."""


class AgeBin(Struct, frozen=True):
    low: float
    """In seconds."""
    high: float
    updates: int

    @property
    def age(self) -> float:
        return float(np.sqrt(self.low * self.high))

    @property
    def per_second(self) -> float:
        return self.updates / (self.high - self.low)


class Fit(Struct, frozen=True):
    slope: float
    """On log-log."""
    explained: float
    """The share of the variance that the straight line explains."""


class _Task(NamedTuple):
    stretch: Stretch
    births: str
    edges: NDArray[np.float64]


def ages_of_updates(spark: SparkSession, workload: Workload, directory: Path) -> list[AgeBin]:
    """Nothing if no keys were inserted, or the workload lasts hardly a second."""
    edges = age_edges(workload.seconds)
    inserted = -min(0, *(facts.lowest_key for facts in workload.chunks))
    if not inserted or workload.spec is None or len(edges) < 2:
        return []
    parts = stretches(workload, directory, cores_of(spark) * _TASKS_PER_CORE)
    with TemporaryDirectory(prefix=".ages-", dir=directory) as folder:
        births = os.path.join(os.path.abspath(folder), "births.npy")
        np.lib.format.open_memmap(births, mode="w+", dtype=np.int64, shape=(inserted,)).flush()
        tasks = [_Task(part, births, edges) for part in parts]
        for _ in run_tasks(spark, note_births, tasks):
            pass
        counts = sum(
            (counted for _, counted in run_tasks(spark, count_ages, tasks)),
            np.zeros(len(edges) - 1, dtype=np.int64),
        )
    return [
        AgeBin(low, high, count)
        for low, high, count in zip(
            edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True
        )
    ]


def age_edges(seconds: float) -> NDArray[np.float64]:
    """The same for all workloads, as far as they go, so that they can be compared."""
    bins = int(_BINS_PER_DECADE * np.log10(seconds)) if seconds > 1 else 0
    edges: NDArray[np.float64] = 10 ** (np.arange(bins + 1) / _BINS_PER_DECADE)
    return edges


def note_births(task: _Task) -> None:
    births = np.load(task.births, mmap_mode="r+")
    for path in _paths(task.stretch):
        key, op, time = read_columns(path, "key", "op", "time")
        born = (key < 0) & (op == Op.INSERT)
        births[-key[born] - 1] = time[born]
    births.flush()


def count_ages(task: _Task) -> NDArray[np.int64]:
    births = np.load(task.births, mmap_mode="r")
    counts = np.zeros(len(task.edges) - 1, dtype=np.int64)
    for path in _paths(task.stretch):
        key, op, time = read_columns(path, "key", "op", "time")
        aged = (key < 0) & (op == Op.UPDATE)
        ages = (time[aged] - births[-key[aged] - 1]) / NS_PER_S
        counts += np.histogram(ages, task.edges)[0]
    return counts


def _paths(stretch: Stretch) -> list[Path]:
    folder = Path(stretch.directory)
    return [chunk_path(folder, stretch.first_chunk + at) for at in range(len(stretch.chunks))]


def comparable(bins: list[AgeBin]) -> list[AgeBin]:
    longest = bins[-1].high if bins else 0.0
    return [one for one in bins if _COMPARABLE * one.high <= longest]


def fit_of(bins: list[AgeBin]) -> Fit | None:
    """None where there is too little to fit."""
    used = [one for one in comparable(bins) if one.updates]
    if len(used) < 3:
        return None
    ages = np.log([one.age for one in used])
    rates = np.log([one.per_second for one in used])
    slope, offset = np.polyfit(ages, rates, 1)
    left = np.var(rates - slope * ages - offset)
    return Fit(float(slope), float(1 - left / np.var(rates)))
