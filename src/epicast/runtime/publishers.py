"""Back-pressure: publishers wait while the protocol has no room.

Topics have room of their own: publishers of one that is full hold up nobody else's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from epicast.core import Publication
from epicast.runtime.errors import DriverError, NoRoom

Waiting = tuple[Publication, asyncio.Future[None]]


class Publishers:
    """`accepted` is what the next step hands to the protocol."""

    def __init__(self, max_waiting: int) -> None:
        self.accepted: list[Publication] = []
        self.waiting = 0
        self._accepted_events: dict[int, int] = {}
        self._max_waiting = max_waiting
        self._waiting: dict[int, deque[Waiting]] = {}
        """By topic; no queue is empty."""

    def offer(self, publication: Publication, room: int) -> bool:
        """Accept a publication if there is room in its topic and nobody came before it."""
        topic = publication.topic
        if topic in self._waiting or room <= self._accepted_events.get(topic, 0):
            return False
        self._accept(publication)
        return True

    def wait(self, publication: Publication) -> asyncio.Future[None]:
        """Queue up; done once the publication is accepted."""
        if self.waiting >= self._max_waiting:
            raise NoRoom(
                f"{self._max_waiting} publishers wait already; publish less, or raise "
                "Limits.max_waiting_publishers"
            )
        accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(publication.topic, deque()).append((publication, accepted))
        self.waiting += 1
        return accepted

    def admit(self, room: Callable[[int], int]) -> bool:
        """Accept from those who wait, as far as there is room in their topics; whether any was
        accepted."""
        for topic, queue in list(self._waiting.items()):
            while queue and room(topic) > self._accepted_events.get(topic, 0):
                publication, accepted = queue.popleft()
                self.waiting -= 1
                if not accepted.done():
                    accepted.set_result(None)
                    self._accept(publication)
            if not queue:
                del self._waiting[topic]
        return bool(self.accepted)

    def take(self) -> list[Publication]:
        taken, self.accepted = self.accepted, []
        self._accepted_events.clear()
        return taken

    def reject_all(self, error: DriverError) -> None:
        self.accepted.clear()
        queues, self._waiting = self._waiting, {}
        self.waiting = 0
        for queue in queues.values():
            for _, accepted in queue:
                if not accepted.done():
                    accepted.set_exception(error)
                    accepted.exception()  # seen: who queued it need not wait for it any more

    def _accept(self, publication: Publication) -> None:
        self.accepted.append(publication)
        topic = publication.topic
        rows = max(1, publication.batch.rows)
        self._accepted_events[topic] = self._accepted_events.get(topic, 0) + rows
