"""K and TTL of a node follow the size of the system, and its samples are fresh."""

from statistics import mean, median

from epicast.protocols.catalog import stack_factory
from epicast.protocols.cyclon import Cyclon, CyclonConfig
from epicast.protocols.epto import EptoConfig
from epicast.protocols.epto.sizing import MARGIN, fanout_for, ttl_for
from epicast.protocols.epto.topic import OrderedTopic
from epicast.sim.latency import UniformLatency
from epicast.sim.simulation import Simulation

MS = 1_000_000
PERIOD = 100 * MS
EPOCH = 10


def test_fanout_and_ttl_follow_a_system_that_grows_and_shrinks() -> None:
    simulation = Simulation(3, latency=UniformLatency(MS, 20 * MS, 3))
    epto = EptoConfig(round_period_ns=PERIOD, adaptive_period=False, size_epoch_rounds=EPOCH)
    membership = CyclonConfig(view_size=20, shuffle_period_ns=PERIOD, ping_period_ns=PERIOD)
    factory = stack_factory(["cyclon", "epto"], {"cyclon": membership, "epto": epto})

    def middle(figure: str) -> float:
        alive = [node for node in simulation.nodes.values() if node.alive]
        return median(node.protocol.statistics()[f"epto.{figure}"] for node in alive)

    for size in (20, 80, 20):
        for identity in range(len(simulation.nodes) + 1, size + 1):
            contacts = [simulation.nodes[1].peer] if identity > 1 else []
            simulation.add_node(factory, contacts, identity)
        for node in list(simulation.nodes.values())[size:]:
            simulation.crash(node)
        simulation.run_for(4 * EPOCH * PERIOD)
        low, high = (round(MARGIN * size * error) for error in (0.6, 1.5))
        assert ttl_for(low) <= middle("ttl") <= ttl_for(high)
        assert fanout_for(low) <= middle("fanout") <= fanout_for(high)
        assert (middle("ttl") > 6) == (middle("fanout") > 16) == (size == 80)


def views(simulation: Simulation) -> list[set[int]]:
    return [set(view.neighbors()) for view in memberships(simulation)]


def memberships(simulation: Simulation) -> list[Cyclon]:
    layers = [node.protocol.layers[0] for node in simulation.nodes.values()]
    return [layer for layer in layers if isinstance(layer, Cyclon)]


def running(config: EptoConfig, latency: UniformLatency) -> Simulation:
    simulation = Simulation(3, latency=latency)
    for identity in range(1, 101):
        contacts = [simulation.nodes[1].peer] if identity > 1 else []
        simulation.add_node(lambda peer, rng: OrderedTopic(peer, config, rng), contacts, identity)
    simulation.run_for(6000 * MS)
    return simulation


def kept_after_a_round(simulation: Simulation) -> float:
    """The share of a view that is the same after a round."""
    figures = simulation.nodes[1].protocol.statistics()
    before = views(simulation)
    simulation.run_for(int(figures["epto.round_period_ns"]))
    pairs = zip(before, views(simulation), strict=True)
    return mean(len(one & other) / len(one) for one, other in pairs)


def test_a_node_has_other_neighbours_in_the_next_round() -> None:
    """With an exchange per second, 97 % of the neighbours were the same."""
    simulation = running(EptoConfig(), UniformLatency(MS, 3 * MS, 3))
    assert kept_after_a_round(simulation) < 0.75
    seconds = running(EptoConfig(shuffle_period_ns=1000 * MS), UniformLatency(MS, 3 * MS, 3))
    assert kept_after_a_round(seconds) > 0.9, "who wants it otherwise has it so"


def test_no_exchange_begins_before_the_last_one_is_answered() -> None:
    simulation = running(EptoConfig(), UniformLatency(100 * MS, 200 * MS, 3))
    asked, answered = exchanges(simulation)
    simulation.run_for(5000 * MS)
    asked_later, answered_later = exchanges(simulation)
    assert answered_later - answered > 0.95 * (asked_later - asked) > 0


def exchanges(simulation: Simulation) -> tuple[float, float]:
    """Begun and answered."""
    figures = [membership.statistics() for membership in memberships(simulation)]
    return sum(each["shuffles"] for each in figures), sum(each["answered"] for each in figures)
