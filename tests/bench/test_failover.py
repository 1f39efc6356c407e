"""What `bench failover` makes of the acknowledgements it was given."""

import numpy as np
import pytest

from bench.bench_failover import _result

KILLED = [100.0 + 10 * number for number in range(6)]
"""Two of each: head, middle, tail."""


def _acknowledged(*stalls: tuple[float, float]) -> np.ndarray:
    """Every 10 ms from 95 to 165 s, except from and to the times named."""
    times = np.arange(95, 165, 0.01)
    for begin, end in stalls:
        times = times[(times <= begin) | (times >= end)]
    return times


@pytest.mark.parametrize("begin", [110.02, 111.5, 115.0])
@pytest.mark.parametrize("pause", [0.5, 3.0, 4.9])
def test_a_pause_counts_whenever_it_begins_and_however_long_it_is(
    begin: float, pause: float
) -> None:
    result = _result(1000.0, KILLED, _acknowledged((begin, begin + pause)), 0, 0)
    assert result.figures["middle_worst_s"] == pytest.approx(pause, abs=0.03)
    assert result.figures["head_worst_s"] < 0.05
    assert result.figures["tail_worst_s"] < 0.05
    assert result.holds is (pause < 1.0)


def test_a_pause_that_outlasts_the_next_kill_counts_for_both() -> None:
    result = _result(1000.0, KILLED, _acknowledged((118.0, 124.0)), 0, 0)
    assert result.figures["middle_worst_s"] == result.figures["tail_worst_s"] > 5.9


@pytest.mark.parametrize(("wrong", "missing"), [(1, 0), (0, 1)])
def test_nothing_may_be_lost_or_twice(wrong: int, missing: int) -> None:
    assert not _result(1000.0, KILLED, _acknowledged(), wrong, missing).holds
    assert _result(1000.0, KILLED, _acknowledged(), 0, 0).holds
