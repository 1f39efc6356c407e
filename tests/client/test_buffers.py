"""Agents of applications filter what they keep for others, once they can."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from epicast.client import buffers
from epicast.client.buffers import AgentBuffers
from epicast.core import EventBatch
from epicast.protocols.sprinkler import RecentBatches
from epicast.runtime import run
from epicast.runtime.waiting import Bell
from tests.client.fakes import AUDIT

LARGE = 1 << 20
LATEST = replace(AUDIT, latest_per_key=True)


def rows_of(found: list[EventBatch]) -> int:
    return sum(batch.rows for batch in found)


def test_a_stream_that_keeps_everything_is_not_filtered() -> None:
    assert isinstance(AgentBuffers(LARGE).make(AUDIT), RecentBatches)


def test_filtering_begins_once_the_code_for_it_is_there() -> None:
    async def main() -> None:
        buffer = AgentBuffers(LARGE).make(LATEST)
        buffer.add(EventBatch.build(AUDIT.id, 1, [b"x"] * 100, keys=[b"a", b"b"] * 50))
        assert rows_of(buffer.read(1, 100, LARGE)) == 100
        for _ in range(6000):
            await Bell().wait(0.01)
            if rows_of(buffer.read(1, 100, LARGE)) == 2:
                break
        else:
            pytest.fail("it was never filtered")
        (batch,) = buffer.read(1, 100, LARGE)
        assert (batch.first, batch.last) == (1, 100)

    run(main())


def test_without_the_code_neighbours_get_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ImportError("no numba")

    monkeypatch.setattr(buffers, "warm_up", fail)

    async def main() -> None:
        buffer = AgentBuffers(LARGE).make(LATEST)
        buffer.add(EventBatch.build(AUDIT.id, 1, [b"x"] * 100, keys=[b"a", b"b"] * 50))
        for _ in range(5):
            assert rows_of(buffer.read(1, 100, LARGE)) == 100
            await Bell().wait(0.01)

    run(main())
