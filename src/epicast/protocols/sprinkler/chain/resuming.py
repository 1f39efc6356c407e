"""Choosing the replica that continues a chain after all its members have restarted.

Every member once had all events that were shown, but any of them may have lost some since, with or
without noticing. So each restarted member tells the others how long its histories are. The replica
that lacks the fewest events goes on alone, and the others join it.
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
    """The extents of a restarted replica's histories, as it has announced them."""

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
        """Return the replica that should go on, or 0 if none of them has told anything. Replicas
        that doubt no stream with `ack = "disk"` (`synced`) come first, because they have all events
        that were shown; then those that lack the fewest events; then the order of the chain."""
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
        """Return the streams of which a replica may lack events that were shown. It says so itself,
        and every replica without doubts about the stream has more of it."""
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
