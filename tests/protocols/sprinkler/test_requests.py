"""A proxy's answers to agents: what is at hand, what is in history, what there is room for."""

from epicast.core import Effects
from epicast.core.effects import Drop, Read
from epicast.protocols.sprinkler import ProxyConfig
from epicast.protocols.sprinkler.messages import Answer, Request
from epicast.protocols.sprinkler.requests import Requests
from epicast.protocols.sprinkler.rooms import MESSAGE_BYTES, Rooms
from epicast.protocols.sprinkler.states import StreamState
from tests.protocols.sprinkler.parts import (
    INFO,
    STREAM,
    counter,
    effects,
    events,
    numbers,
    stabilise,
)

PEER, OTHER = 5, 6
SIZE = events(1).wire_size()


def requests(end: int = 20, recent: int = 1 << 20, **settings: int) -> Requests:
    """Of a proxy with one event per batch."""
    state = StreamState(INFO, 1, 0, recent)
    for seq in range(1, end + 1):
        state.take(events(seq))
    stabilise(state, end)
    return Requests(ProxyConfig(**settings), {STREAM: state})


def ask(asked: Requests, first: int, last: int, fx: Effects, peer: int = PEER) -> None:
    asked.handle(peer, Request(STREAM, 1, first, last), fx)


def answers(fx: Effects) -> list[tuple[int, int, list[int]]]:
    """Of each answer, what it is about and what is in it."""
    assert all(isinstance(message, Answer) for _, message, _ in fx.sends)
    return [(m.first, m.last, numbers(m.batches)) for _, m, _ in fx.sends]


def test_what_is_at_hand_is_sent_at_once():
    fx = effects()
    ask(requests(), 5, 7, fx)
    assert answers(fx) == [(5, 7, [5, 6, 7])]
    assert fx.sends[0][1].counter == counter(20)


def test_a_long_answer_is_cut_and_says_so():
    fx = effects()
    ask(requests(answer_bytes=3 * SIZE), 5, 20, fx)
    assert answers(fx) == [(5, 7, [5, 6, 7])]


def test_what_is_not_at_hand_is_read():
    asked, fx = requests(recent=3 * SIZE), effects()
    ask(asked, 2, 4, fx)
    [read] = fx.operations
    assert isinstance(read, Read)
    assert (read.stream, read.first) == (STREAM, 2)
    fx = effects()
    asked.on_read(read.token, [events(1, 6)], fx)
    assert answers(fx) == [(2, 4, [2, 3, 4])]


def test_history_that_cannot_be_read_is_a_hole():
    asked, fx = requests(recent=0), effects()
    ask(asked, 2, 4, fx)
    token = fx.operations[0].token
    fx = effects()
    asked.on_read(token, [], fx)
    assert answers(fx) == [(2, 4, [])]


def test_what_is_not_there_yet_or_of_another_epoch_is_answered_with_nothing():
    asked, fx = requests(), effects()
    ask(asked, 21, 30, fx)
    asked.handle(PEER, Request(STREAM, 2, 1, 5), fx)
    assert answers(fx) == [(21, 30, []), (1, 5, [])]


def test_nonsense_is_dropped():
    asked, fx = requests(), effects()
    for nonsense in (Request(8, 1, 1, 2), Request(STREAM, 1, 0, 2), Request(STREAM, 1, 3, 2)):
        asked.handle(PEER, nonsense, fx)
    assert [type(op) for op in fx.operations] == [Drop] * 3
    assert not fx.sends


def test_answers_wait_for_room_in_the_order_they_were_asked_for():
    """The room of the link does not shrink during a step, so what was sent in it is subtracted."""
    room = 3 * SIZE + 2 * MESSAGE_BYTES
    asked, fx = requests(), effects(room)
    for first in (1, 3, 5):
        ask(asked, first, first + 1, fx)
    ask(asked, 9, 9, fx, OTHER)  # nobody waits for another's link
    assert answers(fx) == [(1, 2, [1, 2]), (3, 3, [3]), (9, 9, [9])]
    fx = effects(room)
    asked.ready(PEER, fx)
    assert answers(fx) == [(5, 6, [5, 6])]
    fx = effects(room)
    asked.ready(PEER, fx)
    ask(asked, 7, 7, fx)
    assert answers(fx) == [(7, 7, [7])]


def test_what_was_read_waits_too_if_the_room_is_taken_meanwhile():
    asked, fx = requests(recent=0), effects(5 * SIZE)
    ask(asked, 2, 4, fx)
    first_read = fx.operations[0].token
    fx = effects(0)
    asked.on_read(first_read, [events(seq) for seq in (2, 3, 4)], fx)
    assert not fx.sends
    fx = effects(5 * SIZE)
    asked.ready(PEER, fx)
    fx_of_answer = effects(5 * SIZE)
    asked.on_read(fx.operations[0].token, [events(seq) for seq in (2, 3, 4)], fx_of_answer)
    assert answers(fx_of_answer) == [(2, 4, [2, 3, 4])]


def test_only_so_many_wait_and_none_for_who_is_gone():
    asked, full = requests(), effects(0)
    for _ in range(300):
        ask(asked, 1, 1, full)
    assert [op.reason for op in full.operations] == ["too many requests"] * 44
    asked.forget(PEER)
    fx = effects()
    asked.ready(PEER, fx)
    assert not fx


def test_what_is_too_large_for_any_queue_goes_when_the_queue_is_empty():
    rooms, large = Rooms(), [events(1, size=500)]
    assert rooms.left(PEER, effects(200)) == 200
    assert rooms.fitting(PEER, large, 199) == []
    assert rooms.take_held_up() == [PEER]
    assert rooms.fitting(PEER, large, 200) == large
    two = [events(1), events(2)]
    assert rooms.fitting(PEER, two, SIZE + MESSAGE_BYTES) == two[:1]
    assert rooms.take_held_up() == []


def test_what_found_no_room_because_of_its_own_step_is_tried_again():
    """The link was empty when the step began, so it will not say that it has room again."""
    state = StreamState(INFO, 1, 0, 1 << 20)
    state.take(events(1))
    state.take(events(2, size=5000))
    stabilise(state, 2)
    asked, fx = Requests(ProxyConfig(), {STREAM: state}), effects(1000)
    ask(asked, 1, 1, fx)
    ask(asked, 2, 2, fx)
    assert answers(fx) == [(1, 1, [1])]
    fx = effects(1000)
    asked.retry(fx)
    assert answers(fx) == [(2, 2, [2])]
