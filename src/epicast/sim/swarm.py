"""Swarms of peers: everything about a run is drawn from its seed. One kind of the campaign's seeds.

A seed gives a scenario in two phases. First anything may happen: crashes, pauses, partitions, loss,
drifting clocks, nodes that come and go. Then all of it stops, the system gets time to heal, and
events published after that must reach everyone. Rules of safety hold throughout.
"""

from __future__ import annotations

from math import ceil, log
from random import Random

from msgspec import Struct

from epicast.core import EpicastError
from epicast.core.sampling import derive_seed
from epicast.protocols.cyclon import CyclonConfig
from epicast.protocols.gossip import PushGossipConfig
from epicast.protocols.hyparview import HyParViewConfig
from epicast.protocols.lpbcast import LpbcastConfig
from epicast.protocols.pbcast import PbcastConfig
from epicast.protocols.reinforcement import ReinforcementConfig
from epicast.protocols.scamp import ScampConfig
from epicast.sim.churn import Churn
from epicast.sim.faults import AnyFault, Crash, CutLink, Drift, Leave, Partition, Pause, Weather
from epicast.sim.runner import Outcome, ScenarioRun
from epicast.sim.scenario import (
    BandwidthSection,
    ConstantDelay,
    DelaySection,
    EptoDelay,
    ExpectSection,
    LayerName,
    LoadedScenario,
    NetworkSection,
    Scenario,
    ServiceSection,
    UniformDelay,
    Workload,
)

_MS = 1_000_000
_SECOND = 1_000_000_000
_TROUBLE_BEGINS = 20 * _SECOND
_TROUBLE_ENDS = 60 * _SECOND
_HEALED = 160 * _SECOND
_END = 175 * _SECOND


_FAMILY_SHARE = 0.15
_FAMILY: list[list[LayerName]] = [
    ["lpbcast"],
    ["lpbcast", "gossip"],
    ["lpbcast", "pbcast"],
    ["cyclon", "lpbcast"],
    ["scamp", "gossip"],
    ["reinforcement", "gossip"],
]
_SCAMP = ScampConfig(lease_ns=20 * _SECOND, heartbeat_period_ns=2 * _SECOND)
_REINFORCEMENT = ReinforcementConfig(view_size=12)


def draw_scenario(seed: int) -> LoadedScenario:
    rng = Random(derive_seed(seed, "swarm"))
    stacks: list[list[LayerName]] = [
        ["hyparview", "flood"],
        ["hyparview", "gossip"],
        ["cyclon", "gossip"],
    ]
    stack = rng.choice(stacks)
    # From a generator of their own: seeds that have none of these are what they were without them.
    family = Random(derive_seed(seed, "swarm family"))
    if family.random() < _FAMILY_SHARE:
        stack = family.choice(_FAMILY)
    exact = stack[-1] == "flood"
    # What gossip promises is a probability: enough nodes, all of them back at the end, and an ample
    # fanout make it a near certainty.
    nodes = rng.randint(4 if exact else 14, 28)
    fanout = ceil(log(nodes)) + 5
    active_view = rng.randint(4, 7)
    if not exact:
        active_view = max(active_view, 6)
    hyparview = HyParViewConfig(
        active_view=active_view,
        expansion_factor=rng.choice((1.0, 1.5, 2.0)),
        passive_view=rng.randint(8, 30),
        shuffle_period_ns=rng.randint(2, 10) * _SECOND,
        keep_alive_period_ns=rng.choice((1, 2, 4)) * _SECOND,
    )
    cyclon = CyclonConfig(
        view_size=rng.randint(8, 20), shuffle_period_ns=rng.randint(1, 4) * _SECOND
    )
    scenario = Scenario(
        name=f"swarm-{seed}",
        seed=seed,
        nodes=nodes,
        duration_ns=_END,
        join_every_ns=rng.choice((0, 10 * _MS, 200 * _MS)),
        stack=stack,
        hyparview=hyparview if stack[0] == "hyparview" else None,
        cyclon=cyclon if stack[0] == "cyclon" else None,
        gossip=PushGossipConfig(fanout=fanout) if "gossip" in stack else None,
        lpbcast=_draw_lpbcast(family) if "lpbcast" in stack else None,
        pbcast=_draw_pbcast(family, fanout) if "pbcast" in stack else None,
        scamp=_SCAMP if "scamp" in stack else None,
        reinforcement=_REINFORCEMENT if "reinforcement" in stack else None,
        network=_draw_network(rng),
        service=_draw_service(rng),
        workload=_draw_workload(rng, exact=exact),
        faults=[_draw_fault(rng, nodes, for_good=exact) for _ in range(rng.randint(0, 6))],
        churn=_draw_churn(rng),
        expect=ExpectSection(delivery=0.0, connected=True),
    )
    return LoadedScenario(scenario, "swarm --kind membership")


def _draw_lpbcast(rng: Random) -> LpbcastConfig:
    """Slow rounds: a swarm lasts for minutes. Buffers that hold what is published after trouble."""
    return LpbcastConfig(
        fanout=rng.randint(3, 5),
        view_size=rng.randint(8, 16),
        gossip_period_ns=_SECOND,
        contact_every=rng.choice((5, 20)),
        membership=rng.choice(("random", "frequency")),
        purging=rng.choice(("random", "age")),
        max_events=300,
        max_datagrams=64,
        critical_age_rounds=5,
    )


def _draw_pbcast(rng: Random, fanout: int) -> PbcastConfig:
    return PbcastConfig(
        fanout=fanout,
        gossip_period_ns=_SECOND,
        first_phase=rng.choice(("multicast", "none")),
        max_events=300,
        purging=rng.choice(("random", "age")),
        max_solicited=500,
    )


def _draw_network(rng: Random) -> NetworkSection:
    latency: DelaySection = rng.choice(
        (
            ConstantDelay(delay_ns=rng.randint(1, 50) * _MS),
            UniformDelay(low_ns=_MS, high_ns=rng.randint(2, 200) * _MS),
            EptoDelay(),
        )
    )
    bandwidth = None
    if rng.random() < 0.25:
        bandwidth = BandwidthSection(up=rng.randint(1, 100) * 125_000, down=12_500_000)
    return NetworkSection(
        latency=latency,
        loss=rng.choice((0.0, 0.0, 0.01)),
        duplication=rng.choice((0.0, 0.0, 0.1)),
        reordering=rng.choice((0.0, 0.0, 0.2)),
        bandwidth=bandwidth,
    )


def _draw_service(rng: Random) -> ServiceSection | None:
    if rng.random() >= 0.25:
        return None
    return ServiceSection(per_message_ns=rng.randint(0, 2000) * 1000, per_kilobyte_ns=1000)


def _draw_churn(rng: Random) -> Churn | None:
    if rng.random() >= 0.25:
        return None
    return Churn(
        rate=rng.uniform(0.05, 0.5) / 60,
        from_ns=_TROUBLE_BEGINS,
        for_ns=_TROUBLE_ENDS - _TROUBLE_BEGINS,
        crashes=rng.choice((0.0, 0.5, 1.0)),
    )


def _draw_workload(rng: Random, *, exact: bool) -> list[Workload]:
    before = Workload(
        from_ns=10 * _SECOND,
        count=rng.randint(5, 40),
        every_ns=rng.randint(100, 1500) * _MS,
        batch=rng.choice((1, 7, 50)),
        size_bytes=rng.choice((0, 10, 300)),
    )
    after = Workload(
        from_ns=_HEALED,
        count=5,
        every_ns=_SECOND,
        batch=rng.choice((1, 7, 50)),
        expect_delivery=1.0 if exact else 0.9,
    )
    return [before, after]


def _draw_fault(rng: Random, nodes: int, *, for_good: bool) -> AnyFault:
    at = rng.randrange(_TROUBLE_BEGINS, _TROUBLE_ENDS)
    lasting = rng.randrange(_SECOND // 10, 25 * _SECOND)
    share = rng.choice((0.1, 0.3, 0.5))
    match rng.randrange(7):
        case 0:
            restart = rng.choice((None, lasting)) if for_good else lasting
            silently = rng.random() < 0.3
            return Crash(at_ns=at, share=share, restart_after_ns=restart, silently=silently)
        case 1:
            return Pause(at_ns=at, share=share, for_ns=lasting)
        case 2:
            return Partition(at_ns=at, for_ns=lasting, share=share)
        case 3:
            return Weather(at_ns=at, for_ns=lasting, loss=rng.choice((0.05, 0.3)),
                           duplication=0.1, reordering=0.3)  # fmt: skip
        case 4:
            return Drift(at_ns=at, share=share, rate=rng.choice((0.001, 0.1)), for_ns=lasting)
        case 5:
            one, other = rng.sample(range(1, nodes + 1), 2)
            one_way = rng.random() < 0.5
            return CutLink(at_ns=at, for_ns=lasting, between=(one, other), one_way=one_way)
        case _:
            return Leave(at_ns=at, count=rng.randint(1, 2))


class SwarmResult(Struct, frozen=True):
    seed: int
    digest: str = ""
    simulated_s: float = 0.0
    messages: int = 0
    failure: str = ""


def run_seed(seed: int) -> SwarmResult:
    run = ScenarioRun(draw_scenario(seed))
    try:
        outcome: Outcome = run.run()
    except EpicastError as error:
        return SwarmResult(seed, failure=str(error))
    failure = ""
    if outcome.failures:
        failure = f"{'; '.join(outcome.failures)}\nrepeat with: {run.replay_line()}"
    return SwarmResult(seed, outcome.digest, outcome.simulated_s, outcome.messages, failure)
