"""Whose disk a campaign may take away: never the last one that has everything."""

from msgspec.structs import replace

from epicast.sim.campaign.plan import SECOND
from epicast.sim.campaign.running import plan_of
from epicast.sim.campaign.world import World


def test_who_may_be_about_to_go_on_alone_keeps_its_disk():
    world = World(replace(plan_of(5363, "chains"), faults=()))
    simulation, chains = world.simulation, world.chains
    simulation.run_until(2 * SECOND)
    assert chains.is_complete("r2")
    head, tail = world.replicas("r2")
    assert chains.may_lose("r2", head) and chains.may_lose("r2", tail)
    assert world.geo.coordination is not None
    simulation.pause(world.geo.coordination)
    simulation.crash(tail)
    simulation.run_until(5 * SECOND)
    # The head has proposed to go on alone; the coordination service has not heard of it yet.
    assert chains.listed("r2") == ["r2/1", "r2/2"]
    assert not chains.may_lose("r2", head) and chains.may_lose("r2", tail)
    simulation.crash(head)  # what it has proposed may be agreed on all the same
    assert not chains.may_lose("r2", head)
    simulation.resume(world.geo.coordination)
    simulation.run_until(6 * SECOND)
    assert chains.listed("r2") == ["r2/1"]
