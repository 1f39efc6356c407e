"""When a batch is everywhere, against looking at everything again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import ConfigError, EventBatch
from epicast.experiments.arrivals import Arrivals

ROWS, AGENTS, BATCHES = 4, 3, 6


def part(first: int, last: int) -> EventBatch:
    return EventBatch.build(1, first, [b"x"] * (last - first + 1))


@given(st.data())
def test_complete_and_latency_follow_from_who_has_what(data: st.DataObject) -> None:
    arrivals = Arrivals(1, AGENTS, ROWS)
    began = [0, *sorted(data.draw(st.lists(st.integers(0, 30), min_size=5, max_size=5)))]
    for at in began:
        arrivals.expect(0, at)
    has = dict.fromkeys(range(AGENTS), 0)
    log: list[tuple[int, int, int]] = []
    now = 31
    for _ in range(data.draw(st.integers(0, 40))):
        now += data.draw(st.integers(0, 5))
        agent = data.draw(st.integers(0, AGENTS - 1))
        room = ROWS * BATCHES - has[agent]
        if room:
            last = has[agent] + data.draw(st.integers(1, room))
            arrivals.note(now, agent, 1, part(has[agent] + 1, last))
            has[agent] = last
            log.append((now, agent, last))
    begin, end = 0, now + 1
    found = arrivals.metrics(begin, end, end)

    def complete_at(batch: int) -> int | None:
        times = [
            next((t for t, a, last in log if a == agent and last >= (batch + 1) * ROWS), None)
            for agent in range(AGENTS)
        ]
        return None if None in times else max(t for t in times if t is not None)

    moments = [complete_at(batch) for batch in range(BATCHES)]
    seconds = (end - begin) / 1e9
    done = sum(at is not None for at in moments)
    assert found["complete_per_s"] == pytest.approx(done * ROWS / seconds)
    whole = sum(last // ROWS for last in has.values())
    assert found["delivered_per_s"] == pytest.approx(whole * ROWS / AGENTS / seconds)
    chosen = [index for index, at in enumerate(began) if begin <= at < end]
    latencies = [(moments[i] or end) - began[i] for i in chosen]
    assert found["latency_ms"] == pytest.approx(sum(latencies) / len(latencies) / 1e6)
    missing = sum(moments[i] is None for i in chosen)
    assert found["unfinished"] == pytest.approx(missing / len(chosen))


def test_a_time_without_events_measures_nothing() -> None:
    arrivals = Arrivals(1, 1, ROWS)
    arrivals.expect(0, 5)
    with pytest.raises(ConfigError, match="nothing was published"):
        arrivals.metrics(6, 10, 10)


def test_only_what_happens_in_the_time_counts() -> None:
    arrivals = Arrivals(2, 1, ROWS)
    for stream in (0, 1):
        for at in (0, 10, 20):
            arrivals.expect(stream, at)
    arrivals.note(5, 7, 1, part(1, 4))
    arrivals.note(15, 7, 1, part(5, 8))
    arrivals.note(30, 7, 2, part(1, 12))
    found = arrivals.metrics(10, 20, 40)
    assert found["complete_per_s"] == pytest.approx(ROWS / 10e-9)
    assert found["latency_0_ms"] == pytest.approx(5 / 1e6)
    assert found["latency_1_ms"] == pytest.approx(20 / 1e6)  # afterwards, but not late
    assert found["unfinished"] == 0
    assert arrivals.metrics(20, 31, 45)["latency_0_ms"] == pytest.approx(25 / 1e6)
    assert arrivals.metrics(20, 31, 45)["unfinished"] == pytest.approx(1 / 2)
