"""The samplers give the distributions they are named for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import ConfigError
from epicast.experiments.zipf import BoundedZipf, draw_zeta


def exact(ranks: int, skew: float) -> np.ndarray:
    weights = np.arange(1, ranks + 1, dtype=float) ** -skew
    return weights / weights.sum()


def shares(drawn: np.ndarray, ranks: int) -> np.ndarray:
    return np.array([np.count_nonzero(drawn == rank) for rank in range(1, ranks + 1)]) / len(drawn)


@given(st.integers(1, 400), st.floats(0, 6))
def test_alias_table_holds_the_exact_probabilities(ranks: int, skew: float) -> None:
    table = BoundedZipf(ranks, skew)
    np.testing.assert_allclose(table.probabilities(), exact(ranks, skew), atol=1e-12)


def test_a_large_table_is_exact_too() -> None:
    found = BoundedZipf(1_000_000, 1.1).probabilities()
    np.testing.assert_allclose(found, exact(1_000_000, 1.1), atol=1e-13, rtol=1e-6)


@pytest.mark.parametrize("skew", [0.0, 0.8, 1.1, 2.5])
def test_draws_follow_the_table(skew: float) -> None:
    drawn = BoundedZipf(50, skew).draw(np.random.default_rng(1), 400_000)
    np.testing.assert_allclose(shares(drawn, 50), exact(50, skew), atol=0.004)


def test_bounded_draws_are_those_of_a_smaller_table() -> None:
    bounds = np.repeat([20, 50], 300_000)
    drawn = BoundedZipf(64, 1.1).draw_up_to(np.random.default_rng(2), bounds)
    assert (drawn <= bounds).all()
    np.testing.assert_allclose(shares(drawn[:300_000], 20), exact(20, 1.1), atol=0.004)
    np.testing.assert_allclose(shares(drawn[300_000:], 50), exact(50, 1.1), atol=0.004)


def test_zeta_draws() -> None:
    drawn = draw_zeta(np.random.default_rng(3), 1.1, 400_000)
    assert drawn.min() == 1
    assert drawn.max() <= 1 << 62
    # Over all ranks the weights add up to 10.584; what lies above 2^62 is drawn again.
    weights = np.arange(1, 31, dtype=float) ** -1.1
    beyond = (1 << 62) ** -0.1 / 0.1
    np.testing.assert_allclose(shares(drawn, 30), weights / (10.584 - beyond), atol=0.002)


def test_a_seed_gives_one_sequence() -> None:
    table = BoundedZipf(1000, 1.1)
    first, second = (table.draw(np.random.default_rng(4), 1000) for _ in range(2))
    assert (first == second).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BoundedZipf(0, 1.1), "ranks: 0 is not between 1 and"),
        (lambda: BoundedZipf(10, -1.0), "skew: -1.0 is not between"),
        (lambda: draw_zeta(np.random.default_rng(1), 1.0, 5), "skew: 1.0 is not above 1"),
        (
            lambda: BoundedZipf(1 << 20, 0.0).draw_up_to(np.random.default_rng(1), np.array([1])),
            "too large for sets of 1",
        ),
    ],
)
def test_bad_parameters(make, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
