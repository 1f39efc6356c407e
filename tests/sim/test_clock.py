"""Clocks that drift, and timers set by them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epicast.sim.clock import DriftingClock
from tests.sim.probe import MS, SECOND, Lab

rates = st.floats(-0.9, 0.9)
instants = st.integers(0, 10**16)


@given(
    rates, st.integers(0, 10**13), st.integers(-(10**10), 10**10), st.lists(instants, min_size=2)
)
def test_local_time_never_runs_backwards(rate, since, offset, deltas):
    clock = DriftingClock(rate, since, offset)
    shown = [clock.local(since + delta) for delta in sorted(deltas)]
    assert shown == sorted(shown)


@given(rates, st.integers(0, 10**13), st.integers(-(10**10), 10**10), st.integers(0, 10**15))
@example(rate=0.9, since=0, offset=0, ahead=1)
@example(rate=-0.9, since=0, offset=0, ahead=7)
def test_true_time_is_the_first_instant_that_shows_the_local_time(rate, since, offset, ahead):
    clock = DriftingClock(rate, since, offset)
    local = since + offset + ahead
    instant = clock.true(local)
    assert clock.local(instant) >= local
    assert clock.local(instant - 1) < local


def test_a_clock_gains_by_its_rate_on_top_of_its_offset():
    clock = DriftingClock(0.01, since=10 * SECOND, offset_ns=5 * MS)
    assert clock.local(10 * SECOND) == 10 * SECOND + 5 * MS
    assert clock.local(11 * SECOND) == 11 * SECOND + 15 * MS


@pytest.mark.parametrize("rate", [-1.0, -2.0])
def test_a_clock_that_stands_still_is_refused(rate):
    with pytest.raises(ValueError, match="stand still or run backwards"):
        DriftingClock(rate)


@pytest.mark.parametrize("rate", [0.0, 0.25, -0.2, 0.001])
def test_timers_fire_when_the_local_clock_says_so(rate):
    lab = Lab(1)
    clock = DriftingClock(rate, since=0)
    lab.sim.set_clock(lab.node(1), clock)
    due = 3 * SECOND
    lab[1].timers.set("alarm", due)
    lab.act(1, lambda fx: None)
    lab.run(clock.true(due) - 1)
    assert lab[1].times("timer") == []
    lab.run(1)
    assert lab[1].times("timer") == [clock.local(lab.sim.now)]
    assert due <= lab[1].times("timer")[0] <= due + 1


def test_a_timer_is_moved_when_the_clock_begins_to_drift_and_when_it_stops():
    lab = Lab(1)
    lab[1].timers.set("alarm", 10 * SECOND)
    lab.act(1, lambda fx: None)
    lab.run(2 * SECOND)
    lab.sim.set_clock(lab.node(1), DriftingClock(0.5, since=2 * SECOND))
    lab.run(2 * SECOND)  # 4 s, the clock shows 5
    shown = lab.node(1).clock.local(lab.sim.now)
    assert shown == 5 * SECOND
    lab.sim.set_clock(lab.node(1), DriftingClock(0.0, lab.sim.now, shown - lab.sim.now))
    lab.run(5 * SECOND - 1)
    assert lab[1].times("timer") == []
    lab.run(1)
    assert lab[1].times("timer") == [10 * SECOND]
    soon = 10 * SECOND + SECOND // 2  # before the alarm that the true clock was set to
    lab.act(1, lambda fx: lab[1].timers.set("next", soon))
    lab.run(10 * SECOND)
    assert lab[1].times("timer") == [10 * SECOND, soon]


def test_handlers_are_told_local_time():
    lab = Lab(2)
    lab.sim.set_clock(lab.node(2), DriftingClock(0.0, since=0, offset_ns=70 * MS))
    lab.send(1, 2, "hello")
    lab.run(SECOND)
    (arrival,) = lab[2].times("hello")
    assert arrival == 73 * MS  # three times 1 ms: there, back, and the message
