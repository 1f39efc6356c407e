"""What a subscription gives besides events, and the place in a stream it is at."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from epicast.core import Event


class Watermark(NamedTuple):
    """A place in a stream: everything up to `seq` of `epoch` is dealt with.

    Watermarks compare in order. `Watermark(0, 0)` is the beginning, whatever the epoch.
    """

    epoch: int
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.seq}"


BEGINNING = Watermark(0, 0)


class Tombstone(Struct, frozen=True, gc=False):
    """The events first..last of a stream were garbage-collected before they got here."""

    stream: int
    first: int
    last: int


class Reset(Struct, frozen=True, gc=False):
    """The stream does not continue where the subscription was: it goes on behind `watermark`.

    Either its owner has lost events beyond repair and begun a new epoch, in which case what was
    built from the old one is void; or the events in between were dropped by retention.
    """

    stream: int
    watermark: Watermark


Item = Event | Tombstone | Reset
