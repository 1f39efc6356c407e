"""Runs of an experiment as tasks of Spark: one run, one task.

What a run returns or raises comes back through an accumulator, which the driver gets as each task
ends, so that finished runs are kept even if the sweep is interrupted. A run that takes its worker
process down with it ends the job; it is told apart by its number, counts as failed, and the others
go on in another job.
"""

from __future__ import annotations

import pickle
import re
import traceback
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from epicast.experiments.executor import Executor
from epicast.experiments.tasks import Outcome, Task, execute
from epicast.pipeline.errors import SweepFailed
from epicast.pipeline.session import DEFAULT_MASTER, spark_session
from epicast.pipeline.shipping import shipped_package

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import SparkSession

_LOOK_EVERY_S = 0.02
_STOP_S = 10.0
_FAILED_TASK = re.compile(r"Task (\d+) in stage \S+ failed (\d+) times")


class SparkExecutor(Executor):
    def __init__(self, master: str = DEFAULT_MASTER, spark: SparkSession | None = None) -> None:
        """With a session, that is used and left running; `master` is its."""
        self.master = master
        self._spark = spark

    def run(self, tasks: Sequence[Task]) -> Generator[Outcome, None, None]:
        if not tasks:
            return
        with ExitStack() as stack:
            spark = self._spark or stack.enter_context(spark_session(self.master))
            stack.enter_context(shipped_package(spark.sparkContext, self.master))
            yield from _run_all(spark.sparkContext, tasks)


def _run_all(context: SparkContext, tasks: Sequence[Task]) -> Iterator[Outcome]:
    remaining = list(tasks)
    while remaining:
        job = _Job(context, remaining)
        done: set[str] = set()
        try:
            for outcome in job.outcomes():
                if outcome.key not in done:  # a task whose worker was lost may run twice
                    done.add(outcome.key)
                    yield outcome
        finally:
            job.cancel()
        if job.error is not None:
            outcome = job.culprit()
            if outcome.key not in done:
                done.add(outcome.key)
                yield outcome
        remaining = [task for task in remaining if task.key not in done]


class _Job:
    def __init__(self, context: SparkContext, tasks: Sequence[Task]) -> None:
        from pyspark import InheritableThread

        self.error: BaseException | None = None
        self._context = context
        self._tasks = tasks
        self._group = f"epicast-{id(self)}"
        self._found = _collector(context)
        self._thread = InheritableThread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        found = self._found

        def run_here(payloads: Iterable[tuple[str, bytes]]) -> None:
            for key, pickled in payloads:
                found.add([_execute(key, pickled)])

        payloads = [(task.key, pickle.dumps(task)) for task in self._tasks]
        self._context.setJobGroup(self._group, "epicast sweep", interruptOnCancel=True)
        try:
            self._context.parallelize(payloads, len(payloads)).foreachPartition(run_here)
        except BaseException as error:  # told to who reads the outcomes
            self.error = error

    def outcomes(self) -> Iterator[Outcome]:
        """As they come, until the job is over."""
        seen = 0
        while True:
            over = not self._thread.is_alive()
            found = self._found.value
            while seen < len(found):
                seen += 1
                yield found[seen - 1]
            if over:
                return
            self._thread.join(_LOOK_EVERY_S)

    def culprit(self) -> Outcome:
        """What the job failed of, as the outcome of that run."""
        text = str(self.error)
        found = _FAILED_TASK.search(text)
        if found is None:
            raise SweepFailed(f"the sweep failed: {text.partition(chr(10))[0]}") from self.error
        task = self._tasks[int(found[1])]
        reason = text[found.end() :].strip(" :,").partition("\n")[0]
        times = f"{found[2]} times" if found[2] != "1" else "once"
        return Outcome(task.key, [], f"the worker process ended, {times}: {reason}")

    def cancel(self) -> None:
        if self._thread.is_alive():
            self._context.cancelJobGroup(self._group)
            self._thread.join(_STOP_S)


def _execute(key: str, pickled: bytes) -> Outcome:
    """On a worker, where the experiment may be missing or another one."""
    try:
        task = pickle.loads(pickled)
    except Exception:
        return Outcome(key, [], traceback.format_exc())
    return execute(task)


def _collector(context: SparkContext) -> Accumulator[list[Outcome]]:
    from pyspark.accumulators import AccumulatorParam

    class Collecting(AccumulatorParam[Any]):
        def zero(self, value: list[Outcome]) -> list[Outcome]:
            return []

        def addInPlace(self, value1: list[Outcome], value2: list[Outcome]) -> list[Outcome]:
            value1.extend(value2)
            return value1

    return context.accumulator([], Collecting())
