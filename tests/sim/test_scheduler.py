"""The scheduler against a sorted list of (time, insertion)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.sim.scheduler import BUCKET_BITS, Scheduler

BUCKET = 1 << BUCKET_BITS
times = st.one_of(
    st.integers(0, 40),
    st.integers(0, 5).map(lambda bucket: bucket * BUCKET),
    st.integers(0, 5 * BUCKET),
    st.integers(0, 50).map(lambda bucket: bucket * BUCKET + 7),
)
delays = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 3 * BUCKET))
entries = st.lists(st.tuples(times, st.lists(delays, max_size=4)), max_size=25)
"""A time, and the delays after which entries made while it is worked off are due."""


class Model:
    """A list, sorted again for every entry."""

    def __init__(self) -> None:
        self.now = 0
        self.made = 0
        self.waiting: list[tuple[int, int, tuple[int, ...]]] = []

    def at(self, time: int, children: tuple[int, ...]) -> None:
        self.made += 1
        self.waiting.append((max(time, self.now), self.made, children))

    def run(self, until: int) -> list[tuple[int, int]]:
        done = []
        while True:
            self.waiting.sort()
            if not self.waiting or self.waiting[0][0] > until:
                self.now = until
                return done
            self.now, number, children = self.waiting.pop(0)
            done.append((self.now, number))
            for delay in children:
                self.at(self.now + delay, ())


class Run:
    """The same on the scheduler."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.made = 0
        self.done: list[tuple[int, int]] = []

    def at(self, time: int, children: tuple[int, ...]) -> None:
        self.made += 1
        self.scheduler.at(time, self.work, self.made, children)

    def work(self, number: int, children: tuple[int, ...]) -> None:
        self.done.append((self.scheduler.now, number))
        for delay in children:
            self.at(self.scheduler.now + delay, ())


@given(st.lists(st.tuples(entries, delays), min_size=1, max_size=5))
def test_entries_come_in_order_of_time_then_insertion(rounds):
    model, run = Model(), Run()
    until = 0
    for made, duration in rounds:
        for time, children in made:
            model.at(time, tuple(children))
            run.at(time, tuple(children))
        until += duration
        expected = model.run(until)
        run.scheduler.run(until)
        assert run.done == expected
        assert run.scheduler.now == until
        assert len(run.scheduler) == len(model.waiting)
        run.done.clear()


def test_an_entry_at_the_boundary_belongs_to_the_run_that_ends_there():
    run = Run()
    run.at(BUCKET, ())
    run.at(BUCKET + 1, ())
    run.scheduler.run(BUCKET - 1)
    assert run.done == []
    run.scheduler.run(BUCKET)
    assert run.done == [(BUCKET, 1)]
    run.scheduler.run(BUCKET)
    run.scheduler.run(2 * BUCKET)
    assert run.done == [(BUCKET, 1), (BUCKET + 1, 2)]


def test_what_an_entry_schedules_for_its_own_instant_still_belongs_to_the_run():
    run = Run()
    run.at(10, (0, 0))
    run.scheduler.run(10)
    assert [number for _, number in run.done] == [1, 2, 3]


def test_the_past_is_now():
    run = Run()
    run.scheduler.run(100)
    run.at(5, ())
    run.scheduler.run(100)
    assert run.done == [(100, 1)]


def test_time_does_not_run_backwards():
    scheduler = Scheduler()
    scheduler.run(100)
    with pytest.raises(ValueError, match="it is 100 already"):
        scheduler.run(99)


def test_a_run_goes_on_after_an_entry_that_raised():
    run = Run()
    run.scheduler.at(10, lambda _, __: 1 / 0)
    run.at(20, ())
    run.at(60, ())
    with pytest.raises(ZeroDivisionError):
        run.scheduler.run(50)
    assert run.scheduler.now == 10
    run.scheduler.run(70)  # the end of the broken run must not end this one
    assert run.done == [(20, 1), (60, 2)]
    assert len(run.scheduler) == 0
