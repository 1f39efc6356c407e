"""After warming up nothing is compiled any more, whatever a history is used for."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import importlib, pkgutil, sys
from pathlib import Path
from tempfile import TemporaryDirectory

from epicast.core import EventBatch, EventKind
from epicast.log import DiskDirectory, GcPolicy, History, LogConfig, gc_payload, parse, warm_up
from epicast.log.recent import FilteredBuffer

warm_up()

import epicast.log.kernels as package

def compiled():
    modules = [importlib.import_module(f"{package.__name__}.{info.name}")
               for info in pkgutil.iter_modules(package.__path__)]
    return {(module.__name__, name): len(value.signatures)
            for module in modules for name, value in vars(module).items()
            if hasattr(value, "signatures")}

before = compiled()
assert before["epicast.log.kernels.latest", "take_latest"] == 1
config = LogConfig(segment_bytes=4096, window_bytes=4096)
with TemporaryDirectory() as folder:
    for number, policy in enumerate([GcPolicy(latest_per_key=True, max_age_ns=1), GcPolicy()]):
        for again in range(2):
            directory = DiskDirectory(Path(folder) / str(number))
            history = History(directory, 7, policy=policy, config=config)
            for _ in range(100):
                first = history.end + 1
                keys = [b"%d" % (n + first) * (n % 9) for n in range(50)]
                history.append(EventBatch.build(7, first, [b"p"] * 50, keys=keys))
                sparse = [first + 52, first + 54]
                history.append(EventBatch.build(7, first + 50, [b"p"] * 2, seqs=sparse))
                for text in ('key in ("1", "2")', 'key prefix "3"', "size < 1 and seq < 9"):
                    payload = gc_payload(parse(text))
                    history.append(EventBatch.build(7, history.end + 1, [payload],
                                                    kinds=[EventKind.GC]))
            history.sync()
            while history.compact():
                pass
            history.read(1, 1 << 20)
            history.read(5, 100)
            history.expiry(1 << 60)
            history.statistics()
            history.close()
buffer = FilteredBuffer(7, 1 << 20, GcPolicy(latest_per_key=True))
buffer.add(EventBatch.build(7, 5, [b"p"], keys=[b"k"]))
buffer.read(1, 9, 1000)
more = {name: count for name, count in compiled().items() if count != before[name]}
print("compiled later:", more)
sys.exit(bool(more))
"""


def test_nothing_is_compiled_after_warming_up() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
