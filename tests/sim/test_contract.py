"""The promises of `epicast.core.protocol` about connections, under random treatment.

Nodes that connect, disconnect and talk at random are crashed, stopped, paused and cut off. Each
holds the driver to the contract as it goes; a breach raises in the handler that noticed it.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import CONTROL, DATA, Effects, InvariantViolation, Peer, Protocol
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.latency import ConstantLatency, UniformLatency
from epicast.sim.network import Conditions
from epicast.sim.service import Service
from epicast.sim.simulation import Simulation
from tests.sim.probe import MS, SECOND, Note

NODES = (1, 2, 3)
NOTHING, ASKED, UP = "no interest", "asked", "up"


class Talker(Protocol[None]):
    """Messages say which incarnation sent them, and how many it had sent to this peer before."""

    def __init__(self, node: Peer, rng: Random) -> None:
        super().__init__(node, None, rng)
        self.interest = dict.fromkeys(NODES, NOTHING)
        self.sent = dict.fromkeys(NODES, 0)
        self.heard: dict[int, tuple[int, int]] = {}
        """Incarnation and number of the last message of each peer."""
        self.steady: set[int] = set()
        """Peers connected without a break since we last heard of them."""

    def on_start(self, now, contacts, recovered, fx):
        self.incarnation = recovered.incarnation

    # -- what it does ----------------------------------------------------------------------------

    def connect(self, now: int, peer: int, fx: Effects) -> None:
        self.interest[peer] = ASKED
        fx.connect(Peer(peer))

    def disconnect(self, now: int, peer: int, fx: Effects) -> None:
        self.interest[peer] = NOTHING
        self.steady.discard(peer)
        fx.disconnect(peer)

    def talk(self, now: int, peer: int, fx: Effects) -> None:
        channel = CONTROL if peer % 2 else DATA  # one per peer: order is promised per channel
        self.sent[peer] += 1
        fx.send(peer, Note(f"{self.incarnation} {self.sent[peer]}", bytes(50)), channel)

    def waver(self, now: int, peer: int, fx: Effects) -> None:
        self.disconnect(now, peer, fx)
        self.connect(now, peer, fx)

    def on_stop(self, now, fx):
        for peer in NODES:
            if peer != self.node.id:
                self.talk(now, peer, fx)

    # -- what it holds the driver to -------------------------------------------------------------

    def on_peer_up(self, now, peer, fx):
        self._demand(self.interest[peer] == ASKED, f"up of {peer}: {self.interest[peer]}")
        self.interest[peer] = UP
        if self.rng.random() < 0.5:
            self.talk(now, peer, fx)

    def on_peer_down(self, now, peer, fx):
        self._demand(self.interest[peer] != NOTHING, f"down of {peer} without interest")
        self.interest[peer] = NOTHING
        self.steady.discard(peer)
        if self.rng.random() < 0.5:
            self.connect(now, peer, fx)

    def on_messages(self, now, source, messages, fx):
        for message in messages:
            incarnation, number = map(int, message.text.split())
            before = self.heard.get(source, (0, 0))
            self._demand((incarnation, number) > before, f"{incarnation, number} after {before}")
            if source in self.steady:
                self._demand((incarnation, number) == (before[0], before[1] + 1),
                             f"{incarnation, number} after {before} without a down")  # fmt: skip
            self.heard[source] = incarnation, number
            if self.interest[source] == UP:
                self.steady.add(source)
            if self.rng.random() < 0.1:
                self.waver(now, source, fx)

    def _demand(self, holds: bool, evidence: str) -> None:
        if not holds:
            raise InvariantViolation(f"node {self.node.id}: {evidence}")


nodes = st.sampled_from(NODES)
pairs = st.permutations(NODES).map(lambda order: tuple(order[:2]))
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["connect", "disconnect", "talk", "waver"]), pairs),
        st.tuples(st.just("talk"), pairs),
        st.tuples(st.just("connect"), pairs),
        st.tuples(st.sampled_from(["crash", "vanish", "stop"]), nodes),
        st.tuples(st.just("start"), nodes),
        st.tuples(st.sampled_from(["pause", "resume"]), nodes),
        st.tuples(st.sampled_from(["cut", "cut one way"]), pairs),
        st.tuples(st.just("mend"), st.none()),
        st.tuples(
            st.just("wait"),
            st.sampled_from([0, MS, 7 * MS, 60 * MS, SECOND, 4 * SECOND, 11 * SECOND]),
        ),
    ),
    max_size=60,
)


def drawn(low: int, high: int) -> UniformLatency:
    return UniformLatency(low * MS, high * MS, seed=1)


SETTINGS: dict[str, Callable[[], dict[str, Any]]] = {
    "constant": lambda: {"latency": ConstantLatency(7 * MS)},
    "instant": lambda: {"latency": ConstantLatency(0)},
    "random": lambda: {"latency": drawn(1, 90)},
    "lossy": lambda: {"latency": drawn(1, 20), "conditions": Conditions(loss=0.3)},
    "slow": lambda: {"latency": drawn(1, 20), "bandwidth": Bandwidth(20_000, 10_000, 2_000)},
    "busy": lambda: {"latency": drawn(1, 5), "service": Service(per_message_ns=10 * MS)},
}


class Treatment:
    def __init__(self, options: dict[str, Any]) -> None:
        self.sim = Simulation(1, **options)
        self.cuts: list[Any] = []
        for _ in NODES:
            self.sim.add_node(Talker)

    def apply(self, step: str, subject: Any) -> None:
        sim = self.sim
        match step:
            case "connect" | "disconnect" | "talk" | "waver":
                sim.stimulate(sim.nodes[subject[0]], step, subject[1])
            case "crash" | "vanish":
                sim.crash(sim.nodes[subject], silently=step == "vanish")
            case "stop":
                sim.stop(sim.nodes[subject])
            case "start" if not sim.nodes[subject].alive:
                sim.start(sim.nodes[subject])
            case "pause":
                sim.pause(sim.nodes[subject])
            case "resume":
                sim.resume(sim.nodes[subject])
            case "cut" | "cut one way":
                ways = {subject} if step == "cut one way" else {subject, subject[::-1]}
                self.cuts.append(lambda *path, ways=ways: path in ways)
                sim.network.cut(self.cuts[-1])
            case "mend" if self.cuts:
                sim.network.mend(self.cuts.pop())
            case "wait":
                sim.run_for(subject)

    def heal(self) -> None:
        while self.cuts:
            self.apply("mend", None)
        for node in NODES:
            self.apply("resume", node)
            self.apply("start", node)


@pytest.mark.parametrize("setting", SETTINGS)
@settings(max_examples=80)
@given(steps)
def test_the_contract_holds_whatever_happens(setting, script):
    treatment = Treatment(SETTINGS[setting]())
    for step, subject in script:
        treatment.apply(step, subject)
    treatment.heal()
    sim = treatment.sim
    sim.run_for(60 * SECOND)
    for node in sim.live_nodes():
        # Every connect was answered, and all that is left of a connection is known to both ends.
        assert ASKED not in node.protocol.interest.values()
        assert not node.ended and not node.ghosts and node.special == sim.needs_care
        for peer, link in node.links.items():
            assert sim.nodes[peer].links[node.id] is link
            assert link.established and link.alive
        for peer, interest in node.protocol.interest.items():
            assert (interest == UP) <= (peer in node.links)
    # Nothing is stuck: fresh messages arrive.
    for node in NODES:
        for peer in NODES:
            if peer != node:
                treatment.apply("talk", (node, peer))
    sim.run_for(20 * SECOND)
    for node in sim.live_nodes():
        for peer in NODES:
            if peer != node.id:
                sender = sim.nodes[peer].protocol
                last = (sender.incarnation, sender.sent[node.id])
                assert node.protocol.heard[peer] == last
