"""Arbitrary delays, losses, drifts and batch sizes: never a violation of the order.

EPICAST_ORDERS says how many runs; `make sim` makes 100,000.
"""

import os

import pytest

from tests.protocols.epto.orders import run_orders
from tests.protocols.epto.rejoining import run_rejoining

RUNS = int(os.environ.get("EPICAST_ORDERS", "2000"))
PARTS = 8


@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_order_is_violated(part: int) -> None:
    for seed in range(part, RUNS, PARTS):
        try:
            run_orders(seed)
        except Exception as error:
            raise AssertionError(f"run_orders({seed}): {error!r}") from error


@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_nobody_misses_what_was_published_before_its_time(part: int) -> None:
    for seed in range(part, RUNS // 10, PARTS):
        try:
            run_rejoining(seed)
        except Exception as error:
            raise AssertionError(f"run_rejoining({seed}): {error!r}") from error
