"""Where tasks run. An executor yields outcomes in whatever order they come; callers sort."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple

from epicast.experiments.tasks import Outcome, Task, execute
from epicast.experiments.worker import work

_STOP_SECONDS = 5.0


class Executor(ABC):
    @abstractmethod
    def run(self, tasks: Sequence[Task]) -> Generator[Outcome, None, None]:
        """One outcome per task, as they finish. Closing the generator abandons the rest."""


class InlineExecutor(Executor):
    """In this very process, one after the other: for a debugger."""

    def run(self, tasks: Sequence[Task]) -> Generator[Outcome, None, None]:
        yield from map(execute, tasks)


class _Worker(NamedTuple):
    process: SpawnProcess
    connection: Connection[Any, Any]


class LocalExecutor(Executor):
    """Worker processes on this machine.

    Not the standard process pool: there, one worker killed (by the kernel, for its memory, say)
    takes the whole sweep down without telling which run did it, and a stop waits for the runs in
    progress. Workers are spawned, not forked, so no thread or lock of the parent is copied.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = jobs or available_cores()

    def run(self, tasks: Sequence[Task]) -> Generator[Outcome, None, None]:
        waiting = deque(tasks)
        idle: list[_Worker] = []
        busy: dict[object, tuple[_Worker, Task]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.jobs:
                    worker = idle.pop() if idle else _start_worker()
                    busy[worker.connection] = worker, waiting.popleft()
                    _assign(*busy[worker.connection])
                for ready in wait([worker.connection for worker, _ in busy.values()]):
                    worker, task = busy.pop(ready)
                    try:
                        outcome: Outcome = worker.connection.recv()
                    except (EOFError, OSError):
                        outcome = _death(worker, task)
                    else:
                        idle.append(worker)
                    yield outcome
        finally:
            _stop([*idle, *(worker for worker, _ in busy.values())], at_once=bool(busy))


def available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _start_worker() -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs,))
    process.start()
    theirs.close()  # or the end of the worker would not end the pipe
    return _Worker(process, ours)


def _assign(worker: _Worker, task: Task) -> None:
    with suppress(BrokenPipeError):  # it died while idle: noticed when its answer is read
        worker.connection.send((task.key, pickle.dumps(task)))


def _death(worker: _Worker, task: Task) -> Outcome:
    worker.connection.close()
    worker.process.join()
    status = worker.process.exitcode or 0
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    hint = " (signal 9 is usually the kernel, out of memory: fewer --jobs?)" if status == -9 else ""
    worker.process.close()
    return Outcome(task.key, [], f"the worker process ended with {how}{hint}")


def _stop(workers: Sequence[_Worker], *, at_once: bool) -> None:
    for worker in workers:
        if at_once:
            worker.process.kill()
        worker.connection.close()  # an idle worker ends by itself
    for worker in workers:
        worker.process.join(_STOP_SECONDS)
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
        worker.process.close()
