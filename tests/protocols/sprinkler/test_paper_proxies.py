"""Section 3.1 of the paper, Figures 1 and 2: between proxies.

Where the printed rule loses events, a test shows what it would do and that ours does not.
"""

from epicast.protocols.sprinkler.messages import (
    Advertisement,
    Events,
    Publish,
    Published,
    Subscribe,
    Tail,
    Unsubscribe,
)
from tests.protocols.harness import MS, SECOND
from tests.protocols.sprinkler.parts import (
    STREAM,
    X,
    Y,
    Z,
    appended,
    attach,
    counter,
    events,
    numbers,
    proxy,
    publish,
    store,
)
from tests.protocols.sprinkler.world import World

REGIONS = """
name = "figure2"
[regions.x]
proxy = "x:1"
[regions.y]
proxy = "y:1"
[regions.z]
proxy = "z:1"
[streams.s]
owner = "y"
[[links]]
from = "y"
to = "z"
latency = "15ms"
[[links]]
from = "x"
to = "y"
latency = "15ms"
[[links]]
from = "x"
to = "z"
latency = "15ms"
"""


def take(single, source, batch):
    single.receive(source, Events(1, (batch,)))
    store(single)


def test_a_subscription_carries_the_subscribers_own_counter():
    """Printed: `Subscribe(p', s, cnt^s)` with the advertised counter, here 100: what the late
    proxy has missed, 1 to 100, would never be sent."""
    late = proxy(Z)
    late.receive(Y, Advertisement((counter(100),)))
    [(to, message)] = late.sent(Subscribe)
    assert (to, message.after) == (Y, 0)


def test_a_late_region_gets_the_beginning():
    world = World(REGIONS, 1)
    publisher = world.client("y", "y/p")
    world.simulation.crash(world.geo.proxies["z"])
    for _ in range(20):
        world.publish(publisher.node, "s", [b""] * 5)
        world.run(100 * MS)
    assert world.geo.heads("x") == {"s": 100}
    world.geo.restart(world.geo.proxies["z"])
    world.agent("z", "z/a").subscribe(1, "s", 1 << 20)
    world.drain()
    assert world.auditor.delivered == 100


def test_figure_2_when_the_link_to_the_owner_goes_down_another_proxy_takes_its_place():
    world = World(REGIONS, 1)
    publisher = world.client("y", "y/p")
    world.agent("z", "z/a").subscribe(1, "s", 1 << 20)
    world.run(SECOND)
    world.publish(publisher.node, "s", [b""] * 3)  # "events up to 3 have been published"
    world.run(2 * SECOND)
    z, y, x = (world.geo.proxies[name].id for name in "zyx")
    assert world.geo.proxy("z").progress()["s"][1] == y

    def cut(source, target):
        return {source, target} == {y, z}

    world.simulation.network.cut(cut)
    for _ in range(30):
        world.publish(publisher.node, "s", [b""])
        world.run(100 * MS)
    counter_of_z, source_of_z = world.geo.proxy("z").progress()["s"]
    assert source_of_z == x
    assert world.geo.proxy("x").progress()["s"][1] == y  # "X continues to receive from Y"
    assert counter_of_z.seq > 20  # long before the cut is mended, or even noticed
    world.drain()


def test_the_source_died_ahead_of_us_and_nobody_is_further_than_it_was():
    """Printed: 100 > expects.seq (100) + C / (T - t) never holds, and we stay at 90 for ever."""
    us = proxy(Z)
    us.receive(Y, Advertisement((counter(100),)))
    take(us, Y, events(1, 90))
    us.down(Y)
    us.now += 50 * MS
    us.receive(X, Advertisement((counter(100),)))
    [(to, message)] = us.sent(Subscribe)
    assert (to, message.after) == (X, 90)
    take(us, X, events(91, 10))
    assert us.protocol.progress()["s"][0].seq == 100


def test_a_source_that_falls_silent_is_as_good_as_dead():
    us = proxy(Z)
    us.receive(Y, Advertisement((counter(100),)))
    take(us, Y, events(1, 90))
    for _ in range(20):  # Y says nothing any more, without the connection breaking
        us.wait(100 * MS)
        us.receive(X, Advertisement((counter(100),)))
        if us.sent(Subscribe):
            break
    assert [to for to, _ in us.sent(Subscribe)] == [X]


def test_nobody_is_followed_who_is_not_connected():
    """What was sent before the connection broke may come after that was told. A subscription sent
    in answer would be lost unnoticed, while later advertisements make the source look fine."""
    us = proxy(Z)
    us.down(Y)
    us.receive(Y, Advertisement((counter(100),)))
    assert us.sends == []
    us.fire("connect")
    us.up(Y)
    us.receive(Y, Advertisement((counter(100),)))
    assert [to for to, _ in us.sent(Subscribe)] == [Y]


def test_two_advertisements_in_one_instant_divide_nothing_by_zero():
    us = proxy(Z)
    us.receive(Y, Advertisement((counter(10),)))
    us.receive(X, Advertisement((counter(1_000_000),)))
    assert us.sent(Subscribe) == []  # and do not make it switch either


def test_the_margin_needed_to_switch_shrinks_with_the_time_since_the_source_was_heard_of():
    """C is 100 events times seconds: 400 events are enough after 250 ms, 250 after 400."""
    for ahead, switches in ((400, 0.25), (250, 0.4)):
        us = proxy(Z)
        us.receive(X, Advertisement((counter(10),)))
        us.now += 210 * MS
        us.receive(Y, Advertisement((counter(10 + ahead),)))
        assert us.sent(Subscribe) == []
        while not us.sent(Subscribe):
            us.fire("sources")
        assert us.now == switches * SECOND
        assert [to for to, _ in us.sent(Unsubscribe)] == [X]
        assert [to for to, _ in us.sent(Subscribe)] == [Y]


def test_every_advertisement_of_the_source_refreshes_what_is_expected():
    us = proxy(Z)
    us.receive(X, Advertisement((counter(10),)))
    us.now += 240 * MS
    us.receive(X, Advertisement((counter(10),)))
    us.now += 10 * MS
    us.receive(Y, Advertisement((counter(4011),)))
    us.wait(100 * MS)
    assert us.sent(Subscribe) == []


def test_a_source_that_is_cut_off_itself_is_left_for_one_that_is_further():
    """Y advertises, but stands still. A margin of events would never be reached by a stream that
    has one event a minute."""
    us = proxy(Z)
    us.receive(X, Advertisement((counter(90),)))
    take(us, X, events(1, 90))
    for _ in range(10):
        us.receive(X, Advertisement((counter(90),)))
        us.receive(Y, Advertisement((counter(91),)))
        us.wait(100 * MS)
        if us.sent(Subscribe):
            break
    assert [(to, m.after) for to, m in us.sent(Subscribe)] == [(Y, 90)]


def test_a_source_that_is_merely_a_little_behind_is_kept():
    us = proxy(Z)
    us.receive(Y, Advertisement((counter(90),)))
    take(us, Y, events(1, 90))
    for seq in range(91, 200):
        us.now += 50 * MS
        us.receive(X, Advertisement((counter(seq),)))
        us.wait(50 * MS)
        assert us.sent(Subscribe) == []
        us.receive(Y, Advertisement((counter(seq),)))


def test_any_proxy_serves_any_stream():
    """X owns nothing, and passes on what it has from Y to Z."""
    us = proxy(X)
    us.receive(Y, Advertisement((counter(3),)))
    take(us, Y, events(1, 3))
    us.receive(Z, Subscribe(5, STREAM, 1, 0, 1 << 20))
    us.call("on_read", 4, (events(1, 3),))  # history, which the subscription made it look into
    [(to, message)] = us.sent(Events)
    assert (to, message.number, numbers(message.batches)) == (Z, 5, [1, 2, 3])


def test_a_gap_is_never_stored():
    """Printed: `addRemoteEvent` takes any e.seq > cnt; here 11 after 5."""
    us = proxy(Z)
    us.receive(Y, Advertisement((counter(20),)))
    take(us, Y, events(1, 5))
    us.receive(Y, Tail((events(11, 5),)))
    assert appended(us) == []
    assert [m.after for _, m in us.sent(Subscribe)] == [5]


def test_what_comes_twice_is_stored_once():
    us = proxy(Z)
    us.receive(Y, Advertisement((counter(20),)))
    take(us, Y, events(1, 5))
    us.receive(Y, Tail((events(4, 5),)))
    assert numbers(appended(us)) == [6, 7, 8]


def test_events_of_a_source_that_was_left_are_not_taken():
    us = proxy(Z)
    us.receive(Y, Advertisement((counter(20),)))
    us.receive(X, Events(1, (events(1, 5),)))
    assert appended(us) == []


def test_numbers_start_at_1_everywhere():
    us = proxy(Y)
    attach(us, 5)
    us.receive(5, publish(1, 3))
    assert numbers(appended(us)) == [1, 2, 3]


def test_a_number_leaves_its_owner_only_once_it_is_stored():
    us = proxy(Y)
    attach(us, 5)
    us.receive(X, Subscribe(1, STREAM, 0, 0, 1 << 20))
    us.receive(5, publish(1, 3))
    assert not us.sent(Tail) and not us.sent(Events) and not us.sent(Published)
    us.call("on_appended", STREAM, 3)
    assert us.sent(Tail) and us.sent(Published)


def test_a_publication_reaches_its_owner_through_others_and_its_answer_comes_back():
    world = World(REGIONS, 1)
    z, y = world.geo.proxies["z"].id, world.geo.proxies["y"].id
    world.simulation.network.cut(lambda source, target: {source, target} == {y, z})
    publisher = world.client("z", "z/p")
    world.run(SECOND)
    world.publish(publisher.node, "s", [b""] * 3)
    world.run(10 * SECOND)
    assert world.auditor.acknowledged == 3
    assert world.geo.proxy("x").statistics()["relayed"] == 1


def test_a_publication_does_not_go_in_circles():
    """Nobody can reach the owner: the publisher is told, and nothing is left travelling."""
    us = proxy(X)
    us.down(Y)
    us.receive(Z, Publish(STREAM, 99, 1, 0, "", (5,), events(1)))
    [(to, refused)] = us.sends
    assert (to, refused.path, refused.code.name) == (Z, (5,), "BUSY")


def test_who_was_away_itself_does_not_take_others_for_silent():
    us = proxy(X)
    period = us.protocol.config.advertise_every_ns
    us.fire("advertise")
    us.receive(Y, Advertisement((counter(3),)))
    assert us.sent(Subscribe)
    us.wait(20 * period)  # the process stood still
    assert not us.sent(Unsubscribe)
    for _ in range(8):
        us.wait(period)
        if us.sent(Unsubscribe):
            break
    else:
        raise AssertionError("and then it is silent")
