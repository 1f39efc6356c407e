"""How fast a node may publish: as fast as events live long enough (adaptive gossip).

After Rodrigues, Handurukande, Pereira, Guerraoui and Kermarrec (2003). A node watches at which age
events would be thrown out by the smallest buffer in the system, of which gossip tells. If that is
too young for events to have reached everybody, there is too much in the system, and every publisher
that notices slows down; if it is old enough, those that want to publish more try to.
"""

from __future__ import annotations

from collections import deque
from random import Random

from epicast.core import EventBatch
from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.notifications import NotificationBuffer

_WINDOW_ROUNDS = 20
"""How long a small buffer is remembered that is not heard of again."""
_MEMORY = 0.8
"""Weight of the past in the mean age."""
_TOLERANCE = 0.1
_SLOWER, _FASTER = 0.8, 1.1
_LEAST_RATE = 0.05


class PublishRate:
    __slots__ = ("_config", "_previous", "_rng", "_smallest", "_tokens", "_waiting",
                 "events_waiting", "mean_age", "rate")  # fmt: skip

    def __init__(self, config: LpbcastConfig, rng: Random) -> None:
        self._config = config
        self._rng = rng
        self._waiting: deque[EventBatch] = deque()
        self.events_waiting = 0
        self.rate = max(1.0, config.max_events / config.critical_age_rounds)
        """Events per round that this node may publish."""
        self._tokens = self.rate
        self.mean_age = float(config.critical_age_rounds)
        """At which the smallest buffer would throw events out."""
        self._smallest = self._previous = config.max_events

    @property
    def smallest_buffer(self) -> int:
        return min(self._smallest, self._previous)

    def hear_of_buffer(self, max_events: int) -> None:
        if 0 < max_events < self._smallest:
            self._smallest = max_events

    def room(self) -> int:
        return max(0, self._config.max_waiting - self.events_waiting)

    def put(self, batch: EventBatch) -> None:
        self._waiting.append(batch)
        self.events_waiting += batch.rows

    def take(self) -> list[EventBatch]:
        """What may be published now, in order."""
        if not self._config.adaptive:
            return self.take_at_most(self.events_waiting)
        taken = self.take_at_most(int(self._tokens))
        self._tokens -= sum(batch.rows for batch in taken)
        return taken

    def take_at_most(self, most: int) -> list[EventBatch]:
        """The first so many events, however fast that is."""
        taken = []
        while self._waiting and most > 0:
            batch = self._waiting[0]
            rows = min(batch.rows, most)
            most -= rows
            self._waiting.popleft()
            if rows < batch.rows:
                self._waiting.appendleft(batch.slice(batch.first + rows, batch.last))
                batch = batch.slice(batch.first, batch.first + rows - 1)
            self.events_waiting -= rows
            taken.append(batch)
        return taken

    def next_round(self, number: int, buffer: NotificationBuffer) -> None:
        config = self._config
        if not config.adaptive:
            return
        capacity = _capacity(config, buffer)
        if number % _WINDOW_ROUNDS == 0:
            self._previous, self._smallest = self._smallest, capacity
        self._smallest = min(self._smallest, capacity)
        critical = config.critical_age_rounds
        seen = buffer.mean_age_beyond(self.smallest_buffer - 1)
        if seen is None:
            seen = 2.0 * critical
        self.mean_age = _MEMORY * self.mean_age + (1 - _MEMORY) * seen
        if self.mean_age < critical * (1 - _TOLERANCE):
            self.rate = max(_LEAST_RATE, self.rate * _SLOWER)
        elif (
            self.mean_age > critical * (1 + _TOLERANCE)
            and self._waiting
            and self._rng.random() < 0.5  # not all at once, or the whole system would swing
        ):
            self.rate = min(float(config.max_events), self.rate * _FASTER)
        self._tokens = min(max(1.0, self.rate), self._tokens + self.rate)


def _capacity(config: LpbcastConfig, buffer: NotificationBuffer) -> int:
    """Events there is room for, if all are as large as those that are here now."""
    if not buffer.bytes:
        return config.max_events
    return max(1, min(config.max_events, config.max_buffer_bytes * len(buffer) // buffer.bytes))
