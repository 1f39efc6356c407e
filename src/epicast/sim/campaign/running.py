"""Many seeds, in as many processes as wanted, of whatever kind they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from typing import Any, Literal

from msgspec import Struct

from epicast.sim.campaign.drawing import draw_plan
from epicast.sim.campaign.run import CampaignRun
from epicast.sim.swarm import run_seed as run_membership

Kind = Literal["streams", "membership"]
_MEMBERSHIP_EVERY = 10
"""Of so many seeds one is about membership and gossip, the others about streams."""


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
    return "membership" if seed % _MEMBERSHIP_EVERY == _MEMBERSHIP_EVERY - 1 else "streams"


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
    verdict = CampaignRun(draw_plan(seed).without(set(without))).run()
    failure = verdict.failure
    if failure:
        failure += f"\nrepeat with: {replay_line(seed, without)}"
    return SeedResult(
        seed, kind, failure, verdict.simulated_s, verdict.converged_s, verdict.messages,
        verdict.delivered, time.process_time() - began,
    )  # fmt: skip


def replay_line(seed: int, without: Collection[int] = ()) -> str:
    left_out = f" --without {','.join(map(str, sorted(without)))}" if without else ""
    return f"epicast swarm --kind streams --seed {seed}{left_out}"


def shrink(seed: int) -> set[int]:
    """Faults that a failing seed does not need in order to fail: each is left out in turn."""
    without: set[int] = set()
    for number in range(1, len(draw_plan(seed).faults) + 1):
        if run_seed(seed, "streams", without | {number}).failure:
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
