"""How fast the campaign judges geoplexes: messages per second with all oracles on.

The bar, `vs_sim`, is the ratio to `bench sim`, whose messages are much lighter: gossip of one
event, without streams, windows or disks. `vs_unjudged` is the ratio to the same seeds with the same
faults, simulated as long without oracles: what judging costs.
"""

from functools import partial
from time import process_time

from bench.gossip_models import epicast_gossip
from bench.harness import Bar, Result, interleave
from epicast.core import EventBatch, NodeId, Publication
from epicast.log import History, warm_up
from epicast.sim.campaign import CampaignRun
from epicast.sim.campaign.oracles import Oracles
from epicast.sim.campaign.plan import SECOND
from epicast.sim.campaign.running import Kind, plan_of
from epicast.sim.campaign.watched import Session
from epicast.sim.campaign.world import World

END_NS = 15 * SECOND
STEP_NS = SECOND // 2


class Unjudged(Oracles):
    """Keeps what applications need to go on after a restart, and looks at nothing."""

    def on_opened(self, replica: str, stream: int, history: History) -> None:
        pass

    def on_began(
        self, replica: str, stream: int, epoch: int, *, keeps: bool, first: int = 1
    ) -> None:
        pass

    def on_stored(self, replica: str, batch: EventBatch) -> None:
        pass

    def on_publish(self, publisher: NodeId, batch: EventBatch, *, is_sound: bool = True) -> None:
        pass

    def on_acknowledge(self, publication: Publication, seq: int) -> None:
        pass

    def on_refuse(self, publication: Publication, *, is_sure: bool = True) -> None:
        pass

    def on_delivery(self, node: NodeId, number: int, batch: EventBatch) -> Session:
        session = self.sessions[node, number]
        session.epoch, session.end = batch.epoch, batch.last
        return session

    def on_restarted(self, node: NodeId, number: int, epoch: int, seq: int) -> Session:
        session = self.sessions[node, number]
        session.epoch, session.end = epoch, seq
        session.resets += 1
        return session


def _kind(seed: int) -> Kind:
    """Half of the geoplexes have chains."""
    return "chains" if seed % 2 else "streams"


def judged(seeds: range) -> float:
    """Messages per second of processor time, with all oracles."""
    messages, seconds = 0, 0.0
    for seed in seeds:
        run = CampaignRun(plan_of(seed, _kind(seed)))
        began = process_time()
        run.run_until(run.plan.publishing_ends_ns)
        while run.world.simulation.now < END_NS:
            behind = run.world.oracles.lagging()
            run.run_until(run.world.simulation.now + STEP_NS)
        if not behind:
            run.check_end()
        seconds += process_time() - began
        messages += run.world.simulation.network.sent
    return messages / seconds


def unjudged(seeds: range) -> float:
    messages, seconds = 0, 0.0
    for seed in seeds:
        simulation = World(plan_of(seed, _kind(seed)), judged_by=Unjudged).simulation
        began = process_time()
        simulation.run_until(END_NS)
        seconds += process_time() - began
        messages += simulation.network.sent
    return messages / seconds


def run(quick: bool) -> Result:
    warm_up()
    seeds = range(4) if quick else range(16)
    nodes, events = (200, 20) if quick else (1000, 60)
    candidates = {
        "judged": partial(judged, seeds),
        "unjudged": partial(unjudged, seeds),
        "gossip": partial(epicast_gossip, nodes, events),
    }
    rates = interleave(candidates, rounds=1 if quick else 5, warmup=0 if quick else 1)
    figures = {f"{name}_messages_per_s": round(rate.median) for name, rate in rates.items()}
    figures["vs_unjudged"] = round(rates["judged"].over(rates["unjudged"]), 3)
    bars = [Bar("vs_sim", 0.5, "at least", rates["judged"].over(rates["gossip"]), "x")]
    return Result("swarm", figures, bars)
