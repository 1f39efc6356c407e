"""Where a query is in its streams, as Spark's checkpoint keeps it.

JSON: {"@geoplex": "name", "stream": [epoch, seq], …}. No stream's name begins with "@".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from epicast import Watermark
from epicast.pipeline.lake.errors import LakeOptionError, WrongLake
from epicast.pipeline.lake.ranges import BEGINNING, Range

_GEOPLEX = "@geoplex"


class Offsets:
    def __init__(self, geoplex: str, places: Mapping[str, Watermark]) -> None:
        self.geoplex = geoplex
        self.places = dict(places)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Offsets:
        places = {name: place for name, place in value.items() if name != _GEOPLEX}
        try:
            found = msgspec.convert(places, dict[str, Watermark])
            return cls(msgspec.convert(value.get(_GEOPLEX), str), found)
        except msgspec.ValidationError as error:
            raise WrongLake(
                f"the checkpoint is not one of Epicast's source ({error}): name another folder as "
                "checkpointLocation"
            ) from error

    def to_json(self) -> dict[str, Any]:
        return {_GEOPLEX: self.geoplex, **{name: [*at] for name, at in self.places.items()}}

    def check(self, geoplex: str, streams: Sequence[str]) -> None:
        """That this is where a query of these streams of this geoplex was."""
        if self.geoplex != geoplex:
            raise WrongLake(
                f"the checkpoint is of geoplex {self.geoplex!r}, the proxy belongs to {geoplex!r}: "
                "name the proxy of the one, or another folder for the checkpoint"
            )
        if {*self.places} != {*streams}:
            raise WrongLake(
                f"the checkpoint is of {_listed(self.places)}, the query reads {_listed(streams)}: "
                "read the same streams, or name another folder for the checkpoint"
            )

    def advanced(self, heads: Mapping[str, Watermark]) -> Offsets:
        """Never backwards: a proxy that was asked may be behind the one asked before. At the
        beginning of a stream without events there is nowhere to go."""
        return Offsets(
            self.geoplex,
            {
                name: at if at == BEGINNING and not heads[name].seq else max(at, heads[name])
                for name, at in self.places.items()
            },
        )

    def limited(self, end: Offsets, most: int) -> Offsets:
        """So that at most about `most` events lie in between; each stream gets its share."""
        ranges = self.ranges_to(end)
        total = sum(found.events for found in ranges)
        if total <= most:
            return end
        places = dict(end.places)
        for found in ranges:
            if found.after in (BEGINNING, Watermark(found.end.epoch, found.after.seq)):
                share = max(1, found.events * most // total)
                places[found.stream] = Watermark(found.end.epoch, found.after.seq + share)
        return Offsets(end.geoplex, places)

    def ranges_to(self, end: Offsets) -> list[Range]:
        return [
            Range(name, at, end.places[name])
            for name, at in self.places.items()
            if at < end.places[name]
        ]


def parse_starting(text: str, streams: Sequence[str]) -> dict[str, Watermark] | None:
    """Where to begin in each stream; None for where they are now."""
    if text == "latest":
        return None
    if text == "earliest":
        return dict.fromkeys(streams, BEGINNING)
    try:
        places = msgspec.json.decode(text, type=dict[str, Watermark])
    except msgspec.MsgspecError as error:
        raise LakeOptionError(
            f"startingOffsets: {text!r} is neither earliest, latest, nor JSON such as "
            f'{{"prices": [0, 0]}} ({error})'
        ) from error
    if {*places} != {*streams}:
        raise LakeOptionError(
            f"startingOffsets: names {_listed(places)}, the query reads {_listed(streams)}"
        )
    return places


def _listed(names: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(sorted(names)) or "nothing"
