"""Who owns a stream, from where on."""

from __future__ import annotations

from msgspec import Struct

from epicast.core.ranges import Epoch, Id, Seq


class Tenure(Struct, frozen=True, array_like=True):
    """One region's time as the owner of a stream, from when it was given or taken.

    A stream that was never moved has none: its owner is the one in the file. Of two tenures the
    higher one counts. Only the owner gives a stream away, and does not number anything any more, so
    the stream goes on in the same epoch. Who takes it by force cannot know what the owner has
    done: the epoch it begins is higher than any the owner can have used.
    """

    stream: Id
    term: Seq
    """Grows with every move."""
    owner: Id
    """The region."""
    epoch: Epoch
    """In which it begins to number."""
    before: Epoch
    """The epoch that is continued: the same, unless it was taken by force."""
    since: Seq
    """What the stream had when it changed hands."""
    taken: bool
    """Whether the owner has begun. Until then nobody numbers the stream."""
    giver: Id = 0
    """The region that gave it away; 0: it was taken by force."""

    @property
    def rank(self) -> tuple[int, int, bool, int]:
        return (self.term, self.epoch, self.taken, self.owner)


class Loss(Struct, frozen=True, array_like=True):
    """Numbers that were shown in a region, and are not in the stream any more."""

    stream: int
    epoch: int
    first: int
    last: int
    owner: int
    """Who has the stream instead."""

    @property
    def count(self) -> int:
        return self.last - self.first + 1


def lost_by(tenure: Tenure, epoch: int, end: int, *, owned: bool) -> Loss | None:
    """What of a history that ends in `epoch` at `end` is not part of what goes on. Of an owner that
    has begun another epoch meanwhile, what it has in common with others is not known."""
    if epoch == tenure.epoch or not (owned or epoch == tenure.before):
        return None
    first = tenure.since + 1
    if epoch != tenure.before and end < first:
        first = 1
    return Loss(tenure.stream, epoch, first, end, tenure.owner) if first <= end else None
