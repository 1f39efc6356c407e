"""`Effects`: what a handler asks for is there for the driver, in order, until cleared."""

import pytest

from epicast.core import (
    CONTROL,
    DATA,
    DATAGRAM,
    Effects,
    EventBatch,
    Group,
    Message,
    Peer,
    Publication,
)
from epicast.core import effects as fx_module


class Ping(Message):
    number: int = 0


BATCH = EventBatch.build(1, 1, [b"a"])
PUBLICATION = Publication(7, 1, BATCH)
GROUP = Group(4)


def test_sends_keep_destination_message_and_channel() -> None:
    fx, message = Effects(), Ping(1)
    fx.send(5, message)
    fx.send([6, 7], message, DATA)
    fx.send(GROUP, message, DATAGRAM)
    assert fx.sends == [(5, message, CONTROL), ([6, 7], message, DATA), (GROUP, message, DATAGRAM)]
    assert fx.sends[0][1] is message


def test_operations_come_in_the_order_they_were_asked_for() -> None:
    fx = Effects()
    fx.connect(Peer(2, "h", 1))
    fx.know(Peer(3))
    fx.disconnect(2)
    fx.join(GROUP)
    fx.leave(GROUP)
    fx.append(BATCH)
    fx.save("epoch", b"3")
    fx.send_after_append(4, Ping())
    fx.deliver_after_append(BATCH)
    fx.read(1, 10, 4096, token=9)
    fx.acknowledge(PUBLICATION, "disk", 12)
    fx.refuse(PUBLICATION, "too fast")
    fx.drop("queue full", 4, stream=1, first=2, last=3)
    fx.neighbor_up(8)
    fx.neighbor_down(8)
    assert fx.operations == [
        fx_module.Connect(Peer(2, "h", 1)),
        fx_module.Know(Peer(3)),
        fx_module.Disconnect(2),
        fx_module.Join(GROUP),
        fx_module.Leave(GROUP),
        fx_module.Append(BATCH),
        fx_module.Save("epoch", b"3"),
        fx_module.SendAfterAppend(4, Ping(), CONTROL),
        fx_module.DeliverAfterAppend(BATCH),
        fx_module.Read(1, 10, 4096, 9),
        fx_module.Acknowledge(PUBLICATION, "disk", 12),
        fx_module.Refuse(PUBLICATION, "too fast"),
        fx_module.Drop("queue full", 4, 1, 2, 3),
        fx_module.ViewChange(8, True),
        fx_module.ViewChange(8, False),
    ]
    assert not fx.sends and not fx.deliveries


def test_deliveries_have_their_own_list() -> None:
    fx = Effects()
    fx.deliver(BATCH)
    assert fx.deliveries == [BATCH] and not fx.operations


@pytest.mark.parametrize("ask", ["send", "deliver", "save"])
def test_clearing_empties_the_very_lists_others_hold(ask: str) -> None:
    fx = Effects()
    lists = [fx.sends, fx.deliveries, fx.operations]
    assert not fx
    {
        "send": lambda: fx.send(1, Ping()),
        "deliver": lambda: fx.deliver(BATCH),
        "save": lambda: fx.save("x", b""),
    }[ask]()
    assert fx
    fx.clear()
    assert not fx
    assert all(a is b for a, b in zip(lists, [fx.sends, fx.deliveries, fx.operations], strict=True))
    assert lists == [[], [], []]


def test_there_is_no_layer_below_a_protocol_on_its_own() -> None:
    with pytest.raises(RuntimeError, match="no layer below"):
        Effects().publish_below(PUBLICATION)


def test_room_is_unlimited_unless_the_driver_says_otherwise() -> None:
    fx = Effects()
    assert fx.room(1) > 2**40
    fx.room = {1: 10}.__getitem__
    assert fx.room(1) == 10
