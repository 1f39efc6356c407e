"""A standalone Spark cluster of real processes, made of what the pip package has."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.request import urlopen

import pyspark

from epicast.pipeline.folders import cache_folder
from epicast.pipeline.java import find_java
from tests.pipeline.conftest import ROOT

_PATIENCE_S = 90.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Standalone:
    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self._count = workers
        self._web = free_port()
        self.port = free_port()
        self.master: subprocess.Popen[bytes]
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def __enter__(self) -> Standalone:
        try:
            self.master = self._start(
                "org.apache.spark.deploy.master.Master",
                "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self._web),
            )  # fmt: skip
            self._wait(lambda state: state["status"] == "ALIVE")
            for number in range(self._count):
                work = self._folder / f"work-{number}"
                self.workers.append(
                    self._start(
                        "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1",
                        "--cores", "1", "--memory", "1g", "--work-dir", str(work), self.url,
                    )
                )  # fmt: skip
            self._wait(lambda state: state["aliveworkers"] == self._count)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java(cache_folder()).home),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        environment.pop("SPARK_SUBMIT_OPTS", None)
        with (self._folder / "daemons.log").open("ab") as log:
            return subprocess.Popen([launcher, *command], env=environment, stdout=log, stderr=log)

    def _wait(self, condition: Any) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            try:
                with urlopen(f"http://127.0.0.1:{self._web}/json/", timeout=5) as answer:
                    if condition(json.load(answer)):
                        return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError((self._folder / "daemons.log").read_text("utf-8")[-3000:])

    def _end(self) -> None:
        processes = [*self.workers, *([self.master] if hasattr(self, "master") else [])]
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
