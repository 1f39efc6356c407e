"""The same faults for Epicast, NATS JetStream and Redis Streams, judged by the same checker.

`python -m bench nemesis` prints the table; `docs/nemesis.md` says what is comparable and what not.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.nemesis import jetstream, redis_ha
from bench.nemesis.cluster import REGION, Cluster
from bench.nemesis.jetstream import JetStream
from bench.nemesis.redis_ha import RedisWithSentinels
from epicast.experiments.nemesis.lanes import Lanes
from epicast.experiments.nemesis.running import Run, Settings
from epicast.experiments.nemesis.schedule import Cast, Fault, Kind, draw_schedule
from epicast.experiments.nemesis.verdict import judge
from epicast.experiments.parts import Team

EPICAST = "Epicast"
PROCESSES = frozenset({Kind.KILL, Kind.RESTART, Kind.PAUSE, Kind.BLACKOUT})
DISKS = PROCESSES | {Kind.WIPE}
RATE = 2_000
ROWS = 20
_READY_S = 60.0
_END_S = 150.0
_WHOLE_S = 60.0


@dataclass(frozen=True)
class Row:
    system: str
    acked: int
    lost: int
    """Acknowledged, and nobody has got it."""
    never_delivered: int
    """Acknowledged, and some subscriber has not got it."""
    duplicated: int
    """Events that are in the stream twice, and those that came twice."""
    ack_stalled_s: float
    stalled_s: float
    faults: int
    troubles: int


def schedule(seed: int, seconds: float, kinds: frozenset[Kind]) -> list[Fault]:
    """One chain of three, of which one is in trouble at a time: more than that others do not
    promise to survive. Or all, with their disks."""
    return draw_schedule(seed, seconds, Cast((REGION,), 3), kinds=kinds, two_at_once=False)


def rows(seconds: float, seed: int, kinds: frozenset[Kind]) -> Iterator[Row]:
    """Of Epicast, and of those that are installed."""
    faults = schedule(seed, seconds, kinds)
    for row in _all_rows(seconds, seed, faults):
        _say(f"{row}")
        yield row


def _all_rows(seconds: float, seed: int, faults: list[Fault]) -> Iterator[Row]:
    yield epicast(seconds, seed, faults)
    if jetstream.missing() is None:
        yield nats(seconds, faults)
    if redis_ha.missing() is None:
        yield redis(seconds, faults)


def epicast(seconds: float, seed: int, faults: list[Fault]) -> Row:
    settings = Settings(seconds=seconds, seed=seed, regions=1, rate=RATE, rows=ROWS, sidecars=False)
    with tempfile.TemporaryDirectory(prefix="epicast-nemesis-") as folder:
        run = Run(settings, Path(folder), schedule=faults, say=_say)
        verdict = run.run(quiet=True)
    counts = verdict.counts
    return Row(
        EPICAST, verdict.acked, counts["lost"], counts["never_delivered"],
        counts["numbered_twice"] + counts["duplicated"], max(verdict.ack_stalled_s.values()),
        max(verdict.stalled_s.values()), sum(verdict.faults.values()), len(verdict.troubles),
    )  # fmt: skip


def nats(seconds: float, faults: list[Fault]) -> Row:
    with tempfile.TemporaryDirectory(prefix="nemesis-nats-") as folder:
        system = JetStream(Path(folder))
        with Cluster(system) as cluster:
            system.prepare()
            return _mistreat(jetstream, system, cluster, Path(folder), seconds, faults, ())


def redis(seconds: float, faults: list[Fault]) -> Row:
    with tempfile.TemporaryDirectory(prefix="nemesis-redis-") as folder, ExitStack() as stack:
        system = RedisWithSentinels(Path(folder))
        cluster = stack.enter_context(Cluster(system))
        stack.callback(system.close)
        system.prepare()
        began_ms = time.time_ns() // 1_000_000
        return _mistreat(redis_ha, system, cluster, Path(folder), seconds, faults, (began_ms,))


def _mistreat(
    module: Any, system: Any, cluster: Cluster, folder: Path, seconds: float, faults: list[Fault],
    more: tuple[int, ...],
) -> Row:  # fmt: skip
    logs = folder / "logs"
    with Team() as team:
        writer = team.start(module.publish, system.address, RATE, ROWS, logs, *more)
        reader = team.start(module.subscribe, system.address, logs, "subscriber", *more)
        for part in (writer, reader):
            part.hear(_READY_S)
        began = time.monotonic()
        lanes = Lanes(cluster, faults, [REGION], began, _say)
        lanes.start()
        time.sleep(seconds)
        lanes.finish()
        troubles = len(lanes.troubles)
        try:
            cluster.wait_whole(REGION, _WHOLE_S)
        except OSError as error:
            _say(f"TROUBLE: {error}")
            troubles += 1
        writer.tell("over")
        last = writer.hear(_END_S)
        reader.tell(last)
        reader.hear(_END_S)
        late = team.start(module.subscribe, system.address, logs, "late", *more)
        late.hear(_READY_S)
        late.tell(last)
        late.hear(_END_S)
    report = judge(logs, folder / "checker.json", folder, quiet=True)
    [stream] = report["streams"]
    readers = report["subscribers"]
    return Row(
        module.NAME, stream["acked"], stream["lost"],
        max(each["never_delivered"] for each in readers),
        stream["numbered_twice"] + sum(each["duplicated"] for each in readers),
        stream["ack_stalled_s"],
        next(each["stalled_s"] for each in readers if each["subscriber"] == "subscriber"),
        len(lanes.done), troubles,
    )  # fmt: skip


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
