"""Many seeds, in as many processes as wanted, of whatever kind they are."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import suppress
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from epicast.sim.campaign.drawing import draw_plan
from epicast.sim.campaign.plan import Plan
from epicast.sim.campaign.run import CampaignRun
from epicast.sim.swarm import run_seed as run_membership

Pipe: TypeAlias = "Connection[Any, Any]"
Kind = Literal["streams", "chains", "membership"]
_KINDS: tuple[Kind, ...] = (
    "streams", "chains", "streams", "chains", "streams", "chains", "streams", "chains", "streams",
    "membership",
)  # fmt: skip
"""By the last digit of the seed. The first two are about streams; where there are chains, some
regions have several replicas."""
SEED_LIMIT_S = 120.0
"""Of wall time. A seed takes a second, and some more where code is compiled first."""
_LOOK_EVERY_S = 1.0


class SeedResult(Struct, frozen=True):
    seed: int
    kind: Kind
    failure: str = ""
    """What does not hold, and in its last line how to see it again."""
    simulated_s: float = 0.0
    converged_s: float = 0.0
    messages: int = 0
    delivered: int = 0
    core_s: float = 0.0


def kind_of(seed: int) -> Kind:
    return _KINDS[seed % len(_KINDS)]


def plan_of(seed: int, kind: Kind) -> Plan:
    return draw_plan(seed, chains=kind == "chains")


def run_seed(seed: int, kind: Kind | None = None, without: Collection[int] = ()) -> SeedResult:
    """`without`: numbers of faults to leave out."""
    kind = kind or kind_of(seed)
    began = time.process_time()
    if kind == "membership":
        found = run_membership(seed)
        return SeedResult(
            seed, kind, found.failure, found.simulated_s, 0.0, found.messages, 0,
            time.process_time() - began,
        )  # fmt: skip
    verdict = CampaignRun(plan_of(seed, kind).without(set(without))).run()
    failure = verdict.failure
    if failure:
        failure += f"\nrepeat with: {replay_line(seed, kind, without)}"
    return SeedResult(
        seed, kind, failure, verdict.simulated_s, verdict.converged_s, verdict.messages,
        verdict.delivered, time.process_time() - began,
    )  # fmt: skip


def replay_line(seed: int, kind: Kind, without: Collection[int] = ()) -> str:
    left_out = f" --without {','.join(map(str, sorted(without)))}" if without else ""
    return f"epicast swarm --kind {kind} --seed {seed}{left_out}"


def shrink(seed: int, kind: Kind) -> set[int]:
    """Faults that a failing seed does not need in order to fail: each is left out in turn."""
    without: set[int] = set()
    for number in range(1, len(plan_of(seed, kind).faults) + 1):
        if run_seed(seed, kind, without | {number}).failure:
            without.add(number)
    return without


def run_seeds(
    seeds: Iterable[int],
    jobs: int,
    run: Callable[[int], SeedResult] = run_seed,
    goes_on: Callable[[], bool] = lambda: True,
    limit_s: float = SEED_LIMIT_S,
) -> Generator[SeedResult, None, None]:
    """Results as they come, from `jobs` processes. Once `goes_on` says no, nothing more is begun,
    and what has begun is waited for. Who closes the iterator gives that up as well."""
    waiting = iter(seeds)
    busy: list[Worker] = []
    try:
        for seed in islice(waiting, jobs):
            busy.append(Worker(run, limit_s))
            busy[-1].begin(seed)
        while busy:
            wait([worker.pipe for worker in busy], timeout=_LOOK_EVERY_S)
            for worker in tuple(busy):
                result = worker.result()
                if result is None:
                    continue
                yield result
                following = next(waiting, None) if goes_on() else None
                if following is None:
                    busy.remove(worker)
                    worker.end()
                else:
                    worker.begin(following)
    finally:
        for worker in busy:
            worker.end()


class Worker:
    """A process that runs one seed after the other, and another one if that has to be ended."""

    def __init__(self, run: Callable[[int], SeedResult], limit_s: float) -> None:
        self._run = run
        self._limit_s = limit_s
        self._process, self.pipe = _start(run)
        self._seed = -1
        self._began = 0.0

    def begin(self, seed: int) -> None:
        if not self._process.is_alive():
            self._process, self.pipe = _start(self._run)
        self._seed, self._began = seed, time.monotonic()
        with suppress(OSError):  # if it has just died, the pipe says so to whoever reads
            self.pipe.send(seed)

    def result(self) -> SeedResult | None:
        """What became of the seed; None while it runs."""
        if self.pipe.poll():
            return self._received()
        if time.monotonic() - self._began < self._limit_s:
            return None
        self.end()
        return _failed(self._seed, f"not at its end after {self._limit_s:g} s of real time")

    def _received(self) -> SeedResult:
        try:
            result: SeedResult = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join(_LOOK_EVERY_S)  # its pipe ends before it does
            self.end()
            return _failed(self._seed, f"its process ended ({self._process.exitcode})")
        return result

    def end(self) -> None:
        """At once: a seed that it runs can be run again."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _start(run: Callable[[int], SeedResult]) -> tuple[SpawnProcess, Pipe]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, run), daemon=True)
    process.start()
    theirs.close()  # or the end of the process would not end the pipe
    return process, ours


def _work(pipe: Pipe, run: Callable[[int], SeedResult]) -> None:
    # Ctrl-C reaches all processes at a terminal; what becomes of this one is for the first to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError):  # nobody asks any more
        while True:
            pipe.send(_outcome(run, pipe.recv()))


def _outcome(run: Callable[[int], SeedResult], seed: int) -> SeedResult:
    try:
        return run(seed)
    except Exception as error:  # of one seed: others can be run all the same
        return _failed(seed, f"{type(error).__name__}: {error}")


def _failed(seed: int, reason: str) -> SeedResult:
    kind = kind_of(seed)
    return SeedResult(seed, kind, f"{reason}\nrepeat with: {replay_line(seed, kind)}")
