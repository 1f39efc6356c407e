"""Many seeds, in as many processes as wanted, of whatever kind they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from typing import Any, Literal

from msgspec import Struct

from epicast.sim.campaign.drawing import draw_plan
from epicast.sim.campaign.plan import Plan
from epicast.sim.campaign.run import CampaignRun
from epicast.sim.swarm import run_seed as run_membership

Kind = Literal["streams", "chains", "membership"]
_KINDS: tuple[Kind, ...] = (
    "streams", "chains", "streams", "chains", "streams", "chains", "streams", "chains", "streams",
    "membership",
)  # fmt: skip
"""By the last digit of the seed. The first two are about streams; where there are chains, some
regions have several replicas."""


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
    seeds: range, jobs: int, run: Callable[[int], SeedResult] = run_seed
) -> Generator[SeedResult, None, None]:
    """Results as they come, from `jobs` processes. Whoever has seen enough closes the iterator."""
    if jobs == 1:
        yield from map(run, seeds)
        return
    waiting = iter(seeds)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running: set[Any] = set()
        for seed in waiting:
            running.add(pool.submit(run, seed))
            if len(running) >= 2 * jobs:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        yield from (future.result() for future in running)
