"""How far the owner of a stream is in giving it away.

The region that is to have it must first have what there was when it was asked for; meanwhile the
owner goes on. Then the owner takes no more publications, until the other region has the last event.
Only then is the stream given away. If either takes too long, nothing has happened.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from epicast.core import NodeId


class Stage(Enum):
    NEARS = "nears"
    """The other region catches up."""
    STOPPED = "stopped"
    """The owner numbers nothing more, and waits for the other region to have everything."""
    GIVEN = "given"
    """The owner has decided; the other region has to begin."""


class Handover(Struct):
    stream: int
    target: int
    """The region that is to have it."""
    asker: NodeId
    mark: int
    """What it must have before the owner stops."""
    deadline: int
    stage: Stage = Stage.NEARS
    reached: int = 0
    """How far it has said to be,"""
    heard: bool = False
    """if it has, since this stage began."""

    def advance(self, stage: Stage, deadline: int) -> None:
        self.stage, self.deadline = stage, deadline
        self.heard = False

    def has(self, seq: int) -> bool:
        return self.heard and self.reached >= seq
