"""Streams of which a replica may lack events at the end that others have seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

import msgspec

from epicast.core import Effects, Recovered

_SAVED = "doubts"


class Doubts:
    """Kept on disk until the replica is let in with everything, or has begun another epoch: of what
    was lost once, files that are opened a second time say nothing any more."""

    def __init__(self) -> None:
        self._epochs: Mapping[int, int] = {}
        """By stream: the epoch in which it was found to lack something."""
        self._vouched: Set[int] = frozenset()

    def recall(self, recovered: Recovered, fx: Effects) -> None:
        """Take up what was noted and what has just been found. Where another epoch has begun since,
        there is nothing to doubt."""
        saved = recovered.saved.get(_SAVED)
        noted = msgspec.msgpack.decode(saved, type=dict[int, int]) if saved is not None else {}
        epochs = recovered.epochs
        self._epochs = {s: epoch for s, epoch in noted.items() if epochs.get(s, 0) <= epoch}
        self._vouched = frozenset()
        self._keep({**self._epochs, **{s: epochs[s] for s in recovered.doubtful}}, fx)

    def about(self, stream: int) -> bool:
        return stream in self._epochs

    def vouch(self, unsure: Collection[int]) -> None:
        """Of streams that are not among `unsure`, a replica that is sure of its own has no more."""
        self._vouched = self._epochs.keys() - set(unsure)

    def settle(self, owned: Collection[int], *, is_alone: bool, fx: Effects) -> set[int]:
        """This replica becomes the head: the streams that have to go on in another epoch, since
        nobody has what this replica has lost. The note of these is void once that is on the disk,
        the note of others now."""
        doubtful = self._epochs.keys() - self._vouched
        noted = {s: epoch for s, epoch in self._epochs.items() if s in doubtful and s in owned}
        self._keep(noted, fx)
        self._epochs = {}
        return set(doubtful) if is_alone else set()

    def forget(self, fx: Effects) -> None:
        """The replica was let in with all that was ever shown."""
        self._keep({}, fx)

    def _keep(self, epochs: Mapping[int, int], fx: Effects) -> None:
        if epochs != self._epochs:
            self._epochs = epochs
            fx.save(_SAVED, msgspec.msgpack.encode(epochs))
