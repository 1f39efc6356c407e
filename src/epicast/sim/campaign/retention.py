"""Histories that are bounded by size: what is drawn of them, and what may be missing because of it.

Who is behind retention gets one reset that says where the stream goes on, and never a tombstone in
place of what was dropped. So a reset, and a history that begins behind it, need a history that once
began there, which is known of all replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from msgspec import structs

from epicast.log import History
from epicast.sim.campaign.faults import Cut, CutEdge, Fault, PauseEdge, isolating
from epicast.sim.campaign.plan import MS, SECOND, PlannedEdge, PlannedRegion, PlannedStream
from epicast.sim.campaign.truth import Broken

RETAINED_SEGMENT_BYTES = 4096


def draw_retention(
    rng: Random,
    streams: tuple[PlannedStream, ...],
    regions: Sequence[PlannedRegion],
    moved: set[str],
) -> tuple[PlannedStream, ...]:
    """Bound the histories of most streams, in a third of the runs, to about a second of events.

    Streams that move or belong to a chain are left alone: the truth about them needs all of their
    history.
    """
    alone = {region.name for region in regions if region.replicas == 1}
    if rng.random() < 2 / 3:
        return streams
    return tuple(
        stream
        if stream.name in moved or stream.owner not in alone or rng.random() < 0.3
        else structs.replace(stream, retain_bytes=rng.choice((8 << 10, 24 << 10, 64 << 10)))
        for stream in streams
    )  # fmt: skip


def draw_absences(
    rng: Random, regions: Sequence[str], edges: Sequence[PlannedEdge], within: tuple[int, int]
) -> tuple[Fault, ...]:
    """Draw up to two edges and a region that are cut off, or stopped, for most of a run."""
    begin, end = within
    absences: list[Fault] = []
    there = [edge for edge in edges if edge.subscribed and not edge.joins_ns]
    for edge in rng.sample(there, min(2, len(there))):
        at = begin + rng.randrange(SECOND)
        until = end - rng.randrange(SECOND)
        kind = rng.choice((CutEdge, PauseEdge)) if not edge.at else PauseEdge
        absences.append(kind(at_ns=at, until_ns=until, edge=edge.name))
    if len(regions) > 1:
        region = rng.choice(regions)
        at, until = begin + 500 * MS, end - rng.randrange(SECOND)
        pairs = isolating(region, list(regions))
        absences.append(Cut(at_ns=at, until_ns=until, pairs=pairs))
    return tuple(absences)


class Retention:
    """Where histories have begun, by stream and epoch."""

    def __init__(self) -> None:
        self._starts: set[tuple[int, int, int]] = set()

    def note(self, history: History) -> None:
        """Retention may have dropped something, or the history was opened."""
        self._starts.add((history.stream, history.epoch, history.start))

    def check(self, who: str, stream: int, epoch: int, first: int) -> None:
        """Check that `who` may skip everything before `first`."""
        if first > 1 and (stream, epoch, first) not in self._starts:
            raise Broken(f"{who}: goes on at {first} of epoch {epoch}, where no history begins")
