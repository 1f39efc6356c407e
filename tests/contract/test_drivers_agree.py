"""The same protocols deliver the same events in the simulator and over loopback TCP."""

from __future__ import annotations

import pytest

from epicast.protocols.catalog import stack_factory
from epicast.protocols.hyparview import HyParViewConfig
from epicast.runtime import run
from tests.contract.script import Script, run_in_simulator, run_on_network

BATCH_SIZES = (1, 7, 1000)


def script(batch: int) -> Script:
    config = HyParViewConfig(active_view=4, repair_period_ns=500_000_000)
    return Script(stack_factory(["hyparview", "flood"], {"hyparview": config}), batch=batch)


@pytest.mark.parametrize("batch", BATCH_SIZES)
def test_simulator_and_network_deliver_the_same_events(batch: int) -> None:
    scripted = script(batch)
    simulated = run_in_simulator(scripted)
    networked = run(run_on_network(scripted))
    assert set(simulated) == set(networked) == set(range(1, scripted.nodes + 1))
    for node in simulated:
        assert simulated[node] == scripted.expected(node), f"simulator, node {node}"
        assert networked[node] == scripted.expected(node), f"network, node {node}"


def test_batch_size_changes_nothing() -> None:
    results = [run_in_simulator(script(batch)) for batch in BATCH_SIZES]
    assert results[0] == results[1] == results[2]
