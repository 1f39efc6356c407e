"""Back-pressure: publishers wait while the protocol has no room."""

from __future__ import annotations

import asyncio
from collections import deque

from epicast.core import Publication
from epicast.runtime.errors import DriverError, NoRoom


class Publishers:
    """`accepted` is what the next step hands to the protocol."""

    def __init__(self, max_waiting: int) -> None:
        self.accepted: list[Publication] = []
        self._accepted_events = 0
        self._max_waiting = max_waiting
        self._waiting: deque[tuple[Publication, asyncio.Future[None]]] = deque()

    def offer(self, publication: Publication, room: int) -> bool:
        """Accept a publication if there is room and nobody came before it."""
        if self._waiting or room <= self._accepted_events:
            return False
        self._accept(publication)
        return True

    def wait(self, publication: Publication) -> asyncio.Future[None]:
        """Queue up; done once the publication is accepted."""
        if len(self._waiting) >= self._max_waiting:
            raise NoRoom(
                f"{self._max_waiting} publishers wait already; publish less, or raise "
                "Limits.max_waiting_publishers"
            )
        accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((publication, accepted))
        return accepted

    def admit(self, room: int) -> bool:
        """Accept from those who wait, as far as there is room; whether any was accepted."""
        while self._waiting and room > self._accepted_events:
            publication, accepted = self._waiting.popleft()
            if not accepted.done():
                accepted.set_result(None)
                self._accept(publication)
        return bool(self.accepted)

    def take(self) -> list[Publication]:
        taken, self.accepted = self.accepted, []
        self._accepted_events = 0
        return taken

    def reject_all(self, error: DriverError) -> None:
        self.accepted.clear()
        while self._waiting:
            _, accepted = self._waiting.popleft()
            if not accepted.done():
                accepted.set_exception(error)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def _accept(self, publication: Publication) -> None:
        self.accepted.append(publication)
        self._accepted_events += max(1, publication.batch.rows)
