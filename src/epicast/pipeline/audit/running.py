"""Pieces in, verdicts out: block after block, in the order in which pieces were sorted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

from epicast.pipeline.audit.blocks import Block
from epicast.pipeline.audit.case import Case
from epicast.pipeline.audit.cutting import Part, Piece, Space
from epicast.pipeline.audit.judging import Got, Judge
from epicast.pipeline.audit.packing import pack
from epicast.pipeline.audit.publications import PublishedBlock, judge_acked
from epicast.pipeline.audit.tallies import Tally

_MOST_TALLIES = 10_000
"""Kept until they are handed on."""


class About(IntEnum):
    SUBSCRIPTION = 0
    PUBLISHER = 1
    CROSSING = 2
    """Publications in more than one block; the payload is a `Partial`."""
    OWNER = 3


class Verdict(NamedTuple):
    about: int
    who: int
    """The segment of a subscription, else the log."""
    stream: int
    payload: bytes


def judge_blocks(pieces: Iterable[Piece], case: Case) -> Iterator[Verdict]:
    """`pieces` are sorted, and every block of which there are some is complete."""
    tallies: dict[tuple[int, int, int], Tally] = {}
    for (space, stream, place, number), group in groupby(pieces, lambda piece: piece[:4]):
        judged = _judge_block if space == Space.STREAM else _judge_publications
        for about, who, found in judged(case, stream, place, number, group):
            if isinstance(found, bytes):
                yield Verdict(about, who, stream, found)
            else:
                tallies.setdefault((about, who, stream), Tally()).add(found)
        if len(tallies) > _MOST_TALLIES:
            yield from _finished(tallies)
            tallies = {}
    yield from _finished(tallies)


def _finished(tallies: dict[tuple[int, int, int], Tally]) -> Iterator[Verdict]:
    for (about, who, stream), tally in tallies.items():
        yield Verdict(about, who, stream, tally.encode())


def _judge_publications(
    case: Case, stream: int, publisher: int, number: int, pieces: Iterable[Piece]
) -> Iterator[tuple[int, int, Tally | bytes]]:
    stored = PublishedBlock(number, case.rules.block_bits)
    for piece in pieces:
        if piece.part == Part.PUBLISHED:
            stored.take(piece.who, piece.payload)
        else:
            tally, partial = judge_acked(stored, case, stream, piece.payload)
            yield About.PUBLISHER, piece.who, tally
            if len(partial.rows):
                yield About.CROSSING, piece.who, pack(*partial)


def _judge_block(
    case: Case, stream: int, epoch: int, number: int, pieces: Iterable[Piece]
) -> Iterator[tuple[int, int, Tally | bytes]]:
    owned: list[tuple[int, int, bytes]] = []
    block: Block | None = None
    judge: Judge | None = None
    seen: set[int] = set()
    bits = case.rules.block_bits
    for (part, who), group in groupby(pieces, lambda piece: (piece.part, piece.who)):
        if part < Part.GOT:
            owned += ((part, who, piece.payload) for piece in group)
            continue
        if block is None:
            block = Block(number, bits, owned)
            judge = Judge(block, case, stream, epoch)
        assert judge is not None
        seen.add(who)
        got = Got.unpacked([piece.payload for piece in group])
        yield About.SUBSCRIPTION, who, judge.subscription(case.segments[who], got)
    block = block or Block(number, bits, owned)
    judge = judge or Judge(block, case, stream, epoch)
    yield from _disputes(case, stream, epoch, block)
    for who in case.segments_of.get((stream, epoch), []):
        segment = case.segments[who]
        begins = segment.first < block.first + block.size
        if (
            begins
            and who not in seen
            and (segment.closed is not None or segment.reached >= block.first)
        ):
            yield About.SUBSCRIPTION, who, judge.nothing(segment)


def _disputes(
    case: Case, stream: int, epoch: int, block: Block
) -> Iterator[tuple[int, int, Tally | bytes]]:
    """What logs of the owner contradict each other about. What an epoch has from the one before is
    counted there."""
    for who, at in block.disputes:
        own = at[at + block.first >= case.first_of(stream, epoch)]
        if len(own):
            tally = Tally()
            tally.counts.conflicting = len(own)
            for number in own.tolist():
                tally.note("conflicting", block.first + number, block.first + number)
            yield About.OWNER, who, tally
