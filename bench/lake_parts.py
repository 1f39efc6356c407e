"""The parts of `bench lake`: a geoplex of one region on disk, a publisher, an ingestion.

`python -m bench.lake_parts ADDRESS RATE` publishes until its standard input ends, and then says
how many events that were.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from epicast import EventBatch, sync
from epicast.deployment import Geoplex, parse_geoplex
from epicast.pipeline.lake.supervisor import read_state

STREAM = "events"
KEY_BYTES = 10
_ROWS = 20_000
_PATIENCE_S = 300.0


def one_region(folder: Path) -> Geoplex:
    return parse_geoplex(
        'name = "lake"\n[regions.us]\nproxy = "127.0.0.1:1"\n'
        f'data = "{folder}"\n[streams.{STREAM}]\nowner = "us"\nack = "disk"\n',
        "bench lake",
    )


def publish(address: str, events: int, rows: int = 100_000) -> None:
    """As fast as it is acknowledged."""
    random = np.random.default_rng(1)
    with sync.connect(address, agent=False) as node:
        stream = node.stream(STREAM)
        for _ in range(events // rows):
            data = random.bytes(rows * KEY_BYTES)
            stream.publish_many(EventBatch.even(stream.info.id, 1, data, KEY_BYTES, 0))


def publish_paced(address: str, rate: float) -> int:
    """Every event acknowledged; those of a moment when that takes longer are made up for."""
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    random = np.random.default_rng(2)
    published = 0
    with sync.connect(address, agent=False) as node:
        stream = node.stream(STREAM)
        start = time.monotonic()
        while not over.wait(max(0.0, start + published / rate - time.monotonic())):
            data = random.bytes(_ROWS * KEY_BYTES)
            stream.publish_many(EventBatch.even(stream.info.id, 1, data, KEY_BYTES, 0))
            published += _ROWS
    return published


@contextmanager
def publisher(address: str, rate: float) -> Iterator[subprocess.Popen[str]]:
    """A process; `stop_publisher` ends it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.lake_parts", address, str(rate)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def stop_publisher(process: subprocess.Popen[str]) -> int:
    """How many events it has published."""
    output, _ = process.communicate("", timeout=_PATIENCE_S)
    return int(output)


class Ingestion:
    """`epicast lake run --json` in a process; reports come with the moment they came at."""

    def __init__(self, lake: Path, address: str, *options: str) -> None:
        self.lake = lake
        self._process = subprocess.Popen(
            [sys.executable, "-m", "epicast", "lake", "run", "--lake", str(lake), "--proxy",
             address, "--json", *options],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._reports: queue.Queue[tuple[float, dict[str, Any]] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> "Ingestion":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)  # which is not ignored in the background, either
        self._process.wait(60)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._reports.put((time.monotonic(), json.loads(line)))
        self._reports.put(None)

    def reports(self, timeout_s: float = _PATIENCE_S) -> Iterator[tuple[float, dict[str, Any]]]:
        """Until it ends, or for so long."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            try:
                report = self._reports.get(timeout=left)
            except queue.Empty:
                return
            if report is None:
                return
            yield report

    def wait(self, kind: str) -> None:
        for _, report in self.reports():
            if report["type"] == kind:
                return
        raise AssertionError(f"no report {kind!r} came")

    def forget(self) -> None:
        """What was reported until now."""
        while not self._reports.empty():
            self._reports.get()

    def batches(self, timeout_s: float = _PATIENCE_S) -> Iterator[tuple[float, dict[str, Any]]]:
        for moment, report in self.reports(timeout_s):
            if report["type"] == "batch":
                yield moment, report["committed"]

    def kill_driver(self) -> None:
        state = read_state(self.lake)
        assert state is not None
        os.kill(state.driver, signal.SIGKILL)


if __name__ == "__main__":
    print(publish_paced(sys.argv[1], float(sys.argv[2])))
