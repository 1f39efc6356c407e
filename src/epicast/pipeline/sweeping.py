"""Runs of an experiment as tasks of Spark: one run, one task.

Finished runs are kept even if the sweep is interrupted. A run that takes its worker process down
with it ends the job; it is told apart by its number, counts as failed, and the others go on in
another job.
"""

from __future__ import annotations

import pickle
import re
import traceback
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from epicast.experiments.executor import Executor
from epicast.experiments.tasks import Outcome, Task, execute
from epicast.pipeline.errors import SweepFailed
from epicast.pipeline.jobs import Job
from epicast.pipeline.session import DEFAULT_MASTER, spark_session
from epicast.pipeline.shipping import shipped_package

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

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
        job = Job(
            context, "sweep", _execute, [(task.key, pickle.dumps(task)) for task in remaining]
        )
        done: set[str] = set()
        try:
            for _, outcome in job.results():
                done.add(outcome.key)
                yield outcome
        finally:
            job.cancel()
        if job.error is not None:
            outcome = _culprit(job.error, remaining)
            if outcome.key not in done:
                done.add(outcome.key)
                yield outcome
        remaining = [task for task in remaining if task.key not in done]


def _culprit(error: BaseException, tasks: Sequence[Task]) -> Outcome:
    """What a job failed of, as the outcome of that run."""
    text = str(error)
    found = _FAILED_TASK.search(text)
    if found is None:
        raise SweepFailed(f"the sweep failed: {text.partition(chr(10))[0]}") from error
    task = tasks[int(found[1])]
    reason = text[found.end() :].strip(" :,").partition("\n")[0]
    times = f"{found[2]} times" if found[2] != "1" else "once"
    return Outcome(task.key, [], f"the worker process ended, {times}: {reason}")


def _execute(named: tuple[str, bytes]) -> Outcome:
    """On a worker, where the experiment may be missing or another one."""
    key, pickled = named
    try:
        task = pickle.loads(pickled)
    except Exception:
        return Outcome(key, [], traceback.format_exc())
    return execute(task)
