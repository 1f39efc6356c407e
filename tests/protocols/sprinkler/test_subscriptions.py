"""The subscriber's side of a window, and who serves whom when things move."""

from random import Random

from epicast.core import Peer
from epicast.core.effects import Notice, TopicDelivery
from epicast.protocols.sprinkler import AgentConfig, Restarted, Sidecar
from epicast.protocols.sprinkler.messages import (
    Attach,
    Consumed,
    Events,
    Notify,
    Publish,
    Published,
    RefusalCode,
    Refused,
    Restart,
    Subscribe,
    Unsubscribe,
    Welcome,
)
from epicast.protocols.sprinkler.relays import Relays
from epicast.protocols.sprinkler.rooms import MESSAGE_BYTES
from epicast.protocols.sprinkler.subscriptions import Subscription
from tests.protocols.single import Single
from tests.protocols.sprinkler.parts import (
    STREAM,
    X,
    Y,
    Z,
    agent,
    counter,
    effects,
    events,
    numbers,
    publish,
    welcome,
)

CLIENT = 5


def delivered(single: Single, number: int = 1) -> list[int]:
    return numbers(
        [op.batch for op in single.fx.operations if isinstance(op, TopicDelivery)
         and op.topic == number]
    )  # fmt: skip


def notices(single: Single) -> list[object]:
    return [op.value for op in single.fx.operations if isinstance(op, Notice) and op.topic]


def reports(subscription: Subscription) -> list[int]:
    fx = effects()
    subscription.report(Y, fx)
    return [message.seq for _, message, _ in fx.sends]


# -- windows ----------------------------------------------------------------------------------


def test_a_quarter_of_the_window_is_worth_a_report():
    size = events(1).wire_size()
    subscription = Subscription(1, STREAM, 1, 0, 16 * size)
    for seq in range(1, 9):
        subscription.take(events(seq))
    subscription.consumed(3)
    assert reports(subscription) == []
    subscription.consumed(4)
    assert reports(subscription) == [4]
    assert reports(subscription) == []


def test_what_was_had_already_is_reported_too():
    """It takes room at the sender: an earlier subscription had sent it, this one sends it again."""
    size = events(1, 4).wire_size()
    subscription = Subscription(1, STREAM, 1, 0, 2 * size)
    subscription.take(events(1, 4))
    subscription.consumed(4)
    subscription.wanted()  # a new subscription, behind 4; what follows is of the old one's making
    assert subscription.take(events(1, 4)) is None
    assert reports(subscription) == [4]


def test_what_was_had_already_takes_no_room_on_the_way_to_the_subscriber():
    """Who is given nothing of it reports nothing of it, and would be waited for without end."""
    subscription = Subscription(1, STREAM, 1, 0, 16 * events(1).wire_size())
    subscription.take(events(1, 3))
    for _ in range(20):
        assert subscription.take(events(1, 2)) is None
    assert subscription.in_flight == events(1, 3).wire_size()
    assert numbers([subscription.take(events(2, 3))]) == [4]
    assert subscription.in_flight == events(1, 3).wire_size() + events(4).wire_size()
    subscription.consumed(4)
    assert subscription.in_flight == 0
    assert reports(subscription) == [4]  # all that came, not only what was new


def test_trifles_are_reported_with_the_next_poll():
    """What the proxy sent may have been large, and little of it new: it waits for this report."""
    us = behind(100)
    us.receive(Y, Events(2, (events(1, 3),)))
    us.protocol.consumed(2, 3)
    us.call("on_timer")
    assert us.sent(Consumed) == []
    us.fire("poll")
    assert us.sent(Consumed) == [(Y, Consumed(2, 1, 3))]
    us.fire("poll")
    assert us.sent(Consumed) == []


def test_a_late_word_about_an_earlier_epoch_consumes_nothing_of_this_one():
    subscription = Subscription(1, STREAM, 1, 0, 1000)
    subscription.take(events(1, 90))
    subscription.restart(2, 0)
    subscription.consumed(90)
    subscription.take(events(1, epoch=2))
    subscription.consumed(0)
    assert subscription.in_flight > 0
    assert subscription.next == 2


def test_a_gap_or_another_epoch_is_not_taken():
    subscription = Subscription(1, STREAM, 1, 5, 1000)
    assert subscription.take(events(7)) is None
    assert subscription.take(events(6, epoch=2)) is None
    assert numbers([subscription.take(events(4, 4))]) == [6, 7]


# -- restarts ---------------------------------------------------------------------------------


def behind(seq: int) -> Single:
    """An agent whose subscription is served by the proxy, which is at `seq`."""
    us = agent(seq=seq)
    us.protocol.subscribe(2, STREAM, 1, 0, 1 << 20)
    us.call("on_timer")
    assert [m.after for _, m in us.sent(Subscribe)] == [0]
    return us


def test_an_epoch_that_ends_is_told_once():
    """The proxy answers each of two subscriptions made before the first answer came."""
    us = behind(100)
    us.receive(Y, Events(2, (events(1, 10),)))
    us.receive(Y, Restart(2, STREAM, 2, 0))
    assert notices(us) == [Restarted(STREAM, 2, 0)]
    us.receive(Y, Events(2, (events(1, 3, epoch=2),)))
    assert delivered(us, 2) == [1, 2, 3]
    us.receive(Y, Restart(2, STREAM, 2, 0), Events(2, (events(1, 3, epoch=2),)))
    assert notices(us) == [] and delivered(us, 2) == []


def test_a_restart_of_an_older_epoch_is_none():
    us = behind(100)
    us.receive(Y, Restart(2, STREAM, 3, 0), Restart(2, STREAM, 2, 0))
    assert notices(us) == [Restarted(STREAM, 3, 0)]


def test_what_retention_dropped_is_skipped_and_told():
    us = behind(100)
    us.receive(Y, Events(2, (events(1, 3),)), Restart(2, STREAM, 1, 50), Events(2, (events(51),)))
    assert notices(us) == [Restarted(STREAM, 1, 50)]
    assert delivered(us, 2) == [1, 2, 3, 51]


# -- an agent between its proxy and itself ----------------------------------------------------


def test_an_agent_takes_over_from_the_proxy_when_what_comes_next_is_at_hand():
    us = behind(10)
    us.receive(6, Notify((counter(13),), (events(11, 3),)))
    us.receive(Y, Events(2, (events(1, 10),)))
    assert us.sent(Unsubscribe) == [(Y, Unsubscribe(2))]
    assert delivered(us, 2) == list(range(1, 14))  # 11 to 13 from its own buffer, at once


def test_a_subscription_that_falls_out_of_the_buffer_goes_to_the_proxy():
    us = agent(buffer_bytes=300)
    us.protocol.subscribe(2, STREAM, 1, 0, 1)
    us.call("on_timer")
    for seq in range(1, 20):
        us.receive(6, Notify((counter(seq),), (events(seq),)))
    us.protocol.consumed(2, 1)
    us.call("on_timer")
    assert [(m.number, m.after) for _, m in us.sent(Subscribe)] == [(2, 1)]


def test_after_a_reconnection_what_was_asked_of_nobody_is_asked_anew():
    """While it was detached there was nobody to fall back on."""
    us = agent()
    us.receive(6, Notify((counter(10),), ()))
    us.down(Y)
    us.fire("overdue")
    us.fire("connect")
    us.up(Y)
    welcome(us, Y, 10)
    asked = [m for _, m in us.sends if type(m).__name__ == "Request"]
    us.receive(6, Notify((counter(11),), ()))
    asked += [m for _, m in us.sends if type(m).__name__ == "Request"]
    assert asked and asked[0].first == 1


# -- sidecars ---------------------------------------------------------------------------------


def sidecar(seq: int = 0) -> Single:
    single = Single(Sidecar(Peer(1), AgentConfig(), Random(1)))
    single.start(Y)
    single.receive(CLIENT, Attach(Peer(CLIENT), False))
    assert single.sent(Welcome) == []  # it has nothing to say yet
    single.up(Y)
    welcome(single, Y, seq)
    assert [to for to, _ in single.sent(Welcome)] == [CLIENT]
    return single


def subscribed(seq: int = 0, window: int = 1 << 20) -> Single:
    us = sidecar(seq)
    us.receive(CLIENT, Subscribe(1, STREAM, 0, seq, window))
    us.call("on_timer")
    return us


def test_a_sidecar_hands_events_on_under_the_clients_own_number():
    us = subscribed()
    us.receive(6, Notify((counter(2),), (events(1, 2),)))
    [(to, message)] = us.sent(Events)
    assert (to, message.number, numbers(message.batches)) == (CLIENT, 1, [1, 2])


def test_a_sidecar_keeps_to_its_clients_window():
    us = subscribed(window=events(1).wire_size())
    us.receive(6, Notify((counter(2),), (events(1), events(2))))
    assert [numbers(m.batches) for _, m in us.sent(Events)] == [[1]]
    us.receive(CLIENT, Consumed(1, 1, 1))
    us.call("on_timer")
    assert [numbers(m.batches) for _, m in us.sent(Events)] == [[2]]


def test_a_sidecar_sends_what_the_link_takes_and_goes_on_when_there_is_room():
    us, size = subscribed(), events(1).wire_size() + MESSAGE_BYTES
    five = tuple(events(seq) for seq in range(1, 6))
    fx = effects(2 * size)
    us.protocol.on_messages(0, 6, (Notify((counter(5),), five),), fx)
    assert [numbers(m.batches) for _, m, _ in fx.sends] == [[1], [2]]
    fx = effects(2 * size)
    us.protocol.on_ready(0, CLIENT, 2 * size, fx)
    assert [numbers(m.batches) for _, m, _ in fx.sends] == [[3], [4]]


def test_what_comes_from_the_proxy_and_finds_no_room_is_asked_for_again_when_there_is():
    us, size = sidecar(100), events(1).wire_size() + MESSAGE_BYTES
    us.receive(CLIENT, Subscribe(1, STREAM, 1, 0, 1 << 20))
    us.call("on_timer")
    [(_, asked)] = us.sent(Subscribe)
    us.protocol._rooms.left(CLIENT, effects(9 * size))  # an idle link has room for more than this
    fx = effects(size)
    us.protocol.on_messages(0, Y, (Events(asked.number, (events(1), events(2), events(3))),), fx)
    sent = [message for _, message, _ in fx.sends]
    assert [numbers(m.batches) for m in sent if isinstance(m, Events)] == [[1]]
    assert [m for m in sent if not isinstance(m, Events)] == [Unsubscribe(asked.number)]
    us.call("on_ready", CLIENT, 9 * size)
    assert [(to, m.number, m.after) for to, m in us.sent(Subscribe)] == [(Y, asked.number, 1)]


def test_what_a_client_had_from_an_earlier_subscription_is_not_sent_again():
    us = subscribed()
    us.receive(6, Notify((counter(4),), (events(1, 4),)))
    us.receive(CLIENT, Subscribe(1, STREAM, 1, 0, 1 << 20), Consumed(1, 1, 3))
    us.call("on_timer")
    assert [numbers(m.batches) for _, m in us.sent(Events)] == [[4]]


def test_publications_of_a_client_pass_through_a_sidecar_and_answers_back():
    us = subscribed()
    us.receive(CLIENT, publish(1))
    [(to, onward)] = us.sent(Publish)
    assert (to, onward.path) == (Y, (CLIENT,))
    us.receive(Y, Published(STREAM, 99, (CLIENT,), ((1, 1),)))
    assert us.sent(Published) == [(CLIENT, Published(STREAM, 99, (), ((1, 1),)))]
    refused = Refused(STREAM, 99, (CLIENT,), 2, 2, RefusalCode.INVALID, "why")
    us.receive(Y, refused)
    [(to, message)] = us.sent(Refused)
    assert (to, message.path, message.first, message.detail) == (CLIENT, (), 2, "why")


def test_a_client_that_is_gone_leaves_nothing_behind():
    us = subscribed()
    us.down(CLIENT)
    us.receive(6, Notify((counter(2),), (events(1, 2),)))
    assert us.sent(Events) == []
    assert us.protocol.statistics()["subscriptions"] == 0


# -- relays -----------------------------------------------------------------------------------


def test_a_relay_notes_the_way_and_goes_to_nobody_noted():
    relays, fx = Relays(3), effects()
    message = Publish(STREAM, 99, 1, 0, "", (CLIENT, X), events(1))
    relays.forward(Z, message, (X, Z, Y), fx)
    [(to, onward, _)] = fx.sends
    assert (to, onward.path) == (Y, (CLIENT, X, Z))


def test_a_relay_that_knows_no_way_says_so():
    for towards, path, room in (((X,), (X,), 9999), ((Y,), (1, 2, 3), 9999), ((Y,), (), 10)):
        relays, fx = Relays(3), effects(room)
        relays._rooms.left(Y, effects(99_999))
        relays.forward(Z, Publish(STREAM, 99, 1, 0, "", path, events(1)), towards, fx)
        [(to, message, _)] = fx.sends
        assert (to, message.code, message.path) == (Z, RefusalCode.BUSY, path)


def test_an_answer_without_a_way_back_is_dropped():
    fx = effects()
    Relays(3).back(Published(STREAM, 99, (), ((1, 1),)), fx)
    assert fx.sends == []
