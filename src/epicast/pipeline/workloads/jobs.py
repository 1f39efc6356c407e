"""A function over a list, an item per task, with what comes back as soon as a task ends.

The function runs in workers and must be importable there. What it raises on purpose is raised here
again; whatever else goes wrong becomes `SparkFailed`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from epicast import EpicastError
from epicast.pipeline.errors import SparkFailed

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

_LOOK_EVERY_S = 0.05
_STOP_S = 10.0


def run_tasks(
    spark: SparkSession, function: Callable[[T], R], items: Sequence[T]
) -> Iterator[tuple[int, R]]:
    """The number of the item and what it gave, in the order in which tasks end. Closing it early,
    as Ctrl-C does, cancels what still runs."""
    if not items:
        return
    job = _Job(spark.sparkContext, function, items)
    try:
        yield from job.results()
    finally:
        job.cancel()


class _Job:
    def __init__(
        self, context: SparkContext, function: Callable[[Any], Any], items: Sequence[Any]
    ) -> None:
        from pyspark import InheritableThread

        self._context = context
        self._function = function
        self._items = items
        self._error: BaseException | None = None
        self._group = f"epicast-{id(self)}"
        self._found = _collector(context)
        self._thread = InheritableThread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        found, function = self._found, self._function

        def run_here(payloads: Iterable[bytes]) -> None:
            for payload in payloads:
                number, item = pickle.loads(payload)
                try:
                    found.add([(number, function(item), None)])
                except EpicastError as error:
                    found.add([(number, None, error)])

        payloads = [pickle.dumps(numbered) for numbered in enumerate(self._items)]
        self._context.setJobGroup(self._group, "epicast workload", interruptOnCancel=True)
        try:
            self._context.parallelize(payloads, len(payloads)).foreachPartition(run_here)
        except BaseException as error:  # raised where the results are read
            self._error = error

    def results(self) -> Iterator[tuple[int, Any]]:
        seen: set[int] = set()
        read = 0
        while True:
            over = not self._thread.is_alive()
            found = self._found.value
            while read < len(found):
                number, result, error = found[read]
                read += 1
                if error is not None:
                    raise error
                if number not in seen:  # a task whose worker was lost may run twice
                    seen.add(number)
                    yield number, result
            if over:
                break
            self._thread.join(_LOOK_EVERY_S)
        if self._error is not None:
            raise SparkFailed(f"the job failed: {reason_of(self._error)}") from self._error

    def cancel(self) -> None:
        if self._thread.is_alive():
            self._context.cancelJobGroup(self._group)
            self._thread.join(_STOP_S)


def reason_of(error: BaseException) -> str:
    """The line of a stack trace through two languages that says what went wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if line.startswith("Traceback")]
    if python:
        after = lines[lines.index(python[-1]) + 1 :]
        told = [line for line in after if not line.startswith(("File ", "at ", "^", "~"))]
        named = [line for line in told if ": " in line and line.split(":")[0].isidentifier()]
        if named:
            return named[0]
    return lines[0] if lines else type(error).__name__


def _collector(context: SparkContext) -> Accumulator[list[Any]]:
    from pyspark.accumulators import AccumulatorParam

    class Collecting(AccumulatorParam[Any]):
        def zero(self, value: list[Any]) -> list[Any]:
            return []

        def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:
            value1.extend(value2)
            return value1

    return context.accumulator([], Collecting())
