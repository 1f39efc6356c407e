"""Latency models: what they draw, and what they refuse."""

import numpy as np
import pytest

from epicast.core import ConfigError
from epicast.sim.latency import (
    ConstantLatency,
    Latency,
    MatrixLatency,
    PairLatency,
    PercentileLatency,
    UniformLatency,
    epto_latency,
    parse_matrix,
)
from tests.sim.probe import MS


def delays_ms(latency: Latency, count: int = 200_000) -> np.ndarray:
    drawn = [latency.draw(1, range(2, 102)) for _ in range(count // 100)]
    return np.array(drawn).ravel() / MS


def test_constant():
    latency = ConstantLatency(20 * MS)
    assert latency.draw(1, (2, 3, 4)) == [20 * MS] * 3
    assert latency.constant == latency.typical() == 20 * MS


def test_two_nodes_are_always_the_same_distance_apart() -> None:
    latency = PairLatency(UniformLatency(10 * MS, 30 * MS, seed=1))
    there = latency.draw(5, range(6, 106))
    assert latency.draw(5, range(6, 106)) == there and latency.draw(7, (5,)) == [there[1]]
    assert len(set(there)) > 90 and min(there) >= 10 * MS and max(there) < 30 * MS
    assert latency.typical() == 20 * MS and latency.constant is None


def test_uniform_covers_its_range_evenly():
    delays = delays_ms(UniformLatency(10 * MS, 30 * MS, seed=1))
    assert delays.min() >= 10 and delays.max() < 30
    assert np.histogram(delays, 4, (10, 30))[0] / len(delays) == pytest.approx(0.25, abs=0.01)
    assert UniformLatency(10 * MS, 30 * MS, seed=1).typical() == 20 * MS


def test_epto_distribution_has_the_moments_and_percentiles_of_the_paper():
    delays = delays_ms(epto_latency(seed=3))
    assert delays.mean() == pytest.approx(157, rel=0.03)
    assert delays.std() == pytest.approx(119, rel=0.03)
    for percentile, expected in ((5, 15), (50, 125), (95, 366)):
        assert np.percentile(delays, percentile) == pytest.approx(expected, rel=0.03)
    assert delays.min() >= 0


def test_percentiles_without_moments_are_joined_by_straight_lines():
    latency = PercentileLatency({10.0: 10 * MS, 50.0: 50 * MS, 90.0: 250 * MS}, seed=1)
    delays = delays_ms(latency)
    expected = {5: 5, 10: 10, 30: 30, 50: 50, 70: 150, 90: 250, 95: 275}
    for percentile, delay in expected.items():
        assert np.percentile(delays, percentile) == pytest.approx(delay, rel=0.04)
    assert delays.max() <= 300
    assert latency.typical() == 50 * MS


@pytest.mark.parametrize("make", [lambda s: UniformLatency(0, MS, s), epto_latency])
def test_delays_depend_on_the_seed_alone(make):
    def one_by_one(seed: int) -> list[int]:
        latency = make(seed)
        return [latency.draw(1, (2,))[0] for _ in range(40_000)]

    drawn = one_by_one(5)
    assert drawn == one_by_one(5)
    assert drawn != one_by_one(6)
    latency, groups = make(5), []
    while len(groups) < 40_000:  # across the ends of the blocks that are drawn at a time
        groups += latency.draw(1, range(2, 9))
    assert groups[:40_000] == drawn


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ConstantLatency(-1), "-1 ns is negative"),
        (lambda: UniformLatency(5, 4, 1), "5..4 ns is not an ascending range"),
        (lambda: UniformLatency(-5, 4, 1), "not an ascending range"),
        (lambda: PercentileLatency({50.0: 5}, 1), "at least two percentiles"),
        (lambda: PercentileLatency({5.0: 1, 101.0: 5}, 1), "between p0 and p100"),
        (lambda: PercentileLatency({5.0: -1, 50.0: 5}, 1), "delays above 0"),
        (lambda: PercentileLatency({5.0: 9, 50.0: 5}, 1), "cannot have a lower delay"),
        (
            lambda: PercentileLatency({5.0: 15 * MS, 95.0: 20 * MS}, 1, (5e9, 1e6)),
            "no distribution with these percentiles has that mean and sd",
        ),
        (lambda: MatrixLatency(np.zeros((2, 3), dtype=np.int64)), "not a square table"),
        (lambda: MatrixLatency(np.array([[0, -1], [0, 0]])), "cannot be negative"),
    ],
)
def test_impossible_models_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


MATRIX = """
# to:   0     1     2
        0.5,  15,   72.5   # from 0
        16    0.5   40

        70    41    0.5
"""


def test_a_matrix_file_gives_the_delay_from_site_to_site():
    latency = MatrixLatency(parse_matrix(MATRIX, "sites.txt"))
    assert [latency.site(node) for node in (0, 1, 2, 3, 4)] == [0, 1, 2, 0, 1]
    assert latency.draw(3, (1, 2, 6)) == [15 * MS, int(72.5 * MS), MS // 2]
    assert latency.draw(4, (3, 5)) == [16 * MS, 40 * MS]
    assert latency.typical() == 16 * MS


def test_nodes_can_be_placed():
    latency = MatrixLatency(parse_matrix(MATRIX, "sites.txt"), placement={7: 2})
    assert latency.draw(7, (0, 7)) == [70 * MS, MS // 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n1 x\n", "sites.txt, line 2: expected delays in milliseconds.*found '1 x'"),
        ("0 1\n1 -3\n", "sites.txt, line 2: expected delays in milliseconds.*found '1 -3'"),
        ("0 nan\n1 0\n", "sites.txt, line 1: expected delays"),
        ("0 inf\n1 0\n", "sites.txt, line 1: expected delays"),
        ("0 5ms\n1 0\n", "sites.txt, line 1: expected delays"),
        ("# two\n0 1\n1 0 3\n", "sites.txt, line 3: 3 delays where the first line has 2"),
        ("0 1\n", "sites.txt: 1 lines do not make a square table"),
        ("# nothing\n", "sites.txt: 0 lines do not make a square table"),
    ],
)
def test_a_bad_matrix_file_is_refused_with_its_line(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_matrix(text, "sites.txt")
