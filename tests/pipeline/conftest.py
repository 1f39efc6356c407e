"""One session for all tests of a process: starting one takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epicast.pipeline.session import start_session
from tests.unit.experiments.synthetic import GATE

# Java processes of tests live for seconds: compiling for the long run is what takes them longest.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

ROOT = Path(__file__).parents[2]
MASTER = "local[2]"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    # Workers import what is tested here, and experiments of the tests.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    os.environ[GATE] = str(tmp_path_factory.mktemp("gate"))  # and have the environment of now
    session = start_session(
        MASTER,
        memory="1g",
        config={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        },
    )
    yield session
    session.stop()
