"""Streams whose history on this replica may lack events that others have seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

import msgspec

from epicast.core import Effects, Recovered

_SAVED = "doubts"


class Doubts:
    """Notes of streams that may lack events. They are kept on disk until the replica has joined the
    chain or begun a new epoch, because files report a loss only the first time they are opened."""

    def __init__(self) -> None:
        self._epochs: Mapping[int, int] = {}
        """By stream: the epoch in which it was found to lack something."""
        self._vouched: Set[int] = frozenset()

    def recall(self, recovered: Recovered, fx: Effects) -> None:
        """Restore the saved notes and add what opening the files has found. A note is dropped if
        its stream has begun a newer epoch since."""
        saved = recovered.saved.get(_SAVED)
        noted = msgspec.msgpack.decode(saved, type=dict[int, int]) if saved is not None else {}
        epochs = recovered.epochs
        self._epochs = {s: epoch for s, epoch in noted.items() if epochs.get(s, 0) <= epoch}
        self._vouched = frozenset()
        self._keep({**self._epochs, **{s: epochs[s] for s in recovered.doubtful}}, fx)

    def about(self, stream: int) -> bool:
        return stream in self._epochs

    def vouch(self, unsure: Collection[int]) -> None:
        """Trust this replica's history of every stream except `unsure`: another replica, which
        knows that its own history is complete, has no more events than this one."""
        self._vouched = self._epochs.keys() - set(unsure)

    def settle(self, owned: Collection[int], *, is_alone: bool, fx: Effects) -> set[int]:
        """Return the streams that the new head must continue in a new epoch, because it may have
        lost events that no other replica has. Their notes stay on disk until the new epoch is
        written; all other notes are removed."""
        doubtful = self._epochs.keys() - self._vouched
        noted = {s: epoch for s, epoch in self._epochs.items() if s in doubtful and s in owned}
        self._keep(noted, fx)
        self._epochs = {}
        return set(doubtful) if is_alone else set()

    def forget(self, fx: Effects) -> None:
        """Remove all notes: the replica has joined the chain, so it lacks nothing."""
        self._keep({}, fx)

    def _keep(self, epochs: Mapping[int, int], fx: Effects) -> None:
        if epochs != self._epochs:
            self._epochs = epochs
            fx.save(_SAVED, msgspec.msgpack.encode(epochs))
