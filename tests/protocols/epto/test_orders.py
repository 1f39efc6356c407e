"""Arbitrary delays, losses, drifts and batch sizes: never a violation of the order.

EPICAST_ORDERS says how many runs; `make sim` makes 100,000.
"""

import os

import pytest

from tests.protocols.epto.orders import run_orders

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
