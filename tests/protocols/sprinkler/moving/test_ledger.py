"""Who owns a stream, what of it is remembered, and whose word counts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from epicast.core import Effects, EventBatch, Run
from epicast.core.effects import Save, SendAfterAppend
from epicast.protocols.sprinkler.messages import Counter
from epicast.protocols.sprinkler.moving.ledger import Ledger, owned_streams
from epicast.protocols.sprinkler.moving.publishers import KnownPublishers
from epicast.protocols.sprinkler.moving.tenure import Tenure, lost_by

A, B, C = 1, 2, 3
STREAM = 7
GIVEN = Tenure(STREAM, 1, B, 10, 10, 100, taken=False, giver=A)
TAKEN = replace(GIVEN, taken=True)
FORCED = Tenure(STREAM, 1, C, 50, 10, 90, taken=True)


def ledger(region: int, tenure: Tenure, *, remembered: bool = False) -> Ledger:
    found = Ledger(region)
    found.keep(tenure, remembered=remembered)
    return found


def saved(found: Ledger) -> dict[str, bytes]:
    fx = Effects()
    found.save(fx)
    return {op.name: op.value for op in fx.operations if isinstance(op, Save)}


@pytest.mark.parametrize(
    ("tenure", "owners"),
    [(GIVEN, {A: B, B: A, C: A}), (TAKEN, {A: B, C: B}), (FORCED, {A: C, B: C})],
)
def test_the_owner_as_each_region_has_it(tenure: Tenure, owners: dict[int, int]) -> None:
    for region, owner in owners.items():
        assert ledger(region, tenure).owner_of(STREAM, A) == owner
    assert ledger(C, tenure).owner_of(8, A) == A, "another stream was never moved"


def test_what_is_owned_and_not_remembered_is_numbered_by_nobody() -> None:
    lost = ledger(B, TAKEN)
    assert lost.owner_of(STREAM, A) == 0 and "finding out" in lost.waits(STREAM)
    kept = ledger(B, TAKEN, remembered=True)
    assert kept.owner_of(STREAM, A) == B and not kept.waits(STREAM)
    assert owned_streams(saved(kept), B, {STREAM: A, 8: B}) == {STREAM, 8}
    assert owned_streams(saved(lost), B, {STREAM: A, 8: B}) == {8}
    assert owned_streams(saved(ledger(A, GIVEN)), A, {STREAM: A, 8: A}) == {8}


def test_nobody_numbers_what_was_given_and_not_taken() -> None:
    assert "handed over" in ledger(C, GIVEN).waits(STREAM)
    assert not ledger(C, TAKEN).waits(STREAM) and not ledger(C, GIVEN).waits(8)


def test_the_highest_tenure_counts() -> None:
    later = replace(GIVEN, term=2, epoch=10)
    ascending = [GIVEN, TAKEN, FORCED, later]
    for at, tenure in enumerate(ascending):
        assert [ledger(C, tenure).is_news(each) for each in ascending] == [
            other > at for other in range(len(ascending))
        ]


def test_only_who_knows_the_same_tenure_is_heeded() -> None:
    found = ledger(B, TAKEN)
    ours, other = Counter(STREAM, 10, 120), Counter(8, 1, 5)
    assert found.heeded(C, [ours, other]) == [other], "it has said nothing yet"
    found.heard(C, [GIVEN])
    assert found.heeded(C, [ours, other]) == [other]
    found.heard(C, [TAKEN])
    assert found.heeded(C, [ours, other]) == [ours, other]
    void = Counter(STREAM, 9, 120)
    assert found.heeded(C, [void]) == [], "of an epoch before"
    found.heard(C, [FORCED])
    assert found.heeded(C, [ours]) == [], "it knows more than we do"
    found.forget(C)
    assert found.heeded(C, [ours]) == []


def test_nobody_is_told_before_it_is_durable() -> None:
    fx = Effects()
    ledger(A, GIVEN).spread([B, C], fx)
    [told] = fx.operations
    assert not fx.sends and isinstance(told, SendAfterAppend) and told.to == [B, C]


@pytest.mark.parametrize(
    ("epoch", "end", "owned", "lost"),
    [
        (10, 95, True, (91, 95)),
        (10, 95, False, (91, 95)),
        (10, 90, True, None),
        (50, 95, True, None),
        (9, 95, False, None),
        (40, 95, True, (91, 95)),
        (40, 5, True, (1, 5)),
        (40, 0, True, None),
    ],
)
def test_what_is_not_part_of_the_stream_any_more(
    epoch: int, end: int, owned: bool, lost: tuple[int, int] | None
) -> None:
    loss = lost_by(FORCED, epoch, end, owned=owned)
    assert (loss and (loss.first, loss.last)) == lost
    assert lost_by(TAKEN, 10, 120, owned=owned) is None


def test_the_last_number_of_each_publisher_is_known() -> None:
    known = KnownPublishers(3)
    for first, publisher in enumerate([11, 12, 11, 13] * 3000, 1):
        number = first if publisher == 11 else first + 100
        runs = [Run(publisher, number, 1)]
        known.observe(EventBatch.build(STREAM, first, [b"x"], runs=runs))
    known.observe(EventBatch.build(8, 1, [b"x"], runs=[Run(99, 5, 1)]))
    runs = [Run(0, 0, 2), Run(13, 12200, 1)]  # of the first two it is not known any more
    known.observe(EventBatch.build(STREAM, 12001, [b"x"] * 3, runs=runs))
    known.observe(EventBatch.build(STREAM, 12004, [b"x"]))
    numbers = {12: 12098, 11: 11999, 13: 12200}
    assert known.numbers(STREAM) == numbers and known.numbers(8) == {99: 5}
    known.observe(EventBatch.build(STREAM, 12005, [b"x"], runs=[Run(14, 1, 1)]))
    assert known.numbers(STREAM) == {11: 11999, 13: 12200, 14: 1}, "the least recent is forgotten"
    known.forget(STREAM)
    assert known.numbers(STREAM) == {}
