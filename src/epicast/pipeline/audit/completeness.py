"""Whether there is all of what the owners logged; and if not, what can be judged all the same.

A log that was not closed may lack its end. What is behind it is in the logs of the other replicas
of a chain, which log the same, or in that of the process that took over: there must be one that was
closed and has the newest number, and together they must not have gaps. Whoever closed it would have
known of more: what was handed out well before that, and is in no log, was never stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from epicast.evidence import Role
from epicast.pipeline.audit.surveys import Survey

if TYPE_CHECKING:
    from epicast.pipeline.audit.case import Case

NEVER = 2**63 - 1
_NOTHING = -1
"""Until then everything can be judged: there was nothing before."""


class Completeness:
    def __init__(self, surveys: Sequence[Survey], case: Case) -> None:
        self._case = case
        owners = {n: each for n, each in enumerate(surveys) if each.role == Role.OWNER}
        streams = {number: _streams_of(each) for number, each in owners.items()}
        owned = {stream for mine in streams.values() for stream in mine}
        used = {segment.stream for segment in case.segments} | {stream for stream, _ in case.acked}
        self.ownerless = used - owned
        """Streams that were used, and of which there is no owner's log."""
        for number, each in owners.items():
            if each.truncated and not streams[number]:
                streams[number] = owned  # its head is gone: it may be of any of them
        self._until = dict.fromkeys(self.ownerless, _NOTHING)
        self._doubtful: set[int] = set()
        for stream in owned:
            logs = [owners[number] for number, mine in streams.items() if stream in mine]
            if any(each.truncated or each.starts_late for each in logs):
                self._doubtful.add(stream)
            self._until[stream] = self._look(stream, logs)
        self._unattributed = set(filter(self._lacks_publishers, owned))
        self.covered = {
            number for number, each in owners.items()
            if each.truncated and streams[number]
            and all(self._until[stream] != _NOTHING for stream in streams[number])
        }  # fmt: skip
        """Truncated logs that lack nothing that is not in others."""

    def judged_until(self, stream: int, epoch: int) -> int:
        """What was handed out by then, and is in no log of the owner, was not stored by it."""
        if stream in self._doubtful and self._is_over(stream, epoch):
            return _NOTHING  # who closed its log may have come later
        return self._until.get(stream, NEVER)

    def publications_judged_until(self, stream: int) -> int:
        """The same of publications, which are not known by their epoch."""
        if stream in self._unattributed:
            return _NOTHING
        epochs = self._case.epochs_of(stream)
        return min(
            (self.judged_until(stream, epoch) for epoch in epochs),
            default=self._until.get(stream, NEVER),
        )

    def _is_over(self, stream: int, epoch: int) -> bool:
        newest = self._newest_epoch(stream)
        return newest is not None and epoch < newest

    def _look(self, stream: int, logs: Sequence[Survey]) -> int:
        if self._has_holes(stream):
            return _NOTHING
        if stream not in self._doubtful:
            return NEVER
        ends = [
            each.closed_at
            for each in logs
            if not each.truncated and each.closed_at and self._has_newest(each, stream)
        ]
        return max(ends) - self._case.rules.grace_ns if ends else _NOTHING

    def _has_holes(self, stream: int) -> bool:
        end = 0
        for epoch in self._case.epochs_of(stream):
            extent = self._case.extents.get((stream, epoch))
            if extent is None:
                continue
            if extent.first > end + 1 or len(extent.known) > 1:
                return True
            end = extent.last
        return False

    def _has_newest(self, each: Survey, stream: int) -> bool:
        """Whether a log goes as far as any."""
        epoch = self._newest_epoch(stream)
        if epoch is None:
            return True
        last = self._case.extents[stream, epoch].last
        return any(
            (mine.stream, mine.epoch, mine.last) == (stream, epoch, last) for mine in each.extents
        )

    def _newest_epoch(self, stream: int) -> int | None:
        """In which anything was stored."""
        return max((epoch for other, epoch in self._case.extents if other == stream), default=None)

    def _lacks_publishers(self, stream: int) -> bool:
        return any(
            extent.known != extent.attributed
            for (other, _), extent in self._case.extents.items()
            if other == stream
        )


def _streams_of(each: Survey) -> set[int]:
    mine = {stream for stream, facts in each.streams.items() if facts.owner == each.region}
    return mine | {extent.stream for extent in each.extents}
