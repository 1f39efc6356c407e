"""From any thread into a loop that runs in another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from epicast.client.errors import Closed
from epicast.runtime.waiting import BackgroundLoop

T = TypeVar("T")


class Caller:
    """Does things in the loop's thread, for callers in others."""

    def __init__(self) -> None:
        self._loop = BackgroundLoop("epicast")

    def wait(self, start: Callable[[], Awaitable[T]]) -> T:
        if not self._loop.running:
            raise Closed("the node was closed")

        async def work() -> T:
            return await start()

        return self._loop.run(work())

    def call(self, function: Callable[[], T]) -> T:
        if not self._loop.running:
            raise Closed("the node was closed")

        async def work() -> T:
            return function()

        return self._loop.run(work())

    def close(self) -> None:
        self._loop.close()
