"""Waiting, for code above this package, which imports no asyncio.

Nothing here starts a task unless it says so; waiting for something that is there already costs
nothing, because callers look before they wait.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

from epicast.runtime.run import loop_factory

T = TypeVar("T")
Task = asyncio.Task
_LOOK_UP_S = 0.2
"""A signal that comes right before a thread blocks does not wake it: Ctrl-C would be lost."""


class Bell:
    """Whoever waits when it rings goes on; a ring that nobody waits for is not remembered."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[bool]] = []

    def ring(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(True)

    async def wait(self, timeout: float | None = None) -> bool:
        """Whether it rang before `timeout` seconds had passed."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(future)
        timer = None if timeout is None else loop.call_later(timeout, _expire, future)
        try:
            return await future
        finally:
            if timer is not None:
                timer.cancel()
            if future in self._waiting:  # not rung: given up, or too late
                self._waiting.remove(future)


def _expire(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)


class Outcome(Generic[T]):
    """A value, or an error, that will be there. Giving up waiting harms nobody else who waits."""

    __slots__ = ("_bell", "_error", "_value", "settled")

    _value: T

    def __init__(self) -> None:
        self.settled = False
        self._error: BaseException | None = None
        self._bell = Bell()

    def resolve(self, value: T) -> None:
        if not self.settled:
            self._value = value
            self._settle()

    def fail(self, error: BaseException) -> None:
        if not self.settled:
            self._error = error
            self._settle()

    def _settle(self) -> None:
        self.settled = True
        self._bell.ring()

    async def wait(self) -> T:
        if not self.settled:
            await self._bell.wait()
        if self._error is not None:
            raise self._error
        return self._value


def call_soon(callback: Callable[[], object]) -> None:
    """In the next turn of the running loop."""
    asyncio.get_running_loop().call_soon(callback)


async def next_turn() -> None:
    """Let everything else have its turn."""
    await asyncio.sleep(0)


async def until_done(future: asyncio.Future[T]) -> T:
    """Wait for what goes on even if nobody waits for it any more."""
    return await asyncio.shield(future)


def spawn(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Run beside the caller; the caller keeps the task and ends it."""
    return asyncio.get_running_loop().create_task(coroutine)


async def done_within(task: asyncio.Task[Any], timeout: float | None) -> bool:
    """Wait for a task, for `timeout` seconds at most; return whether it is over."""
    done, _ = await asyncio.wait([task], timeout=timeout)
    return bool(done)


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it is over; what it raised is of no interest any more."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()


async def in_thread(function: Callable[[], T]) -> T:
    """For what blocks: a file that must be on disk."""
    return await asyncio.to_thread(function)


class BackgroundLoop:
    """An event loop in a thread of its own, for callers that are not asynchronous."""

    def __init__(self, name: str) -> None:
        self._loop = loop_factory()()
        # A daemon: a notebook or script that never closes anything can still end. It must not run
        # on while the interpreter is taken down under it, which ends in a crash, hence `atexit`.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine; an interruption of the caller (Ctrl-C) cancels it."""
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("a blocking call inside the loop that is to serve it")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            while not future.done():
                with suppress(TimeoutError):
                    future.result(_LOOK_UP_S)
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """What still goes on in the loop is cancelled."""
        atexit.unregister(self.close)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.run_until_complete(_end_tasks())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
