"""Stacks: what is tagged, what passes between layers and when, and stacks inside stacks."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from epicast.core import (
    DATA,
    NEVER,
    AnyMessage,
    Effects,
    EventBatch,
    Group,
    InvariantViolation,
    Layered,
    Message,
    NodeId,
    Peer,
    Protocol,
    Publication,
    Recovered,
    Stack,
    handles,
)
from epicast.core import effects as fx_module
from epicast.core import stack as stack_module
from epicast.core.effects import Connect, Disconnect, Drop, Read, Save, SendAfterAppend, ViewChange
from tests.unit.core.probes import NODE, Note, Probe, batch_of

BATCH = batch_of(b"a", b"b")


def stack_of(*layers: Probe | Stack) -> Stack:
    return Stack(NODE, Random(1), layers)


def started(*layers: Probe | Stack, fx: Effects) -> Stack:
    stack = stack_of(*layers)
    stack.on_start(0, (Peer(2),), Recovered(), fx)
    for layer in flat(*layers):
        layer.log.clear()
    return stack


def flat(*layers: Any) -> list[Probe]:
    return [p for each in layers for p in (flat(*each.layers) if type(each) is Stack else [each])]


def sends(to: int, message: AnyMessage) -> Callable[..., None]:
    return lambda probe, now, subject, fx: fx.send(to, message, DATA)


# -- tagging -------------------------------------------------------------------------------------


def test_messages_carry_the_layer_they_come_from() -> None:
    fx = Effects()
    note = Note("x")
    stack = started(Probe(up=sends(5, note)), Probe(publish=sends(6, note)), fx=fx)
    stack.on_peer_up(0, 5, fx)
    stack.on_publish(0, (Publication(1, 1, BATCH),), fx)
    assert fx.sends == [(5, Layered(0, note), DATA), (6, Layered(1, note), DATA)]


def test_messages_reach_the_layer_they_name_in_order() -> None:
    log: list[Any] = []
    fx = Effects()
    stack = started(Probe("bottom", log), Probe("top", log), fx=fx)
    stack.on_messages(
        3, 9, (Layered(1, Note("a")), Layered(0, Note("b")), Layered(1, Note("c"))), fx
    )
    assert log == [
        ("top", "messages", (9, [Note("a")])),
        ("bottom", "messages", (9, [Note("b")])),
        ("top", "messages", (9, [Note("c")])),
    ]


class Handling(Protocol[None]):
    """Leaves it to its base class to call the handler."""

    def __init__(self) -> None:
        super().__init__(NODE, None, Random(1))
        self.log: list[str] = []

    @handles(Note)
    def _handle_note(self, now: int, source: NodeId, note: Note, fx: Effects) -> None:
        self.log.append(note.text)


class Counting(Handling):
    """Does more with messages than that."""

    def on_messages(
        self, now: int, source: NodeId, messages: Sequence[AnyMessage], fx: Effects
    ) -> None:
        self.log.append("counted")
        super().on_messages(now, source, messages, fx)


class Unexpected(Message):
    pass


def test_handlers_are_called_directly_unless_a_layer_takes_messages_itself() -> None:
    fx, handling, counting = Effects(), Handling(), Counting()
    stack = Stack(NODE, Random(1), (handling, counting))
    stack.on_start(0, (), Recovered(), fx)
    messages = (Layered(0, Note("a")), Layered(1, Note("b")), Layered(0, Unexpected()))
    stack.on_messages(0, 9, messages, fx)
    assert handling.log == ["a"] and counting.log == ["counted", "b"]
    (drop,) = fx.operations
    assert isinstance(drop, Drop) and (drop.reason, drop.peer) == ("unexpected Unexpected", 9)


@pytest.mark.parametrize("message", [Layered(2, Note("x")), Note("x")])
def test_a_message_for_no_layer_is_dropped_and_the_rest_handled(message: AnyMessage) -> None:
    fx = Effects()
    bottom = Probe()
    stack = started(bottom, Probe(), fx=fx)
    stack.on_messages(0, 9, (message, Layered(0, Note("y"))), fx)
    assert fx.operations == [Drop("no such layer", 9, 0, 0, 0)]
    assert bottom.log == [("probe", "messages", (9, [Note("y")]))]


def test_sends_after_an_append_are_tagged_too() -> None:
    fx = Effects()
    top = Probe(publish=lambda probe, now, _, fx: fx.send_after_append(4, Note("x"), DATA))
    stack = started(Probe(), top, fx=fx)
    stack.on_publish(0, (Publication(1, 1, BATCH),), fx)
    assert fx.operations == [SendAfterAppend(4, Layered(1, Note("x")), DATA)]


def test_reads_are_answered_to_the_layer_that_asked_with_its_own_token() -> None:
    fx = Effects()
    layers = [Probe(f"layer {i}", up=lambda p, now, _, fx: fx.read(1, 5, 100, 7)) for i in range(2)]
    layers[0].reactions["up"] = lambda p, now, peer, fx: (
        fx.read(1, 5, 100, 7),
        fx.neighbor_up(peer),
    )
    stack = started(*layers, fx=fx)
    stack.on_peer_up(0, 3, fx)
    first, second = (op for op in fx.operations if isinstance(op, Read))
    assert (first.stream, first.first, first.max_bytes) == (1, 5, 100)
    assert first.token != second.token
    stack.on_read(0, second.token, (BATCH,), fx)
    assert layers[1].log[-1] == ("layer 1", "read", (7, [BATCH]))
    assert ("layer 0", "read", (7, [BATCH])) not in layers[0].log
    stack.on_read(0, first.token, (), fx)
    assert layers[0].log[-1] == ("layer 0", "read", (7, []))


def test_saved_values_of_layers_do_not_meet() -> None:
    fx = Effects()

    def saves(value: bytes) -> Callable[..., None]:
        return lambda probe, now, _, fx: fx.save("epoch", value)

    stack_of(Probe(start=saves(b"low")), Probe(start=saves(b"high"))).on_start(
        0, (), Recovered(), fx
    )
    saved = {op.name: op.value for op in fx.operations if isinstance(op, Save)}
    assert len(saved) == 2
    layers = [Probe(), Probe()]
    recovered = Recovered(incarnation=4, log_ends={1: 9}, saved=saved | {"stray": b"?"})
    stack_of(*layers).on_start(0, (), recovered, Effects())
    assert layers[0].recovered == Recovered(4, {1: 9}, {"epoch": b"low"})
    assert layers[1].recovered == Recovered(4, {1: 9}, {"epoch": b"high"})


# -- between the layers ----------------------------------------------------------------------------


def test_neighbours_go_up_one_layer_at_a_time() -> None:
    log: list[Any] = []
    fx = Effects()
    up_and_on = {"up": lambda p, now, peer, fx: fx.neighbor_up(peer)}
    stack = started(
        Probe("a", log, **up_and_on), Probe("b", log, **up_and_on), Probe("c", log, **up_and_on),
        fx=fx,
    )  # fmt: skip
    stack.on_peer_up(0, 7, fx)
    assert log == [("a", "up", 7), ("b", "up", 7), ("c", "up", 7)]
    assert fx.operations == [ViewChange(7, True)] * 3


def test_connections_are_the_bottom_layers_business() -> None:
    fx = Effects()
    bottom, top = Probe(), Probe()
    stack = started(bottom, top, fx=fx)
    stack.on_peer_up(0, 7, fx)
    stack.on_peer_down(0, 7, fx)
    assert [stimulus for _, stimulus, _ in bottom.log] == ["up", "down"]
    assert top.log == []
    bottom.reactions["deadline"] = lambda p, now, _, fx: (fx.connect(Peer(8)), fx.disconnect(7))
    bottom.timers.set("go", 1)
    stack.on_timer(1, fx)
    assert fx.operations == [Connect(Peer(8)), Disconnect(7)]


@pytest.mark.parametrize("operation", ["connect", "disconnect"])
def test_a_higher_layer_may_not_connect(operation: str) -> None:
    fx = Effects()
    top = Probe(publish=lambda p, now, _, fx: getattr(fx, operation)(Peer(8)))
    stack = started(Probe(), top, fx=fx)
    with pytest.raises(RuntimeError, match=f"{operation}: only the bottom layer"):
        stack.on_publish(0, (Publication(1, 1, BATCH),), fx)


def test_deliveries_go_up_and_leave_at_the_top() -> None:
    fx = Effects()
    pass_on = {"delivery": lambda p, now, batch, fx: fx.deliver(batch)}
    bottom = Probe("a", messages=lambda p, now, _, fx: fx.deliver(BATCH))
    middle, top = Probe("b", **pass_on), Probe("c", **pass_on)
    stack = started(bottom, middle, top, fx=fx)
    stack.on_messages(0, 2, (Layered(0, Note("x")),), fx)
    assert middle.log == [("b", "delivery", BATCH)]
    assert top.log == [("c", "delivery", BATCH)]
    assert fx.deliveries == [BATCH]


def test_publications_go_down_one_layer_at_a_time() -> None:
    fx = Effects()
    publication = Publication(5, 3, BATCH)
    down = {"publish": lambda p, now, _, fx: fx.publish_below(publication)}
    bottom, middle, top = Probe("a"), Probe("b", **down), Probe("c", **down)
    stack = started(bottom, middle, top, fx=fx)
    stack.on_publish(0, (publication,), fx)
    assert top.log + middle.log + bottom.log == [
        ("c", "publish", [3]), ("b", "publish", [3]), ("a", "publish", [3])
    ]  # fmt: skip


def test_there_is_nothing_below_the_bottom() -> None:
    fx = Effects()
    bottom = Probe(publish=lambda p, now, _, fx: fx.publish_below(Publication(5, 3, BATCH)))
    stack = started(bottom, fx=fx)
    with pytest.raises(RuntimeError, match="no layer below"):
        stack.on_publish(0, (Publication(1, 1, BATCH),), fx)


def test_what_passes_between_layers_keeps_the_order_it_was_said_in() -> None:
    log: list[Any] = []
    fx = Effects()

    def talkative(probe: Probe, now: int, subject: object, fx: Effects) -> None:
        fx.neighbor_up(1)
        fx.deliver(BATCH)
        fx.neighbor_down(1)
        fx.neighbor_up(2)

    def answers(probe: Probe, now: int, peer: int, fx: Effects) -> None:
        fx.publish_below(Publication(peer, peer, BATCH))

    stack = started(
        Probe("low", log, messages=talkative, publish=lambda p, now, _, fx: fx.deliver(BATCH)),
        Probe("high", log, up=answers),
        fx=fx,
    )
    stack.on_messages(0, 9, (Layered(0, Note("x")),), fx)
    assert [(who, what) for who, what, _ in log[1:]] == [
        ("high", "up"), ("high", "delivery"), ("high", "down"), ("high", "up"),
        # Said while the above was being worked off, so it comes after it:
        ("low", "publish"), ("low", "publish"), ("high", "delivery"), ("high", "delivery"),
    ]  # fmt: skip


def test_one_message_is_settled_before_the_next_is_handled() -> None:
    log: list[Any] = []
    fx = Effects()
    stack = started(
        Probe("low", log, messages=lambda p, now, _, fx: fx.neighbor_up(4)),
        Probe("high", log),
        fx=fx,
    )
    stack.on_messages(0, 9, (Layered(0, Note("a")), Layered(1, Note("b"))), fx)
    assert [(who, what) for who, what, _ in log] == [
        ("low", "messages"), ("high", "up"), ("high", "messages")
    ]  # fmt: skip


def test_every_layer_is_started_before_any_hears_of_another() -> None:
    log: list[Any] = []
    bottom = Probe("low", log, start=lambda p, now, _, fx: fx.neighbor_up(4))
    stack_of(bottom, Probe("high", log)).on_start(0, (Peer(2),), Recovered(), Effects())
    assert log == [("low", "start", [2]), ("high", "start", [2]), ("high", "up", 4)]


def test_stopping_goes_from_the_top_down() -> None:
    log: list[Any] = []
    fx = Effects()
    stack = started(Probe("low", log), Probe("high", log), fx=fx)
    stack.on_stop(0, fx)
    assert log == [("high", "stop", None), ("low", "stop", None)]


def test_layers_that_go_round_in_circles_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "MAX_BETWEEN", 50)
    fx = Effects()
    bottom = Probe(publish=lambda p, now, _, fx: fx.deliver(BATCH))
    top = Probe(delivery=lambda p, now, _, fx: fx.publish_below(Publication(1, 1, BATCH)))
    stack = started(bottom, top, fx=fx)
    with pytest.raises(InvariantViolation, match=r"more than 50 events .* layer \d, Probe"):
        bottom.reactions["up"] = lambda p, now, _, fx: fx.deliver(BATCH)
        stack.on_peer_up(0, 2, fx)
    assert stack.between == []


def test_only_the_top_layer_may_deliver_after_an_append() -> None:
    fx = Effects()
    after = {"messages": lambda p, now, _, fx: fx.deliver_after_append(BATCH)}
    stack = started(Probe(**after), Probe(**after), fx=fx)
    stack.on_messages(0, 2, (Layered(1, Note("x")),), fx)
    assert fx.operations == [fx_module.DeliverAfterAppend(BATCH)]
    with pytest.raises(RuntimeError, match="only the top layer"):
        stack.on_messages(0, 2, (Layered(0, Note("x")),), fx)


# -- everything else -------------------------------------------------------------------------------


def test_the_stacks_timer_is_the_earliest_of_its_layers() -> None:
    fx = Effects()
    bottom, top = Probe("low"), Probe("high")
    stack = started(bottom, top, fx=fx)
    assert stack.timers.earliest == NEVER
    bottom.timers.set("a", 10)
    top.timers.set("b", 5)
    assert stack.next_deadline() == 5
    stack.on_timer(5, fx)
    assert (top.log, bottom.log) == ([("high", "deadline", "b")], [])
    assert stack.next_deadline() == 10


def test_storage_and_links_are_told_to_all_layers() -> None:
    fx = Effects()
    layers = [Probe(), Probe()]
    stack = started(*layers, fx=fx)
    stack.on_appended(0, 1, 5, fx)
    stack.on_append_failed(0, 1, 6, "disk full", fx)
    stack.on_ready(0, 3, 1000, fx)
    for layer in layers:
        assert [(what, subject) for _, what, subject in layer.log] == [
            ("appended", (1, 5)), ("append failed", (1, 6, "disk full")), ("ready", (3, 1000))
        ]  # fmt: skip


def test_the_driver_may_change_clock_room_and_buffer_at_any_time() -> None:
    seen: list[tuple[int, int]] = []
    fx = Effects()
    top = Probe(publish=lambda p, now, _, fx: seen.append((fx.wall_offset, fx.room(2))))
    stack = started(Probe(), top, fx=fx)
    for offset, room in [(10, 100), (20, 200)]:
        fx.wall_offset, fx.room = offset, lambda peer, room=room: room + peer
        stack.on_publish(0, (Publication(1, 1, BATCH),), fx)
    assert seen == [(10, 102), (20, 202)]
    other = Effects()
    top.reactions["publish"] = sends(3, Note("x"))
    stack.on_publish(0, (Publication(1, 1, BATCH),), other)
    assert (len(fx.sends), len(other.sends)) == (0, 1)


def test_asking_a_stack() -> None:
    fx = Effects()
    bottom, top = Probe(), Probe()
    stack = started(bottom, top, fx=fx)
    bottom.peers = [5, 6, 7]
    bottom.room, top.room = 10, 20
    assert stack.sample(2) == [5, 6]  # the top has no view: it asks below
    assert stack.neighbors() == [5, 6, 7]
    assert stack.publish_room() == 10
    assert stack.statistics() == {"probe0.peers": 3, "probe1.peers": 0}
    assert started(bottom.__class__(), fx=fx).statistics() == {"probe.peers": 0}
    stack.check_invariants()
    assert [layer.log for layer in (bottom, top)] == [[("probe", "invariants", None)]] * 2


def test_a_stack_needs_a_layer() -> None:
    with pytest.raises(ValueError, match="at least one layer"):
        stack_of()


# -- stacks as layers ------------------------------------------------------------------------------


def test_an_inner_stack_keeps_its_outer_tag() -> None:
    fx = Effects()
    inner = [Probe("i0"), Probe("i1", messages=sends(4, Note("out")))]
    stack = started(Probe("bottom"), stack_of(*inner), Probe("top"), fx=fx)
    stack.on_messages(0, 9, (Layered(1, Layered(1, Note("in"))),), fx)
    assert inner[1].log == [("i1", "messages", (9, [Note("in")]))]
    assert fx.sends == [(4, Layered(1, Layered(1, Note("out"))), DATA)]
    assert not fx.operations


def test_everything_passes_through_an_inner_stack() -> None:
    log: list[Any] = []
    fx = Effects()
    onwards = {
        "up": lambda p, now, peer, fx: fx.neighbor_up(peer),
        "down": lambda p, now, peer, fx: fx.neighbor_down(peer),
        "delivery": lambda p, now, batch, fx: fx.deliver(batch),
        "publish": lambda p, now, _, fx: fx.publish_below(Publication(1, 1, BATCH)),
        "messages": lambda p, now, _, fx: fx.deliver(BATCH),
    }
    bottom = Probe("bottom", log, **(onwards | {"publish": lambda p, now, _, fx: None}))
    inner = [Probe("i0", log, **onwards), Probe("i1", log, **onwards)]
    stack = started(bottom, stack_of(*inner), Probe("top", log, **onwards), fx=fx)

    stack.on_peer_up(0, 7, fx)
    stack.on_peer_down(0, 7, fx)
    stack.on_messages(0, 9, (Layered(0, Note("x")),), fx)
    stack.on_publish(0, (Publication(1, 1, BATCH),), fx)
    names = ["bottom", "i0", "i1", "top"]
    assert [(who, what) for who, what, _ in log] == [
        *((who, "up") for who in names),
        *((who, "down") for who in names),
        *(zip(names, ["messages", "delivery", "delivery", "delivery"], strict=True)),
        *((who, "publish") for who in reversed(names)),
    ]
    assert fx.deliveries == [BATCH]
    inner[0].peers = []
    bottom.peers = [3, 4]
    assert inner[1].sample(5) == [3, 4]  # through the inner stack down to the outer bottom


def test_timers_reads_and_saves_through_two_levels() -> None:
    fx = Effects()
    innermost = Probe(
        "i1",
        deadline=lambda p, now, _, fx: (fx.read(1, 1, 10, 3), fx.save("x", b"1")),
    )
    layers = (Probe(), stack_of(Probe(), innermost))
    stack = started(*layers, fx=fx)
    innermost.timers.set("t", 4)
    assert stack.next_deadline() == 4
    stack.on_timer(4, fx)
    assert innermost.log == [("i1", "deadline", "t")]
    read, save = fx.operations
    assert isinstance(read, Read) and isinstance(save, Save)
    stack.on_read(5, read.token, (BATCH,), fx)
    assert innermost.log[-1] == ("i1", "read", (3, [BATCH]))
    again = Probe()
    stack_of(Probe(), stack_of(Probe(), again)).on_start(
        0, (), Recovered(saved={save.name: save.value}), Effects()
    )
    assert again.recovered.saved == {"x": b"1"}


def test_groups_and_addresses_pass_untouched() -> None:
    fx = Effects()

    def asks(probe: Probe, now: int, _: object, fx: Effects) -> None:
        fx.join(Group(1))
        fx.leave(Group(1))
        fx.know(Peer(9))
        fx.append(BATCH)

    stack = started(Probe(), Probe(publish=asks), fx=fx)
    stack.on_publish(0, (Publication(1, 1, BATCH),), fx)
    assert fx.operations == [
        fx_module.Join(Group(1)), fx_module.Leave(Group(1)), fx_module.Know(Peer(9)),
        fx_module.Append(BATCH),
    ]  # fmt: skip


def test_behaviour_does_not_depend_on_how_messages_were_gathered() -> None:
    def run(chunks: list[list[AnyMessage]]) -> tuple[list[Any], list[EventBatch]]:
        log: list[Any] = []
        fx = Effects()
        deliver = {"messages": lambda p, now, subject, fx: fx.deliver(BATCH)}
        pass_on = {"delivery": lambda p, now, batch, fx: fx.deliver(batch)}
        stack = started(Probe("low", log, **deliver), Probe("high", log, **pass_on), fx=fx)
        for chunk in chunks:
            stack.on_messages(0, 9, chunk, fx)
        return log, fx.deliveries

    messages = [Layered(i % 2, Note(str(i))) for i in range(6)]
    assert run([messages]) == run([[message] for message in messages])
