"""A job that says how far it is, can be interrupted, and fails with one sentence."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from epicast.pipeline.errors import SparkFailed

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOOK_EVERY_S = 0.2
_STOP_S = 10.0
_Found = TypeVar("_Found")

Watcher = Callable[[str, int, int], None]
"""Told the name of the step, and how many of its tasks are done out of how many."""


def watched(
    context: SparkContext, step: str, action: Callable[[], _Found], watcher: Watcher | None
) -> _Found:
    """Run the action, which starts a job and waits for it."""
    from pyspark import InheritableThread

    group = f"epicast-audit-{step}-{time.monotonic_ns()}"
    found: list[_Found] = []
    errors: list[Exception] = []

    def work() -> None:
        context.setJobGroup(group, f"epicast audit: {step}", interruptOnCancel=True)
        try:
            found.append(action())
        except Exception as error:
            errors.append(error)

    thread = InheritableThread(target=work, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_LOOK_EVERY_S)
            if watcher is not None:
                watcher(step, *_tasks(context, group))
    except BaseException:
        context.cancelJobGroup(group)
        thread.join(_STOP_S)
        raise
    if errors:
        raise SparkFailed(_sentence(step, errors[0])) from errors[0]
    return found[0]


def _tasks(context: SparkContext, group: str) -> tuple[int, int]:
    """How many are done, of those known so far."""
    tracker = context.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            details = tracker.getStageInfo(stage)
            if details:
                done += details.numCompletedTasks
                total += details.numTasks
    return done, total


def _sentence(step: str, error: Exception) -> str:
    text = str(error)
    if "No space left on device" in text:
        return (
            f"the disk is full: the {step} step of the audit had to put aside more than there is "
            "room for; make room, or let SPARK_LOCAL_DIRS name a folder on a larger disk"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if "Error" in line or "Exception" in line]
    reason = (causes or lines or [type(error).__name__])[-1][:300]
    return (
        f"the {step} step of the audit failed: {reason}; for all Spark has to say, set "
        "EPICAST_SPARK_LOGS=1"
    )
