"""Where tasks run. An executor yields outcomes in whatever order they come; callers sort.

Many at once run on Spark: `epicast.pipeline.sweeping`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence

from epicast.experiments.tasks import Outcome, Task, execute


class Executor(ABC):
    @abstractmethod
    def run(self, tasks: Sequence[Task]) -> Generator[Outcome, None, None]:
        """One outcome per task, as they finish. Closing the generator abandons the rest."""


class InlineExecutor(Executor):
    """In this very process, one after the other: for a debugger."""

    def run(self, tasks: Sequence[Task]) -> Generator[Outcome, None, None]:
        yield from map(execute, tasks)
