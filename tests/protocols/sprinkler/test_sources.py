"""When a proxy leaves the source of a stream, and when it does not."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import NEVER, EventBatch, Peer, Recovered
from epicast.protocols.sprinkler import Counter, Proxy, ProxyConfig, ProxyPlan, StreamInfo
from epicast.protocols.sprinkler.messages import (
    Advertisement,
    Events,
    Poll,
    Subscribe,
    Tail,
    Unsubscribe,
)
from tests.protocols.harness import MS, SECOND
from tests.protocols.single import Single
from tests.protocols.sprinkler.parts import STREAM, X, Y, Z, counter, events, proxy, store

PERIOD = 100 * MS


def pretend(first: int, count: int) -> EventBatch:
    """A range of events of which none is left, which is as good here and costs nothing."""
    return EventBatch.build(STREAM, first, [], seqs=[], last=first + count - 1, epoch=1)


class Follower:
    """The proxy of Z. Things happen at instants; its timers fire in between."""

    def __init__(self, source: int = Y, **settings: object) -> None:
        self.single = proxy(Z, **settings)
        self.taken = 0
        self.sent: list[tuple[object, object]] = []
        self.advertise(source, 0)
        assert self.source == source

    @property
    def source(self) -> int:
        return self.single.protocol.progress()["s"][1]

    @property
    def now(self) -> int:
        return self.single.now

    def until(self, instant: int) -> None:
        timers = self.single.protocol.timers
        while timers.earliest <= instant:
            self.single.now = max(self.now, timers.earliest)
            self.single.call("on_timer")
            self._note()
        self.single.now = instant

    def wait(self, duration: int) -> None:
        self.until(self.now + duration)

    def advertise(self, peer: int, seq: int, epoch: int = 1, *, asked: bool = False) -> None:
        self.single.receive(peer, Advertisement((counter(seq, epoch),), int(asked)))
        self._note()

    def deliver(self, peer: int, count: int, *, stored: bool = True, size: int = 0) -> None:
        batch = events(self.taken + 1, count, size=size) if size else pretend(self.taken + 1, count)
        self.single.receive(peer, Tail((batch,)))
        self.taken += count
        self._note()
        if stored:
            store(self.single)
            self._note()

    def flow(self, peer: int, batches: int, count: int = 1000, gap: int = 5 * MS) -> None:
        """Regular batches, and the advertisements that go with them."""
        for number in range(batches):
            self.deliver(peer, count)
            if number % 20 == 19:
                self.advertise(peer, self.taken)
            self.wait(gap)

    def _note(self) -> None:
        self.sent += self.single.sends

    def of(self, message_type: type) -> list[tuple[object, object]]:
        found = [(to, message) for to, message in self.sent if type(message) is message_type]
        self.sent.clear()
        return found


# -- a link that swallows everything -------------------------------------------------------------


def test_silence_where_events_flowed_makes_a_proxy_ask_everybody():
    us = Follower()
    us.flow(Y, 40)
    us.of(Poll)
    us.wait(20 * MS)
    [(to, _)] = us.of(Poll)
    assert set(to) == {X, Y}


def test_the_answer_of_one_who_has_more_makes_it_switch_at_once():
    us = Follower()
    us.flow(Y, 40)
    us.wait(60 * MS)
    us.advertise(X, us.taken + 8000)
    us.wait(PERIOD // 20)
    assert us.source == X


def test_what_was_missed_decides_how_long_it_takes():
    us = Follower()
    us.flow(Y, 40)
    last = us.now - 5 * MS  # when something came
    us.advertise(X, us.taken + 1000)
    us.until(last + 99 * MS)
    assert us.source == Y
    us.until(last + 100 * MS)  # C / 1000
    assert us.source == X


def test_how_long_others_are_ahead_does_not_matter_while_events_come():
    us = Follower()
    for _ in range(200):
        us.flow(Y, 1, count=10)
        us.advertise(X, us.taken + 5_000_000)
        us.advertise(Y, us.taken + 5_000_000)
    assert us.source == Y


def test_of_several_the_one_that_is_furthest_is_followed():
    us = Follower(source=X)
    us.flow(X, 40)
    us.advertise(Y, us.taken + 9000)
    us.wait(2 * PERIOD)
    assert us.source == Y


# -- healthy sources -----------------------------------------------------------------------------


def test_the_end_of_a_burst_costs_a_question_and_no_switch():
    us = Follower()
    for _ in range(5):
        us.flow(Y, 40)
        us.of(Poll)
        for _ in range(10):
            us.wait(20 * MS)
            us.advertise(X, us.taken)
            us.advertise(Y, us.taken)
        assert len(us.of(Poll)) <= 2
    assert us.source == Y


def test_a_source_that_is_usually_slow_is_given_time():
    us = Follower()
    us.flow(Y, 40, gap=70 * MS)
    us.wait(20 * MS)
    us.advertise(X, us.taken + 100_000)
    us.wait(10 * MS)  # 100 ms, which in the test before were more than enough
    assert us.source == Y
    us.wait(10 * MS)
    assert us.source == X


def test_a_rival_is_believed_only_once_all_else_that_arrived_is_handled():
    """The process stood still for a while: the rival's message is handled before the source's."""
    us = Follower()
    us.single.now += 250 * MS
    us.advertise(X, us.taken + 60_000)
    us.wait(PERIOD // 20 - 1)
    assert us.source == Y
    us.deliver(Y, 60_000)
    us.wait(PERIOD)
    assert us.source == Y


def test_nor_is_it_by_a_timer_that_comes_late():
    us = Follower()
    us.flow(Y, 40)
    us.advertise(X, us.taken + 60_000)
    us.single.now += 120 * MS
    us.single.call("on_timer")
    assert us.source == Y
    us.deliver(Y, 60_000)
    us.wait(PERIOD)
    assert us.source == Y


def test_that_we_are_slow_is_not_held_against_the_source():
    """Nothing is stored here, so the source may send nothing more. It says that it is there."""
    us = Follower(window_bytes=4000)
    us.flow(Y, 40)
    us.deliver(Y, 100, stored=False, size=40)
    ahead = us.taken
    for _ in range(40):
        ahead += 50_000
        us.wait(PERIOD // 2)
        us.advertise(X, ahead)  # by half a period, each time
        us.wait(PERIOD // 2)
        assert us.source == Y
        us.advertise(Y, ahead)


def test_a_source_with_a_backlog_for_us_is_given_two_periods():
    us = Follower()
    us.flow(Y, 40)
    us.advertise(Y, us.taken + 10**6)
    us.advertise(X, us.taken + 10**6 + 50_000)
    us.wait(2 * PERIOD - MS)
    assert us.source == Y
    us.wait(2 * MS)
    assert us.source == X


def test_a_source_that_is_often_silent_for_a_moment_is_not_left_each_time():
    us = Follower()
    switches = []
    for _ in range(8):
        us.flow(Y, 40)
        us.wait(PERIOD)
        us.advertise(X, us.taken + 10_000)
        us.wait(PERIOD)
        switches.append(us.source == X)
        for _ in range(5):
            us.advertise(Y, us.taken + 20_000, asked=True)
        assert us.source == Y
    assert switches[0]
    assert not any(switches[3:])


@given(
    gaps=st.lists(st.integers(1, 11), min_size=50, max_size=200),
    rivals=st.integers(0, 2**32),
    rate=st.sampled_from([10, 1000, 100_000]),
)
def test_a_source_that_keeps_sending_is_never_left(gaps: list[int], rivals: int, rate: int) -> None:
    """The owner is ahead of everybody; how far behind it we are does not matter."""
    rng = Random(rivals)
    us = Follower()
    owner_seq = 10 * rate
    advertised_at = 0
    for gap in gaps:
        us.wait(gap * MS)
        owner_seq += rate
        us.deliver(Y, rng.randint(1, rate))
        if us.now - advertised_at >= PERIOD:
            us.advertise(Y, owner_seq)
            advertised_at = us.now
        if rng.random() < 0.3:
            us.advertise(X, owner_seq - rng.randint(0, rate))
    assert us.source == Y
    assert us.single.protocol.statistics()["source_switches"] == 0


# -- sources that are cut off, restarted, lost ---------------------------------------------------


def test_a_source_that_is_alive_and_cut_off_itself_is_left_as_fast_as_a_silent_one():
    us = Follower(source=X)
    us.flow(X, 40)
    stuck, last = us.taken, us.now - 5 * MS
    us.wait(40 * MS)
    us.advertise(Y, stuck + 5000)
    us.advertise(X, stuck)  # it is there, but somebody else is known to have more
    us.wait(PERIOD // 20)
    assert us.source == Y
    assert us.now - last < PERIOD


def test_a_source_that_moves_but_stays_far_behind_is_left_in_the_end():
    us = Follower()
    for step in range(1, 30):
        us.wait(PERIOD)
        us.advertise(Y, step)
        us.advertise(X, 20 * step)
        if us.source == X:
            break
    assert 5 <= step <= 8


def test_an_epoch_that_somebody_else_has_first_is_followed_at_once():
    us = Follower()
    us.flow(Y, 40)
    us.advertise(X, 1, epoch=2)
    assert us.source == X


def test_numbers_of_an_epoch_that_has_ended_say_nothing():
    us = Follower()
    us.flow(Y, 40)
    us.wait(50 * MS)
    us.advertise(X, us.taken + 10_000)
    us.advertise(Y, 3, epoch=2)
    us.wait(3 * PERIOD)
    assert us.source == Y


def test_who_lost_its_source_asks_the_others_at_once():
    us = Follower()
    us.flow(Y, 40)
    us.of(Poll)
    us.single.down(Y)
    us._note()
    assert [to for to, _ in us.of(Poll)] == [[X]]
    us.advertise(X, us.taken)  # it has nothing that we have not
    assert us.source == 0
    us.wait(PERIOD)
    assert us.of(Poll)  # so it is asked again
    us.advertise(X, us.taken + 1)
    assert us.source == X


def test_a_rival_that_is_lost_is_no_rival():
    us = Follower()
    us.flow(Y, 40)
    us.advertise(X, us.taken + 1000)
    us.single.down(X)
    us.wait(3 * PERIOD)
    assert us.source == Y


def test_a_source_that_has_more_and_sends_nothing_does_not_hear_us():
    """A way that is cut in our direction only: its advertisements come, our subscription did not
    get there."""
    us = Follower()
    us.flow(Y, 40)
    for period in range(100):
        us.advertise(X, us.taken + 1000 * period + 1000)
        us.advertise(Y, us.taken + 1000 * period + 1000)
        us.wait(PERIOD)
        if us.source != Y:
            break
    assert us.now > 5 * SECOND
    us.advertise(Y, us.taken + 10**6)
    assert us.source == 0
    us.advertise(X, us.taken + 10**6)
    assert us.source == X


# -- back to the owner ---------------------------------------------------------------------------


def test_the_owner_is_returned_to_once_it_was_ahead_several_times():
    us = Follower(source=X)
    for _ in range(5):
        assert us.source == X
        us.flow(X, 20)
        us.of(Poll)
        us.advertise(Y, us.taken + 100)
        assert [to for to, _ in us.of(Poll)] == [Y]
        us.advertise(Y, us.taken + 110, asked=True)
    assert us.source == Y
    assert us.of(Unsubscribe)[-1][0] == X


def test_an_owner_that_does_not_hear_us_is_not():
    us = Follower(source=X)
    for _ in range(40):
        us.flow(X, 4)
        us.advertise(Y, us.taken + 100)
    assert us.source == X


def test_an_owner_that_is_behind_what_comes_from_others_is_not():
    """The way through another region is the shorter one."""
    us = Follower(source=X)
    for round_ in range(40):
        us.flow(X, 4)
        us.advertise(Y, us.taken + (100 if round_ % 4 else -100), asked=True)
    assert us.source == X


def test_an_owner_that_has_no_more_than_the_source_is_not():
    us = Follower(source=X)
    for _ in range(40):
        us.flow(X, 4)
        us.advertise(Y, us.taken, asked=True)
    assert us.source == X


# -- what is asked for ---------------------------------------------------------------------------


def test_the_new_source_is_asked_for_what_comes_next_and_the_old_one_is_not_listened_to():
    us = Follower()
    us.flow(Y, 40)
    us.wait(60 * MS)
    us.advertise(X, us.taken + 8000)
    us.of(Subscribe)
    us.wait(PERIOD // 20)
    [(to, message)] = us.of(Subscribe)
    assert (to, message.after) == (X, us.taken)
    us.single.receive(Y, Events(1, (pretend(us.taken + 1, 5),)))
    assert us.single.protocol.progress()["s"][0].seq == us.taken


@pytest.mark.parametrize("period_ms", [20, 100, 1000])
def test_times_are_parts_of_the_period(period_ms: int) -> None:
    us = Follower(advertise_every_ns=period_ms * MS)
    us.flow(Y, 40, gap=period_ms * MS // 50)
    us.wait(period_ms * MS // 2)
    us.advertise(X, us.taken + 10**6)
    us.wait(period_ms * MS // 20)
    assert us.source == X


def test_questions_are_not_asked_more_often_than_they_are_worth():
    """Batches come in pairs, with gaps that grow: each is longer than was usual before."""
    config = ProxyConfig()
    us = Follower()
    us.flow(Y, 40, gap=MS)
    us.of(Poll)
    gap = 20.0
    begin = us.now
    while us.now < begin + SECOND:
        us.deliver(Y, 10)
        us.wait(round(gap * MS))
        gap *= 1.6 if gap < 70 else 0.2
    assert len(us.of(Poll)) <= 4 * SECOND // config.advertise_every_ns


def test_thousands_of_streams_do_not_cost_all_of_the_time() -> None:
    """A check for each of them every few milliseconds would."""
    infos = tuple(StreamInfo(number, f"s{number}", Y, "y") for number in range(1, 2001))
    plan = ProxyPlan("z", infos, (Peer(X), Peer(Y)))
    us = Single(Proxy(Peer(Z), ProxyConfig(), Random(1), plan=plan))
    us.call("on_start", (), Recovered(1))
    us.up(X)
    us.up(Y)
    us.receive(Y, Advertisement(tuple(Counter(info.id, 1, 0) for info in infos)))
    checks = 0
    for step in range(1, 101):
        us.receive(Y, Tail(tuple(events(step, stream=info.id) for info in infos)))
        us.now += 10 * MS
        if us.protocol.timers.deadline("sources") <= us.now:
            checks += 1
            us.call("on_timer")
    assert 1 <= checks <= 10


def test_an_owner_of_several_streams_is_asked_once() -> None:
    infos = tuple(StreamInfo(number, f"s{number}", Y, "y") for number in (1, 2, 3))
    us = Single(
        Proxy(Peer(Z), ProxyConfig(), Random(1), plan=ProxyPlan("z", infos, (Peer(X), Peer(Y))))
    )
    us.call("on_start", (), Recovered(1))
    us.up(X)
    us.up(Y)
    us.receive(X, Advertisement(tuple(Counter(info.id, 1, 5) for info in infos)))
    us.now += 10 * MS
    us.receive(Y, Advertisement(tuple(Counter(info.id, 1, 6) for info in infos)))
    assert [to for to, _ in us.sent(Poll)] == [Y]


def test_an_idle_stream_needs_no_timer() -> None:
    us = Follower()
    us.flow(Y, 10)
    us.advertise(Y, us.taken)
    us.advertise(Y, us.taken)
    us.wait(2 * PERIOD)
    timers = us.single.protocol.timers
    assert timers.deadline("sources") == NEVER
    us.deliver(Y, 1)
    assert timers.deadline("sources") <= us.now + 2 * PERIOD
