"""Running a service as a process: until it is told to stop, or fails."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Protocol as Interface


class Service(Interface):
    async def start(self) -> object:
        """Return once it serves; raises if it cannot."""

    async def wait(self) -> None:
        """Until it has ended; raises what made it fail."""

    async def stop(self) -> None:
        """End in good order; also if it was never started, or not completely."""


async def serve(
    service: Service, *, ready: Callable[[], object], lifeline: int | None = None
) -> None:
    """Start a service and call `ready`; stop it at SIGTERM, at SIGINT, or at the end of the pipe
    `lifeline`, whose other end is held by whoever must not be outlived.

    A signal that is ignored stays ignored. Raises what made the service fail.
    """
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, told.set)
    if lifeline is not None:
        os.set_blocking(lifeline, False)
        loop.add_reader(lifeline, told.set)
    stopping = loop.create_task(told.wait())
    try:
        if await _unless(stopping, loop.create_task(_started(service))):
            ready()
            await _unless(stopping, loop.create_task(service.wait()))
    finally:
        stopping.cancel()
        if lifeline is not None:
            loop.remove_reader(lifeline)
        await service.stop()


async def _started(service: Service) -> None:
    await service.start()


async def _unless(stopping: asyncio.Task[bool], work: asyncio.Task[None]) -> bool:
    """Whether the work came to its end before it was time to stop; raises what it raised."""
    await asyncio.wait([stopping, work], return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        work.result()
        return True
    work.cancel()
    await asyncio.wait([work])
    if not work.cancelled():
        work.result()
    return False
