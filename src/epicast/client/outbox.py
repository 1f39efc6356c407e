"""Publications of a node on their way to the protocol, which takes only so many at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from epicast.client.edges import Driver
from epicast.core import EventBatch
from epicast.runtime.errors import DriverError, NoRoom
from epicast.runtime.waiting import call_soon


class Outgoing(NamedTuple):
    batch: EventBatch
    first: int
    """Of the publisher's own numbers."""
    level: str


class Outbox:
    """In order. Bounded by the streams, each of which counts what it has not seen acknowledged."""

    def __init__(self, driver: Driver, publisher: int) -> None:
        self.publisher = publisher
        self._driver = driver
        self._waiting: deque[Outgoing] = deque()

    def expect(self, hand_over: Callable[[], object]) -> None:
        """Something is being gathered: have it handed over in the next turn of the loop, right
        before the driver's step, so that it is sent in the same turn."""
        call_soon(hand_over)
        self._driver.wake()

    def send(self, outgoing: Outgoing) -> None:
        self._waiting.append(outgoing)
        self.pump()

    def pump(self) -> None:
        """Hand over what the protocol takes; to be called again when it may have room."""
        waiting = self._waiting
        while waiting:
            batch, first, level = waiting[0]
            try:
                self._driver.publish_nowait(batch, self.publisher, first, level=level)
            except NoRoom:
                return
            except DriverError:
                waiting.clear()  # the node is over, and says so to everybody
                return
            waiting.popleft()
