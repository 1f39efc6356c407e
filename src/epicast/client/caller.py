"""From any thread into a loop that runs in another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

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


class Closing(ABC):
    """To be closed, or used in a `with` block."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
