"""Who goes on when every member of a chain was started again.

All of them had everything that was ever shown, but any of them may have lost part of it since, and
know it or not. So each tells the others how far its histories are. The one that lacks least of what
any of them has goes on, and the others join it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from epicast.core import NodeId
from epicast.protocols.sprinkler.chain.messages import Place

Extent = tuple[int, int, int]
"""How far a history is: its epoch, the epoch of the chain in which its last event was numbered, and
the number of that event. Of two histories the greater one has more."""


def extent(place: Place) -> Extent:
    numbered = [epoch for epoch, first in place.lineage if first <= place.end]
    return place.epoch, max(numbered, default=0), place.end


class Told(Struct, frozen=True):
    """What a replica that was started again has told."""

    incarnation: int
    chain_epoch: int
    places: Mapping[int, Place]
    """By stream of the region."""


class Candidates:
    def __init__(self) -> None:
        self._told: dict[NodeId, Told] = {}

    def tell(self, replica: NodeId, told: Told) -> None:
        self._told[replica] = told

    def has_told(self, replica: NodeId, incarnation: int, chain_epoch: int) -> bool:
        told = self._told.get(replica)
        return told is not None and (told.incarnation, told.chain_epoch) == (
            incarnation, chain_epoch,
        )  # fmt: skip

    def best(self, among: Sequence[NodeId], synced: Collection[int]) -> NodeId:
        """Who is to go on, of replicas in the order of the chain; 0 if none has told anything. Of
        the streams that promise to be on disk (`synced`), whoever doubts none has everything that
        was shown. Among those it is who lacks the fewest events that others have."""
        told = [replica for replica in among if replica in self._told]
        return min(told, key=lambda replica: self._lacks(replica, told, synced), default=0)

    def _lacks(
        self, replica: NodeId, told: Sequence[NodeId], synced: Collection[int]
    ) -> tuple[int, ...]:
        lacking = {True: 0, False: 0}
        for stream, place in self._told[replica].places.items():
            furthest = self._furthest(stream, told)
            if extent(place) < furthest:
                lacking[stream in synced] += max(1, furthest[2] - place.end)
        doubts = self.doubts(replica, told)
        return len(doubts & set(synced)), lacking[True], len(doubts), lacking[False]

    def _furthest(self, stream: int, among: Sequence[NodeId]) -> Extent:
        places = (self._told[replica].places.get(stream) for replica in among)
        return max(extent(place) for place in places if place is not None)

    def doubts(self, replica: NodeId, among: Sequence[NodeId]) -> set[int]:
        """Streams of which a replica may lack what was shown: it says so itself, and none that is
        sure to lack nothing is known to have no more."""
        told = self._told.get(replica)
        return {
            stream
            for stream, place in (told.places.items() if told is not None else ())
            if place.afresh and not self._is_vouched_for(stream, extent(place), among)
        }

    def _is_vouched_for(self, stream: int, reached: Extent, among: Sequence[NodeId]) -> bool:
        places = (self._told[replica].places.get(stream) for replica in among)
        return any(
            not place.afresh and extent(place) <= reached for place in places if place is not None
        )
