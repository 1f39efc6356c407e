"""What a proxy knows of who owns streams, and what it remembers of that when it is started again.

Tenures are told to everybody, so who was away learns of them, and the highest counts for all. But
what a region has begun as an owner only that region knows: a tenure of its own that it does not
remember, because its disk is gone, says that it has numbered events it knows nothing of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from epicast.core import Effects, NodeId
from epicast.protocols.sprinkler.messages import Counter
from epicast.protocols.sprinkler.moving.messages import Ownerships
from epicast.protocols.sprinkler.moving.tenure import Loss, Tenure

_SAVED = "tenures"
_MOST_LOSSES = 1000


class _Saved(Struct, array_like=True):
    tenures: list[Tenure] = []
    remembered: list[int] = []
    losses: list[Loss] = []


class Ledger:
    def __init__(self, region: int, saved: Mapping[str, bytes] | None = None) -> None:
        content = saved.get(_SAVED) if saved is not None else None
        found = _Saved() if content is None else msgspec.msgpack.decode(content, type=_Saved)
        self._region = region
        self.tenures = {tenure.stream: tenure for tenure in found.tenures}
        self._remembered = set(found.remembered)
        """Streams whose tenure was begun here, and all that followed is here."""
        self.losses = found.losses
        self._told: dict[NodeId, dict[int, Tenure]] = {}
        """What others have said."""

    def keep(self, tenure: Tenure, *, remembered: bool) -> None:
        self.tenures[tenure.stream] = tenure
        (self._remembered.add if remembered else self._remembered.discard)(tenure.stream)

    def is_news(self, tenure: Tenure) -> bool:
        known = self.tenures.get(tenure.stream)
        return known is None or tenure.rank > known.rank

    def remembers(self, tenure: Tenure) -> bool:
        return self.tenures.get(tenure.stream) == tenure and tenure.stream in self._remembered

    def save(self, fx: Effects) -> None:
        saved = _Saved(list(self.tenures.values()), sorted(self._remembered), self.losses)
        fx.save(_SAVED, msgspec.msgpack.encode(saved))

    def lose(self, loss: Loss) -> None:
        """Kept until somebody has taken note of it; of very many, the last."""
        self.losses = [*self.losses, loss][-_MOST_LOSSES:]

    def accept_losses(self, stream: int) -> bool:
        """Whether there were any."""
        before, self.losses = self.losses, [loss for loss in self.losses if loss.stream != stream]
        return len(self.losses) < len(before)

    # -- whose a stream is -----------------------------------------------------------------------

    def owner_of(self, stream: int, otherwise: int) -> int:
        """The region that numbers a stream; 0: nobody does until its owner knows where to begin."""
        tenure = self.tenures.get(stream)
        if tenure is None:
            return otherwise
        if tenure.owner == self._region:
            if tenure.taken:
                return self._region if stream in self._remembered else 0
            return tenure.giver
        return tenure.owner if tenure.taken or tenure.giver == self._region else tenure.giver

    def waits(self, stream: int) -> str:
        """Why nobody numbers a stream at the moment; empty if somebody does."""
        tenure = self.tenures.get(stream)
        if tenure is None or (tenure.taken and self.owner_of(stream, 0)):
            return ""
        if tenure.taken:
            return "this region owns it, and is finding out where it was"
        return "it is being handed over to another region"

    # -- what others know ------------------------------------------------------------------------

    def heard(self, peer: NodeId, tenures: Iterable[Tenure]) -> None:
        self._told[peer] = {tenure.stream: tenure for tenure in tenures}

    def forget(self, peer: NodeId) -> None:
        self._told.pop(peer, None)

    def heeded(self, peer: NodeId, counters: Sequence[Counter]) -> Sequence[Counter]:
        """What somebody says of streams whose owner it knows. Who has missed a move may be at
        numbers that nobody else has, or believe that they are its own to give; and what comes
        before the epoch in which the owner has begun is void."""
        told = self._told.get(peer, {})
        if not (told or self.tenures):
            return counters
        return [
            counter
            for counter in counters
            if told.get(counter.stream) == (known := self.tenures.get(counter.stream))
            and (known is None or counter.epoch >= known.epoch or not counter.seq)
        ]

    def spread(self, to: Sequence[NodeId], fx: Effects) -> None:
        """Nobody may hear of what could be forgotten here."""
        if to and self.tenures:
            fx.send_after_append(to, Ownerships(tuple(self.tenures.values())))


def owned_streams(
    saved: Mapping[str, bytes], region: int, declared: Mapping[int, int]
) -> frozenset[int]:
    """The streams a region numbers, by what it has saved; `declared` are the owners in the file."""
    ledger = Ledger(region, saved)
    return frozenset(s for s, owner in declared.items() if ledger.owner_of(s, owner) == region)
