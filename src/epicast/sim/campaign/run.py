"""One seed, from the plan to the verdict: trouble first, then everything must come right."""

from __future__ import annotations

from msgspec import Struct

from epicast.core import EpicastError, Trace
from epicast.sim.campaign.limits import check_limits
from epicast.sim.campaign.plan import MS, SECOND, Plan
from epicast.sim.campaign.truth import Broken
from epicast.sim.campaign.world import World
from epicast.sim.checkers import check_nodes

_LOOK_EVERY_NS = 500 * MS
_QUIET_NS = SECOND
"""Simulated after everybody has everything: nothing more may come."""


class Verdict(Struct, frozen=True):
    seed: int
    failure: str = ""
    """What does not hold; empty if everything does."""
    simulated_s: float = 0.0
    converged_s: float = 0.0
    """After the end of publishing."""
    messages: int = 0
    published: int = 0
    acknowledged: int = 0
    refused: int = 0
    delivered: int = 0
    buried: int = 0
    restarts: int = 0
    losses: int = 0
    moved: int = 0


class CampaignRun:
    def __init__(self, plan: Plan, trace: Trace | None = None) -> None:
        self.plan = plan
        self.world = World(plan, trace)

    def run(self) -> Verdict:
        failure, converged = "", 0.0
        try:
            self.run_until(self.plan.publishing_ends_ns)
            converged = self._converge()
            self.check_end()
            self.run_until(self.world.simulation.now + _QUIET_NS)
            self._converge()  # events expire without anybody doing anything
            self.check_end()
        except EpicastError as error:
            failure = str(error)
        except Exception as error:  # a protocol that stumbles has failed, too
            failure = f"{type(error).__name__}: {error} ({_place_of(error)})"
        return self._verdict(failure, converged)

    def run_until(self, time: int) -> None:
        """With a look at everybody now and then."""
        simulation = self.world.simulation
        while simulation.now < time:
            simulation.run_until(min(time, simulation.now + _LOOK_EVERY_NS))
            check_nodes(simulation)
            check_limits(self.world)

    def _converge(self) -> float:
        oracles, simulation = self.world.oracles, self.world.simulation
        began = simulation.now
        end = began + self.plan.converges_within_ns
        while behind := [*self.world.incomplete(), *oracles.lagging()]:
            if simulation.now >= end:
                raise Broken(
                    f"not healed after {self.plan.converges_within_ns / 1e9:g} s: "
                    + "; ".join(behind[:5])
                )
            self.run_until(simulation.now + _LOOK_EVERY_NS)
        return (simulation.now - began) / 1e9

    def check_end(self) -> None:
        """Everybody has everything: is it what it ought to be?"""
        world = self.world
        world.oracles.check_end()
        for replica, node in world.all_replicas():
            for stream, history in world.disk_of(node).histories():
                world.oracles.check_history(replica, stream, history)

    def _verdict(self, failure: str, converged_s: float) -> Verdict:
        oracles, simulation = self.world.oracles, self.world.simulation
        return Verdict(
            seed=self.plan.seed,
            failure=failure,
            simulated_s=simulation.now / 1e9,
            converged_s=converged_s,
            messages=simulation.network.sent,
            published=oracles.published,
            acknowledged=oracles.acknowledged,
            refused=oracles.refused,
            delivered=oracles.delivered,
            buried=oracles.buried,
            restarts=oracles.restarts,
            losses=sum(truth.losses for truth in oracles.streams.values()),
            moved=self.world.moved,
        )


def _place_of(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "nowhere"
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
