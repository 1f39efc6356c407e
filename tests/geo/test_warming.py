"""A proxy that is warm compiles nothing more."""

import subprocess
import sys

SCRIPT = """
import pkgutil, sys
from epicast.geo.warming import warm_up
import epicast.log.kernels as kernels

def compiled():
    return {
        f"{module.name}.{name}": len(value.signatures)
        for module in pkgutil.iter_modules(kernels.__path__)
        if (loaded := sys.modules.get(f"epicast.log.kernels.{module.name}")) is not None
        for name, value in vars(loaded).items()
        if hasattr(value, "signatures")
    }

warm_up()
before = compiled()
assert sum(before.values()) > 10, before

from pathlib import Path
from tempfile import TemporaryDirectory
from epicast.core import EventBatch, EventKind, Run
from epicast.log import DiskDirectory, GcPolicy, History, LogConfig, gc_payload, parse

POLICIES = (
    GcPolicy(), GcPolicy(latest_per_key=True), GcPolicy(latest_per_key=True, last_n=500),
    GcPolicy(last_n=100), GcPolicy(max_age_ns=1),
)
PREDICATES = ("key == 'k1'", "seq < 30", "key in ('k1', 'k2') or seq < 3")

def use(folder, policy):
    history = History(
        DiskDirectory(folder), 1, policy=policy, config=LogConfig(segment_bytes=8192)
    )
    for at in range(200):
        collect = gc_payload(parse(PREDICATES[at % len(PREDICATES)]))
        keys = [b"k%d" % at, b"k%d" % (at % 7), b"long " * (at % 9), b""]
        history.append_many([EventBatch.build(
            1, history.end + 1, [b"value" * (at % 5)] * 3 + [collect], keys=keys, time=5,
            kinds=[EventKind.DATA] * 3 + [EventKind.GC], runs=[Run(5, 4 * at + 1, 4)],
        )])
    history.sync()
    history.read(7, 1 << 20)
    history.expiry(100)
    history.maintain(10)
    history.compact(1 << 20)
    history.publishers()
    history.statistics()
    history.close()

with TemporaryDirectory() as folder:
    for number, policy in enumerate(POLICIES):
        for _ in range(2):  # the second time with a recovery
            use(Path(folder) / str(number), policy)
after = compiled()
print(*sorted(name for name in after if after[name] != before.get(name, 0)))
"""


def test_nothing_is_left_to_compile() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
