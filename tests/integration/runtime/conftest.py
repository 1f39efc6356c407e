"""Runs a coroutine in each kind of loop and insists that it leaves nothing behind."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from tests.integration.runtime.support import started

Run = Callable[[Coroutine[Any, Any, None]], None]
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=sorted(LOOPS))
def run(request: pytest.FixtureRequest) -> Run:
    def run_to_the_end(main: Coroutine[Any, Any, None]) -> None:
        problems: list[dict[str, Any]] = []

        async def watched() -> None:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: problems.append(context))
            try:
                await asyncio.wait_for(main, 60)
            except BaseException:
                for driver in started:
                    with suppress(Exception):
                        await driver.stop()
                raise
            finally:
                started.clear()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"tasks left behind: {left}"

        with asyncio.Runner(loop_factory=LOOPS[request.param], debug=True) as runner:
            runner.run(watched())
        gc.collect()  # a socket or transport that was not closed warns now
        assert not problems

    return run_to_the_end
