"""Every kind of process, ended in every way, while every kind of client is attached.

A new kind of process is a row of `stage.PROCESSES`, a new kind of client one of
`clients.PUBLISHERS` or a subscription in `clients.Crowd`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import epicast
from tests.integration.endings.clients import Crowd
from tests.integration.endings.stage import ENDINGS, PROCESSES, staged


@pytest.mark.timeout(290)
def test_whatever_ends_everybody_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        crowd = Crowd(stage, tmp_path)
        try:
            await crowd.start()
            await crowd.settle("at the start")
            for process, kind in PROCESSES.items():
                for ending, end in ENDINGS.items():
                    await asyncio.to_thread(end, stage, kind)
                    await crowd.settle(f"{process}, {ending}")
                    await asyncio.to_thread(stage.wait_whole)
            await crowd.finish()
            crowd.check()
        finally:
            await crowd.stop()

    with staged(tmp_path) as stage:
        epicast.run(main())
