"""A function over a list, an item per task, with what it gives as soon as a task ends.

Results come back through an accumulator, which the driver gets as each task ends: what is finished
is known even if the job as a whole is interrupted, or fails. The function runs in workers and must
be importable there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from epicast import EpicastError
from epicast.pipeline.errors import SparkFailed, reason_of

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

_LOOK_EVERY_S = 0.02
_STOP_S = 10.0


class Job(Generic[R]):
    """Runs in the background from the moment it is made."""

    def __init__(
        self, context: SparkContext, title: str, function: Callable[[T], R], items: Sequence[T]
    ) -> None:
        from pyspark import InheritableThread

        self.error: BaseException | None = None
        """What it failed of, once `results` have ended."""
        self._context = context
        self._title = title
        self._group = f"epicast-{id(self)}"
        self._found = _collector(context)
        self._thread = InheritableThread(target=lambda: self._work(function, items), daemon=True)
        self._thread.start()

    def _work(self, function: Callable[[T], R], items: Sequence[T]) -> None:
        found = self._found

        def run_here(payloads: Iterable[bytes]) -> None:
            for payload in payloads:
                number, item = pickle.loads(payload)
                found.add([(number, function(item))])

        payloads = [pickle.dumps(numbered) for numbered in enumerate(items)]
        self._context.setJobGroup(self._group, f"epicast {self._title}", interruptOnCancel=True)
        try:
            self._context.parallelize(payloads, len(payloads)).foreachPartition(run_here)
        except BaseException as error:  # told to who reads the results
            self.error = error

    def results(self) -> Iterator[tuple[int, R]]:
        """The number of the item and what it gave, in the order in which tasks end."""
        given: set[int] = set()
        read = 0
        while True:
            over = not self._thread.is_alive()
            found = self._found.value
            while read < len(found):
                number, result = found[read]
                read += 1
                if number not in given:  # a task whose worker was lost may run twice
                    given.add(number)
                    yield number, result
            if over:
                return
            self._thread.join(_LOOK_EVERY_S)

    def cancel(self) -> None:
        """What still runs, if anything does."""
        if self._thread.is_alive():
            self._context.cancelJobGroup(self._group)
            self._thread.join(_STOP_S)


def run_tasks(
    spark: SparkSession, function: Callable[[T], R], items: Sequence[T]
) -> Iterator[tuple[int, R]]:
    """The same as a generator. What the function raises on purpose is raised here again, whatever
    else goes wrong becomes `SparkFailed`. Closing it early, as Ctrl-C does, cancels the rest."""
    if not items:
        return

    def guarded(item: T) -> R | EpicastError:
        try:
            return function(item)
        except EpicastError as error:
            return error

    job = Job(spark.sparkContext, "tasks", guarded, items)
    try:
        for number, result in job.results():
            if isinstance(result, EpicastError):
                raise result
            yield number, result
    finally:
        job.cancel()
    if job.error is not None:
        raise SparkFailed(f"the job failed: {reason_of(job.error)}") from job.error


def _collector(context: SparkContext) -> Accumulator[list[Any]]:
    from pyspark.accumulators import AccumulatorParam

    class Collecting(AccumulatorParam[Any]):
        def zero(self, value: list[Any]) -> list[Any]:
            return []

        def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:
            value1.extend(value2)
            return value1

    return context.accumulator([], Collecting())
