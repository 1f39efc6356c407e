"""The comparison of EpTO with a fixed sequencer: both get the same work, and both do it."""

from statistics import mean

import numpy as np
import pytest

from epicast.experiments.epto_outage import KILLED_IN_ROUND, EptoOutage
from epicast.experiments.epto_sequencer import EptoSequencer
from epicast.experiments.model import Scale
from epicast.experiments.ordered_rounds import OrderedSystem, Setting
from epicast.experiments.process_load import ProcessLoad
from epicast.experiments.results import Results
from epicast.experiments.sequenced_rounds import SequencedSystem
from epicast.protocols.epto.messages import Probe
from epicast.protocols.sprinkler import ProxyConfig
from epicast.sim.simulation import Simulation

SETTING = Setting(processes=12, rate=0.4, rounds=6, latency="pair")


@pytest.fixture(scope="module")
def sequenced() -> tuple[SequencedSystem, ProcessLoad]:
    system = SequencedSystem(SETTING, 3)
    load = ProcessLoad(system.simulation)
    system.run()
    return system, load


def test_every_process_gets_every_event_in_one_order(
    sequenced: tuple[SequencedSystem, ProcessLoad],
) -> None:
    system, _ = sequenced
    events, times = system.deliveries()
    assert system.events > 15 and system.missing == 0 and system.violations == 0
    assert np.bincount(events).tolist() == [SETTING.processes] * system.events
    assert (times > system.published_at[events]).all()


def test_epto_is_given_the_same_events(sequenced: tuple[SequencedSystem, ProcessLoad]) -> None:
    system, _ = sequenced
    other = OrderedSystem(SETTING, 3, watched=False)
    other.run()
    assert other.events == system.events
    ours = system.published_at[: system.events]
    theirs = other.published_at[: system.events]
    assert (ours - ours[0]).tolist() == (theirs - theirs[0]).tolist()
    events, times = other.deliveries()
    delays = (times - other.published_at[events]) / 1e6
    assert sorted(delays) == sorted(other.delays()), "the same deliveries, told in another way"


def test_the_sequencer_sends_everything_to_everybody(
    sequenced: tuple[SequencedSystem, ProcessLoad],
) -> None:
    system, load = sequenced
    found = load.metrics(SETTING.rounds)
    each = SETTING.processes + 2  # to everybody, from its publisher, and the answer
    sent = found["busiest_messages"] * SETTING.rounds
    elapsed = system.simulation.now - system.published_at[0]
    heartbeats = 2 * SETTING.processes * (elapsed // ProxyConfig().heartbeat_every_ns + 2)
    assert each * system.events <= sent <= each * system.events + heartbeats
    assert found["busiest_bytes"] > 5 * found["mean_bytes"]


def test_load_is_counted_at_both_ends() -> None:
    simulation = Simulation(1)
    load = ProcessLoad(simulation)
    message = Probe(5)
    assert simulation.network.on_send is not None
    simulation.network.on_send(1, (2, 3), message)
    simulation.network.on_send(3, 1, message)
    assert load.metrics(rounds=2) == {
        "busiest_messages": 1.5,
        "busiest_bytes": 1.5 * message.wire_size(),
        "mean_messages": 1.0,
        "mean_bytes": message.wire_size(),
    }


def test_nothing_overtakes_on_connections() -> None:
    """So a network on which every message has another latency is a slow one for a sequencer."""
    experiment = EptoSequencer()
    rows = [
        {**point, **row}
        for point in experiment.points(Scale.SMOKE)[-2:]
        for row in experiment.run(point, 1)
    ]
    results = Results(Scale.SMOKE, rows)
    assert results.numbers("missing") == results.numbers("violations") == [0] * 4
    delays = {(row["system"], row["latency"]): row["delay"] for row in rows}
    assert delays["sequencer", "pair"] < delays["sequencer", "message"] < delays["epto", "message"]
    assert [plot.name for plot in experiment.plots(results)] == [
        "distribution", "delay", "busiest_bytes", "busiest_messages",
    ]  # fmt: skip


def test_everybody_waits_for_a_sequencer_and_nobody_for_a_process() -> None:
    experiment = EptoOutage()
    results = Results(Scale.SMOKE, list(experiment.run(experiment.points(Scale.SMOKE)[0], 1)))
    assert not any(results.numbers("missing"))
    for system in ("epto", "sequencer"):
        rows = results.where(system=system)
        delays = dict(zip(rows.numbers("round"), rows.numbers("delay"), strict=True))
        before = mean(delays[number] for number in range(KILLED_IN_ROUND - 4))
        after = [delays[number] for number in range(KILLED_IN_ROUND, KILLED_IN_ROUND + 4)]
        if system == "epto":
            assert max(after) < 1.3 * before
        else:
            assert min(after) > 1500 + before
    assert len(experiment.plots(results)) == 1
