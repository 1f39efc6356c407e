"""Those the oracles keep an eye on: how far they are, and what they were told."""

from __future__ import annotations

from msgspec import Struct

from epicast.core import IntervalSet
from epicast.sim.campaign.columns import EventColumns


class Held(Struct):
    """How far a replica is in a stream."""

    epoch: int = 0
    end: int = 0


class Session(Struct):
    """One application's subscription, across restarts of its node."""

    name: str
    stream: int
    window: int
    epoch: int = 0
    end: int = 0
    restarts: int = 0
    """Because of a new epoch."""
    resets: int = 0
    """Because of that or of retention."""
    rows: int = 0
    tombstones: int = 0


class Lane:
    """What one publisher has published to one stream, and what it was told of it."""

    def __init__(self) -> None:
        self.columns = EventColumns()
        self.waiting: dict[int, int] = {}
        """First and last number of publications without an answer."""
        self.acknowledged = IntervalSet()
        self.refused = IntervalSet()
        self.unsound = IntervalSet()
        """Numbers of events that the owner must refuse."""
