"""Planted bugs are caught, and the line that is printed repeats the run that found them."""

import shlex
from random import Random

import pytest

from epicast.cli import main
from epicast.core import (
    DATAGRAM,
    EventBatch,
    InvariantViolation,
    Message,
    Peer,
    Protocol,
    handles,
)
from epicast.protocols.flood import Flood
from epicast.protocols.hyparview import HyParView
from epicast.sim.checkers import DeliveryLedger, check_nodes, overlay
from epicast.sim.runner import ScenarioFailed, ScenarioRun
from epicast.sim.simulation import Simulation
from epicast.sim.swarm import draw_scenario, run_seed
from epicast.wire import register
from tests.sim.documents import BASE, load
from tests.sim.probe import MS, SECOND, batch

NODES = 5


@register(65_402)
class Event(Message):
    batch: EventBatch


class Broadcast(Protocol[None]):
    """Correct: sends to everybody, delivers what comes."""

    def on_publish(self, now, publications, fx):
        for publication in publications:
            others = [peer for peer in range(1, NODES + 1) if peer != self.node.id]
            fx.send(others, Event(publication.batch), DATAGRAM)
            self.take(publication.batch, fx)

    @handles(Event)
    def _handle_event(self, now, source, message, fx):
        self.take(message.batch, fx)

    def take(self, batch, fx):
        fx.deliver(batch)

    def neighbors(self):
        return [self.node.id % NODES + 1]


class Twice(Broadcast):
    def take(self, batch, fx):
        fx.deliver(batch)
        if self.node.id == 3 and batch.first == 4:
            fx.deliver(batch.slice(5, 5))


class Forger(Broadcast):
    """Changes one byte of one event."""

    def take(self, batch, fx):
        payloads = batch.payloads()
        if self.node.id == 3 and batch.first == 4:
            payloads[1] = payloads[1][:-1] + b"!"
        fx.deliver(EventBatch.build(batch.stream, batch.first, payloads))


class Inventor(Broadcast):
    """Delivers numbers that nobody published."""

    def take(self, batch, fx):
        fx.deliver(batch)
        if self.node.id == 3 and batch.first == 4:
            fx.deliver(EventBatch.build(batch.stream, 7, [b"news"]))


class Stretcher(Broadcast):
    """Passes one event more than was published off as part of a batch."""

    def take(self, batch, fx):
        payloads = batch.payloads()
        if self.node.id == 3 and batch.first == 4:
            payloads.append(b"news")
        fx.deliver(EventBatch.build(batch.stream, batch.first, payloads))


class Mixer(Broadcast):
    """Delivers under another stream."""

    def take(self, batch, fx):
        stream = 2 if self.node.id == 3 else batch.stream
        fx.deliver(EventBatch.build(stream, batch.first, batch.payloads()))


class Loser(Broadcast):
    def take(self, batch, fx):
        if not (self.node.id == 3 and batch.first == 4):
            fx.deliver(batch)


class Gatherer(Broadcast):
    """Correct as well: delivers both batches as one."""

    def __init__(self, node: Peer, rng: Random) -> None:
        super().__init__(node, None, rng)
        self.waiting: list[EventBatch] = []

    def take(self, batch, fx):
        self.waiting = sorted([*self.waiting, batch], key=lambda each: each.first)
        if len(self.waiting) == 2:
            payloads = [payload for each in self.waiting for payload in each.payloads()]
            fx.deliver(EventBatch.build(batch.stream, 1, payloads))


class Splitter(Broadcast):
    """Correct as well: delivers events one by one, the last first."""

    def take(self, batch, fx):
        for number in range(batch.last, batch.first - 1, -1):
            fx.deliver(batch.slice(number, number))


def run(protocol: type[Broadcast]) -> DeliveryLedger:
    """Node 1 publishes its events 1 to 3, then 4 to 6."""
    sim = Simulation(1)
    ledger = DeliveryLedger(sim)
    for _ in range(NODES):
        if protocol is Gatherer:
            sim.add_node(Gatherer)
        else:
            sim.add_node(lambda peer, rng: protocol(peer, None, rng))
    for first in (1, 4):
        published = batch(1, first, 3)
        ledger.publish(published)
        sim.publish(sim.nodes[1], published)
        sim.run_for(SECOND)
    return ledger


@pytest.mark.parametrize("protocol", [Broadcast, Gatherer, Splitter])
def test_correct_protocols_pass(protocol):
    ledger = run(protocol)
    assert ledger.ratio() == 1.0
    assert ledger.account() == (30, 30)
    assert ledger.deliveries == 30
    assert max(ledger.delays_ns) == MS


@pytest.mark.parametrize(
    ("protocol", "evidence"),
    [
        (Twice, "node 3 was delivered events of 1:5..5 twice"),
        (Forger, "node 3 was delivered <EventBatch 1:4..6 rows=3>, which nobody published"),
        (Inventor, "node 3 was delivered <EventBatch 1:7..7 rows=1>, which nobody published"),
        (Stretcher, "node 3 was delivered <EventBatch 1:4..7 rows=4>, which nobody published"),
        (Mixer, "node 3 was delivered <EventBatch 2:1..3 rows=3>, which nobody published"),
    ],
)
def test_unsafe_protocols_are_caught_in_the_act(protocol, evidence):
    with pytest.raises(InvariantViolation, match=evidence):
        run(protocol)


def test_losses_are_counted():
    ledger = run(Loser)
    assert ledger.account() == (30, 27)
    assert ledger.ratio() == pytest.approx(0.9)
    assert [ledger.ratio([each]) for each in ledger.published] == [1.0, pytest.approx(0.8)]


# -- who is owed what -----------------------------------------------------------------------------


class Deaf(Protocol[None]):
    pass


def test_an_event_is_owed_to_nodes_that_were_up_from_then_until_now():
    sim = Simulation(1)
    ledger = DeliveryLedger(sim)
    for _ in range(4):
        sim.add_node(lambda peer, rng: Deaf(peer, None, rng))

    def owed() -> int:
        ledger.publish(batch(1, len(ledger.published) + 1))
        return ledger.account(ledger.published[-1:])[0]

    assert owed() == 4
    sim.crash(sim.nodes[4])
    assert ledger.account()[0] == 3  # no longer to the one that is gone
    sim.start(sim.nodes[4])
    assert ledger.account()[0] == 3  # nor to what comes back in its place
    sim.add_node(lambda peer, rng: Deaf(peer, None, rng))
    assert owed() == 5  # all at one instant: order counts, not time
    assert ledger.account()[0] == 8
    assert ledger.ratio() == 0.0
    assert ledger.ratio([]) == 1.0


def test_a_new_incarnation_may_be_delivered_again_what_the_old_one_had():
    sim = Simulation(1)
    ledger = DeliveryLedger(sim)
    sim.add_node(lambda peer, rng: Broadcast(peer, None, rng))
    event = batch(1, 1)
    ledger.publish(event)
    sim.publish(sim.nodes[1], event)
    sim.crash(sim.nodes[1])
    sim.start(sim.nodes[1])
    sim.publish(sim.nodes[1], event)
    with pytest.raises(InvariantViolation, match="twice"):
        sim.publish(sim.nodes[1], event)


# -- invariants -----------------------------------------------------------------------------------


def test_a_node_that_finds_itself_in_an_impossible_state_is_named():
    class Torn(Broadcast):
        def check_invariants(self):
            if self.node.id == 2:
                raise InvariantViolation("two plus two is five")

    sim = Simulation(1)
    for _ in range(3):
        sim.add_node(lambda peer, rng: Torn(peer, None, rng))
    sim.run_for(1500 * MS)
    with pytest.raises(InvariantViolation, match=r"node 2 at 1.500 s: two plus two is five"):
        check_nodes(sim)
    sim.crash(sim.nodes[2])
    check_nodes(sim)


def pieces(sim: Simulation) -> int:
    return len(set(overlay(sim).components().tolist()))


def test_the_overlay_is_that_of_the_living():
    sim = Simulation(1)
    for _ in range(NODES):
        sim.add_node(lambda peer, rng: Broadcast(peer, None, rng))
    assert pieces(sim) == 1
    sim.crash(sim.nodes[2])
    assert (overlay(sim).nodes, pieces(sim)) == (4, 1)  # a ring with a gap
    sim.crash(sim.nodes[4])
    assert (overlay(sim).nodes, pieces(sim)) == (3, 2)


# -- replay ---------------------------------------------------------------------------------------


def replay(failure: str, capsys) -> str:
    """What the printed command says when it is run."""
    (line,) = [line for line in failure.splitlines() if line.startswith("repeat with: ")]
    words = shlex.split(line.removeprefix("repeat with: "))
    assert words.pop(0) == "epicast"
    assert main([*words, "--jobs", "1"] if words[0] == "swarm" else words) == 1
    return capsys.readouterr().err


def test_a_rule_broken_in_a_swarm_is_repeated_by_the_line_it_prints(monkeypatch, capsys):
    """A flood that forgets, now and then, that it has delivered."""
    honest = Flood._spread

    def careless(self, batch, message, source, fx):
        new = honest(self, batch, message, source, fx)
        if not new and self.rng.random() < 0.01:
            fx.deliver(batch)
        return new

    monkeypatch.setattr(Flood, "_spread", careless)
    seed = next(seed for seed in range(20) if draw_scenario(seed).scenario.stack[1] == "flood")
    result = run_seed(seed)
    assert "was delivered events of" in result.failure
    assert "twice; it had" in result.failure
    assert result.failure.endswith(f"repeat with: epicast swarm --kind membership --seed {seed}")
    assert result.failure.splitlines()[0] in replay(result.failure, capsys)


def test_an_invariant_broken_in_a_scenario_is_repeated_by_the_line_it_prints(
    monkeypatch, capsys, tmp_path
):
    def suspicious(self):
        if self._shuffles == 2 and self.rng.random() < 0.1:
            raise InvariantViolation(f"drew {self.rng.random()}")

    monkeypatch.setattr(HyParView, "check_invariants", suspicious)
    path = tmp_path / "small.toml"
    path.write_text(BASE + '[hyparview]\nshuffle_period = "1s"\n')
    assert main(["simulate", str(path), "--seed", "77"]) == 1
    said = capsys.readouterr().err
    evidence = next(line for line in said.splitlines() if "drew 0." in line)
    assert f"repeat with: epicast simulate {path} --seed 77" in said
    assert evidence in replay(said, capsys)


def test_any_other_exception_of_a_protocol_is_reported_the_same_way(monkeypatch):
    def broken(self, now, peer, fx):
        raise KeyError("missing")

    monkeypatch.setattr(HyParView, "on_peer_up", broken)
    with pytest.raises(ScenarioFailed) as failed:
        ScenarioRun(load(BASE)).run()
    assert str(failed.value) == (
        "KeyError('missing')\nrepeat with: epicast simulate x/small.toml --seed 1"
    )
    assert isinstance(failed.value.__cause__, KeyError)


def test_a_seed_that_misses_an_expectation_says_so(monkeypatch):
    monkeypatch.setattr(Flood, "on_publish", lambda self, now, publications, fx: None)
    seed = next(seed for seed in range(20) if draw_scenario(seed).scenario.stack[1] == "flood")
    failure = run_seed(seed).failure
    assert failure.startswith("workload[1]: delivery 0.0000% is below 100.0000%")
    assert failure.endswith(f"repeat with: epicast swarm --kind membership --seed {seed}")
