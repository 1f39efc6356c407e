"""The process that holds Spark's driver: `python -m epicast.pipeline.lake.driver OPTIONS`.

It is a process of its own so that it can be replaced, whatever becomes of it or of its JVM. Its
standard input says how long it is wanted: when that ends, so does the query. To standard output
go reports, one JSON object per line; whatever else is printed goes to standard error.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from epicast import EpicastError
from epicast.pipeline.errors import SparkMissing, reason_of
from epicast.pipeline.lake.driver_reports import Batch, Failure, Report, Running
from epicast.pipeline.lake.errors import LakeBusy, LakeOptionError, NoLake, WrongLake
from epicast.pipeline.lake.ingestion import Committer, start_query
from epicast.pipeline.lake.ingestion_options import IngestionOptions
from epicast.pipeline.lake.layout import Lake
from epicast.pipeline.session import spark_session
from epicast.pipeline.shipping import shipped_package

_LOOK_S = 0.2
_FINAL = (NoLake, WrongLake, LakeOptionError, SparkMissing)
"""Trying again would not help."""
_FINAL_NAMES = {error.__name__ for error in _FINAL} | {"UnknownStream", "ConfigError"}
_RAISED = re.compile(r"^\s*epicast\.[\w.]*?(\w+): (.+)$", re.MULTILINE)


def main(options: IngestionOptions) -> int:
    reports = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def report(value: Report) -> None:
        reports.write(msgspec.json.encode(value) + b"\n")

    wanted = _Wanted()
    try:
        lake = Lake.open(options.lake)
        with _alone(lake):
            _run(lake, options, wanted, report)
    except BaseException as error:
        if wanted.over:
            return 0
        report(explained(error))
        return 1
    return 0


def _run(
    lake: Lake, options: IngestionOptions, wanted: _Wanted, report: Callable[[Report], object]
) -> None:
    with (
        spark_session(options.master, memory=options.memory) as spark,
        shipped_package(spark.sparkContext, options.master),
    ):
        committer = Committer(lake, options, lambda committed: report(Batch(committed)))
        query = start_query(spark, lake, options, committer)
        report(Running())
        try:
            while not query.awaitTermination(_LOOK_S):  # type: ignore[arg-type]
                if wanted.over:
                    query.stop()
                    return
                if committer.error is not None:
                    raise committer.error
        except Exception as error:
            raise committer.error or error from None


class _Wanted:
    """Whether somebody still holds our standard input."""

    def __init__(self) -> None:
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def _watch(self) -> None:
        while os.read(0, 4096):
            pass
        self._over.set()


@contextmanager
def _alone(lake: Lake) -> Iterator[None]:
    """One ingestion per lake. The lock goes with the process, however that ends."""
    with (lake.folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LakeBusy(f"another ingestion is at work in {lake.folder}") from error
        yield


def explained(error: BaseException) -> Failure:
    """In one sentence: what was raised in a worker comes wrapped in what Java makes of it."""
    if isinstance(error, EpicastError):
        return Failure(str(error), isinstance(error, _FINAL))
    raised = _RAISED.findall(str(error))
    if raised:
        name, sentence = raised[-1]
        return Failure(sentence.strip(), name in _FINAL_NAMES)
    return Failure(reason_of(error), False)


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=IngestionOptions)))
