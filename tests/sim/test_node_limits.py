"""Limits of single nodes in a simulation that has none for all."""

from epicast.core import DATAGRAM
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.service import Service
from tests.sim.probe import MS, SECOND, Lab, Note, Probe


def test_a_node_with_bandwidth_of_its_own_sends_at_that_rate():
    lab = Lab(2)
    slow = lab.sim.add_node(Probe, node_id=3, bandwidth=Bandwidth(up=1000, down=1 << 40))
    note = Note("slow")
    for sender in (1, 3):
        lab.act(sender, lambda fx: fx.send(2, note, DATAGRAM))
    sent_at = lab.sim.now
    lab.run(SECOND)
    early, late = lab[2].times("slow")
    assert late - early == note.wire_size() * MS  # a byte a millisecond
    assert early - sent_at <= 2 * MS
    assert slow.interface is not None and lab.node(1).interface is None


def test_a_node_with_a_pace_of_its_own():
    lab = Lab(2)
    lab.sim.add_node(Probe, node_id=3, service=Service(per_message_ns=30 * MS))
    for target in (2, 3):
        lab.act(1, lambda fx, target=target: fx.send(target, Note("hello"), DATAGRAM))
    lab.run(SECOND)
    assert lab[3].times("hello")[0] - lab[2].times("hello")[0] == 30 * MS


def test_bytes_count_for_the_pace_of_one_node():
    lab = Lab(1)
    lab.sim.add_node(Probe, node_id=2, service=Service(per_byte_ns=1000.0))
    note = Note("hello", bytes(500))
    lab.act(1, lambda fx: fx.send(2, note, DATAGRAM))
    lab.act(1, lambda fx: fx.send(2, note, DATAGRAM))
    lab.run(SECOND)
    first, second = lab[2].times("hello")
    assert second - first == note.wire_size() * 1000
