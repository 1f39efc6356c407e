"""What goes wrong while tables are read or written, in a sentence instead of a stack trace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from epicast.pipeline.errors import SparkFailed, reason_of
from epicast.pipeline.lake.errors import LakeError


class DamagedTable(LakeError):
    """A file of a table, or its log, is not what it should be."""


@contextmanager
def in_a_sentence(folder: Path) -> Iterator[None]:
    """For commands; `EPICAST_SPARK_LOGS=1` shows everything."""
    from deltalake.exceptions import DeltaError
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    if os.environ.get("EPICAST_SPARK_LOGS"):
        yield
        return
    try:
        yield
    except DeltaError as error:
        raise DamagedTable(f"a table of {folder} cannot be read or written: {error}") from error
    except (PySparkException, Py4JError) as error:
        raise SparkFailed(
            f"Spark failed on {folder}: {reason_of(error)}; for all it has to say, set "
            "EPICAST_SPARK_LOGS=1"
        ) from error
