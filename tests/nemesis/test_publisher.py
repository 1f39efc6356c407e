"""The nemesis's publisher, killed and started again at an owner that refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import epicast
from epicast.core import EventBatch
from epicast.experiments.nemesis.board import Board
from epicast.experiments.nemesis.geoplex import described, make_batch, stream_of
from epicast.experiments.nemesis.publisher import PublisherPlan, _Flow
from epicast.protocols.sprinkler import StreamInfo
from epicast_checker import PublisherLog
from tests.client.fakes import run
from tests.client.proxies import REGION, embedded_proxy, eventually, stream

ROWS = 4
RUNS = 3


def test_what_was_refused_shifts_no_numbers(tmp_path: Path) -> None:
    """The owner refuses the second batch after each start, and stores all others."""
    seen = 0

    def admit(_: StreamInfo, __: EventBatch) -> str:
        nonlocal seen
        seen += 1
        return "for a test" if seen == 2 else ""

    async def main() -> None:
        nonlocal seen
        board = Board(tmp_path / "board", 1, 0, 1)
        async with embedded_proxy([stream(stream_of(REGION))], admit) as proxy:
            plan = PublisherPlan("p", 0, proxy.address, (400,), ROWS)
            for number in range(RUNS):
                seen = 0
                log = PublisherLog(tmp_path / f"logs-{number}", "p", described([REGION]))
                async with epicast.connect(proxy.address, agent=False, publisher=1) as node:
                    flow = _Flow(node, plan, [REGION], 0, board, log)
                    running = asyncio.ensure_future(flow.run())
                    before = board.sending(0, 0)
                    await eventually(lambda: board.sending(0, 0).acked > before.acked + 2 * ROWS)  # noqa: B023
                    flow.over = True
                    assert await running == ""
                log.close()
            at = board.sending(0, 0)
            assert at.refused == RUNS * ROWS
            async with epicast.connect(proxy.address, agent=False) as node:
                head = await node.stream(stream_of(REGION)).head()
                assert head.seq == at.acked
                found: set[bytes] = set()
                async for item in node.stream(stream_of(REGION)).subscribe(after=0).batches():
                    assert isinstance(item, EventBatch)
                    found |= set(item.payloads())
                    if item.last == head.seq:
                        break
            sent = make_batch(1, 1, 1, at.acked + at.refused, keyed=False).payloads()
            assert len(found) == at.acked
            assert found < set(sent)

    run(main)
