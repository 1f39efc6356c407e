"""Limited bandwidth: how long sending takes, what waits, and who hears that there is room."""

import pytest

from epicast.core import CONTROL, DATA, DATAGRAM, ConfigError, Group
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.latency import ConstantLatency
from tests.sim.probe import MS, SECOND, Lab, Note

RATE = 100_000
"""Bytes a second: 10 us a byte."""


def slow_lab(nodes: int = 2, **more: int) -> Lab:
    limits = {"up": RATE, "down": 1_000_000_000, **more}
    return Lab(nodes, latency=ConstantLatency(20 * MS), bandwidth=Bandwidth(**limits))


def sized(text: str, size: int) -> Note:
    """A note of `size` bytes on the wire."""
    bare = Note(text).wire_size()
    for padding in (size - bare, size - bare - 1, size - bare - 2, size - bare - 3):
        note = Note(text, bytes(max(0, padding)))
        if note.wire_size() == size:
            return note
    raise AssertionError(f"no note {text!r} of {size} bytes")


def submit(lab: Lab, text: str, size: int, channel: int = DATAGRAM, to: int | Group = 2) -> None:
    lab.act(1, lambda fx: fx.send(to, sized(text, size), channel))


def test_serialisation_delay_adds_up_on_the_uplink():
    lab = slow_lab()
    for text, size in (("a", 1000), ("b", 500), ("c", 100)):
        submit(lab, text, size)
    lab.run(SECOND)
    sent = [10 * MS, 15 * MS, 16 * MS]
    arrived = [lab[2].times(text)[0] for text in "abc"]
    # What the downlink of 1 GB/s adds is its own bytes: 1 us, 0.5 us, 0.1 us.
    sizes = (1000, 500, 100)
    assert arrived == [time + 20 * MS + size for time, size in zip(sent, sizes, strict=True)]


def test_the_downlink_is_shared_by_all_senders():
    lab = Lab(4, latency=ConstantLatency(20 * MS), bandwidth=Bandwidth(1_000_000_000, RATE))
    for sender in (1, 2, 3):
        note = sized(str(sender), 1000)
        lab.act(sender, lambda fx, note=note: fx.send(4, note, DATAGRAM))
    lab.run(SECOND)
    arrived = [lab[4].times(str(sender))[0] for sender in (1, 2, 3)]
    assert arrived == [20 * MS + 1000 + n * 10 * MS for n in (1, 2, 3)]


def test_control_overtakes_data_but_not_what_is_being_sent():
    lab = slow_lab()
    lab.link(1, 2)
    for text in ("d1", "d2", "c1", "d3", "c2"):
        submit(lab, text, 1000, DATA if text.startswith("d") else CONTROL)
    lab.run(SECOND)
    assert lab[2].texts() == ["d1", "c1", "c2", "d2", "d3"]


def test_datagrams_that_find_the_queue_full_are_lost():
    lab = slow_lab(queue_bytes=2500)
    for number in range(4):
        submit(lab, str(number), 1000)
    lab.run(SECOND)
    assert lab[2].texts() == ["0", "1"]
    assert lab.sim.drops == {"queue full": 2}


def test_a_connection_that_finds_the_queue_full_breaks():
    lab = slow_lab(queue_bytes=2500)
    lab.link(1, 2)
    for number in range(3):
        submit(lab, str(number), 1000, DATA)
    lab.run(SECOND)
    assert lab[1].events("down") == [("down", 2)]
    assert lab[2].events() == [("down", 1)]
    assert lab.sim.drops == {"queue full": 1, "connection lost": 2}


def test_an_empty_queue_takes_a_message_of_any_size():
    lab = slow_lab(queue_bytes=500)
    submit(lab, "huge", 5000)
    lab.run(SECOND)
    assert lab[2].texts() == ["huge"]


def test_datagrams_that_find_the_downlink_full_are_lost():
    lab = Lab(12, bandwidth=Bandwidth(1_000_000_000, RATE, 3000))
    for sender in range(2, 12):
        note = sized(str(sender), 1000)
        lab.act(sender, lambda fx, note=note: fx.send(1, note, DATAGRAM))
    lab.run(SECOND)
    assert len(lab[1].texts()) == 3
    assert lab.sim.drops == {"downlink full": 7}


def test_connections_wait_for_the_downlink_instead():
    lab = Lab(12, bandwidth=Bandwidth(1_000_000_000, RATE, 3000))
    for sender in range(2, 12):
        note = sized(str(sender), 1000)
        lab.act(sender, lambda fx, note=note: fx.send(1, note, DATA))
    lab.run(SECOND)
    assert lab[1].texts() == [str(sender) for sender in range(2, 12)]
    assert lab.sim.drops == {}


def test_a_packet_to_a_group_is_sent_once():
    lab = slow_lab(5)
    group = Group(1)
    for member in range(1, 6):
        lab.act(member, lambda fx: fx.join(group))
    submit(lab, "all", 1000, to=group)
    submit(lab, "next", 1000, to=group)
    lab.run(SECOND)
    for member in range(2, 6):
        assert lab[member].times("all") == [30 * MS + 1000]
        assert lab[member].times("next") == [40 * MS + 1000]
    assert lab.sim.network.sent == 2
    assert lab.sim.network.sent_bytes == 2000


# -- room -----------------------------------------------------------------------------------------


def test_room_is_what_the_queue_can_take():
    lab = slow_lab(queue_bytes=8000)
    seen = []
    lab.link(1, 2)
    lab.act(1, lambda fx: seen.append(fx.room(2)))
    for number in range(3):
        submit(lab, str(number), 1000, DATA)
    lab.act(1, lambda fx: seen.append(fx.room(2)))
    assert seen == [8000, 5000]


def test_whoever_found_less_than_all_room_hears_of_more():
    lab = slow_lab(queue_bytes=8000)
    lab.link(1, 2)
    begun = lab.sim.now
    for number in range(6):
        submit(lab, str(number), 1000, DATA)
    lab.act(1, lambda fx: fx.room(2))
    lab.run(SECOND)
    # Told once the queue is down to a quarter: after four of the six.
    assert lab[1].log == [(begun + 40 * MS, "ready", 2, 6000)]


def test_even_if_the_queue_was_nearly_empty():
    lab = slow_lab(queue_bytes=8000)
    lab.link(1, 2)
    submit(lab, "only one", 1000, DATA)
    lab.act(1, lambda fx: fx.room(2))
    lab.run(SECOND)
    assert lab[1].events() == [("ready", 2, 8000)]


def test_whoever_filled_the_queue_hears_of_room_without_asking():
    lab = slow_lab(queue_bytes=8000)
    lab.link(1, 2)
    for number in range(5):
        submit(lab, str(number), 1000, DATA)
    lab.run(SECOND)
    assert lab[1].events() == [("ready", 2, 6000)]


def test_a_sender_that_fills_the_room_it_is_told_of_loses_nothing():
    lab = slow_lab(queue_bytes=3000)
    lab.link(1, 2)
    sent = 0

    def pull(fx) -> None:
        nonlocal sent
        room = fx.room(2)
        while sent < 50 and room >= 700:
            fx.send(2, sized(f"{sent:03}", 700), DATA)
            sent += 1
            room -= 700

    lab[1].reactions["ready"] = pull
    lab.act(1, pull)
    lab.run(10 * SECOND)
    assert lab[2].texts() == [f"{number:03}" for number in range(50)]
    assert lab.sim.drops == {}


# -- crashes --------------------------------------------------------------------------------------


def test_what_was_queued_dies_with_the_node_and_the_next_life_starts_empty():
    lab = slow_lab(queue_bytes=8000)
    for number in range(4):
        submit(lab, str(number), 1000)
    lab.run(15 * MS)
    lab.sim.crash(lab.node(1))
    lab.sim.start(lab.node(1))
    lab.run(MS)
    submit(lab, "new", 1000)
    room = []
    lab.act(1, lambda fx: room.append(fx.room(2)))
    lab.run(SECOND)
    assert room == [7000]
    # The first had left; that the restart loses it on its way is the network's right.
    assert lab[2].texts() == ["new"]
    assert lab[2].times("new") == [15 * MS + MS + 10 * MS + 20 * MS + 1000]
    lab.act(1, lambda fx: room.append(fx.room(2)))
    assert room == [7000, 8000]


@pytest.mark.parametrize("down", [1_000_000_000, 20_000])
def test_who_leaves_in_good_order_sends_what_is_queued(down):
    lab = slow_lab(down=down)
    lab.link(1, 2)
    for number in range(5):
        submit(lab, str(number), 1000, DATA)
    lab[1].reactions["stop"] = lambda fx: fx.send(2, Note("goodbye"), DATA)
    lab.sim.stop(lab.node(1))
    lab.run(10 * SECOND)
    assert lab[2].texts() == ["0", "1", "2", "3", "4", "goodbye", "down"]


def test_a_connection_is_not_idle_while_something_for_it_is_queued():
    lab = slow_lab(up=100)  # 10 s for a kilobyte
    for number in range(3):
        submit(lab, str(number), 1000, DATA)
    lab.run(60 * SECOND)
    assert lab[2].texts() == ["0", "1", "2"]
    lab.run(60 * SECOND)
    assert lab.node(1).links == {}


@pytest.mark.parametrize("field", ["up", "down", "queue_bytes"])
def test_rates_and_queue_must_be_positive(field):
    with pytest.raises(ConfigError, match="must be positive"):
        Bandwidth(**{"up": 1, "down": 1, "queue_bytes": 1, field: 0})
