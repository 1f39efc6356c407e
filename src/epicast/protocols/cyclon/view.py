"""The neighbours of a Cyclon node, each with its age."""

from collections.abc import Collection, Iterator
from random import Random

from epicast.core import NodeId, Peer
from epicast.core.ranges import MAX_SEQ
from epicast.core.sampling import sample, sample_except
from epicast.protocols.cyclon.messages import Entry


class AgedView:
    """Peers by id. Ages are kept as periods of birth, so that all of them grow in one step."""

    __slots__ = ("_entries", "_period")

    def __init__(self) -> None:
        self._entries: dict[NodeId, tuple[Peer, int]] = {}
        self._period = 0

    def grow_older(self) -> None:
        self._period += 1

    def add(self, entry: Entry) -> None:
        age = min(max(0, entry.age), MAX_SEQ)  # it grows, and must still be encoded then
        self._entries[entry.peer.id] = (entry.peer, self._period - age)

    def pop(self, peer: NodeId) -> Entry:
        found, born = self._entries.pop(peer)
        return Entry(found, self._period - born)

    def oldest(self) -> Peer:
        """Of several, the one that is here for longest."""
        return min(self._entries.values(), key=_birth)[0]

    def sample(self, rng: Random, k: int, excluded: Collection[NodeId] = ()) -> list[Entry]:
        period, entries = self._period, list(self._entries.values())
        if excluded:
            entries = [entry for entry in entries if entry[0].id not in excluded]
        return [Entry(peer, period - born) for peer, born in sample(rng, entries, k)]

    def sample_ids(self, rng: Random, k: int, excluded: Collection[NodeId] = ()) -> list[NodeId]:
        return sample_except(rng, list(self._entries), k, excluded)

    def total_age(self) -> int:
        return sum(self._period - born for _, born in self._entries.values())

    def __contains__(self, peer: NodeId) -> bool:
        return peer in self._entries

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _birth(entry: tuple[Peer, int]) -> int:
    return entry[1]
