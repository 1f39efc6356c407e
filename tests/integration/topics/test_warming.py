"""What is compiled before a node joins is all that its rounds call."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("numba")

_SCRIPT = """
import asyncio, json
import epicast
from epicast.protocols.epto import kernels, round_kernels, source_kernels
from epicast.protocols.epto.warming import warm_up

def compiled():
    return {
        name: len(function.signatures)
        for module in (kernels, round_kernels, source_kernels)
        for name, function in vars(module).items()
        if hasattr(function, "signatures") and not name.startswith("_")
    }

async def exchange():
    period = 100_000_000  # a connection for what is large is made within the rounds it is sent in
    config = epicast.EptoConfig(
        round_period_ns=period, min_round_ns=period, shuffle_period_ns=period
    )
    async with epicast.join(listen="127.0.0.1") as one, epicast.join(one.address) as two:
        topics = [node.topic("orders", "ordered", config=config) for node in (one, two)]
        while not all(topic.statistics().get("epto.settled") for topic in topics):
            await asyncio.sleep(0.01)
        final, early = topics[1].subscribe(), topics[1].subscribe(early=0.5)
        for topic in topics:
            await topic.publish_many([b"x"] * 3, [b"k"] * 3)
            await topic.publish(b"y" * 2000)
        for subscription in (final, early):
            given = missed = 0
            while given + missed < 8:
                item = await subscription.get(timeout=20)
                assert item is not None
                if isinstance(item, epicast.Gap):  # on a machine that is busy with something else
                    missed += item.events
                given += isinstance(item, epicast.Event)
            assert given >= 4, "what it published itself cannot be missing"

warm_up()
before = compiled()
asyncio.run(exchange())
print(json.dumps([before, compiled()]))
"""


def test_nothing_is_compiled_once_a_topic_runs() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=120, check=False
    )
    assert found.returncode == 0, found.stderr
    before, after = json.loads(found.stdout)
    assert len(before) >= 15 and 0 not in before.values()
    assert after == before
