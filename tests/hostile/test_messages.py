"""Attackers make messages of every type, plausible and extreme ones, that can all be sent."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from epicast.core import EventBatch, Message, Peer
from epicast.core.ranges import MAX_SEQ
from epicast.protocols.sprinkler.messages import Publish
from epicast.wire import FrameEncoder
from tests.hostile.kinds import RELEASED
from tests.hostile.messages import Attacker
from tests.hostile.values import DIGITS, ValueMaker, Vocabulary

BATCH = EventBatch.build(7, 11, [b"x"] * 3)
PUBLISH = Publish(5, 777, 3, 2, "disk", (1,), BATCH)


def attacker(seed: int = 1) -> Attacker:
    made = Attacker(RELEASED, Random(seed))
    made.record(PUBLISH)
    return made


@pytest.mark.parametrize("kind", RELEASED, ids=lambda kind: f"{kind.type_id}-{kind.__name__}")
def test_every_registered_type_is_made_and_can_be_sent(kind: type[Message]) -> None:
    made = [attacker().next([kind]) for _ in range(3)]
    encoder = FrameEncoder()
    for message in made:
        assert encoder.encode(message)
    several = attacker(2)
    assert sum(type(several.next([kind])) is kind for _ in range(40)) > 20


class Unmakeable(Message):
    mapping: dict[str, int]


def test_a_field_that_cannot_be_made_fails() -> None:
    with pytest.raises(TypeError, match="'mapping'"):
        ValueMaker(Vocabulary(), Random(1)).message(Unmakeable)


def test_plausible_values_are_those_of_real_messages() -> None:
    made = attacker()
    some = [made.next([Publish]) for _ in range(500)]
    seen = Counter(each.stream for each in some if isinstance(each, Publish))
    assert seen[5] > 100 and seen[7] > 0, "known streams"
    assert len(seen) > 10, "and unknown ones"


def test_the_values_that_did_harm_are_among_them() -> None:
    made = attacker()
    found = [made.next([Publish]) for _ in range(20_000)]
    some = [each for each in found if isinstance(each, Publish)]
    assert any(each.level == "regions=" + DIGITS for each in some)
    assert any(each.first + each.batch.rows > MAX_SEQ + 1 for each in some)
    assert any(each.batch.rows == 0 and each.batch.last - each.batch.first > 2**32 for each in some)


def test_real_messages_are_changed_in_few_places() -> None:
    made = attacker()
    some = [each for _ in range(500) if isinstance(each := made.next([Publish]), Publish)]
    names = Publish.__struct_fields__
    different = Counter(
        sum(getattr(each, name) != getattr(PUBLISH, name) for name in names) for each in some
    )
    assert different[1] > 50 and different[2] > 50


def test_it_is_the_same_each_time() -> None:
    first, second = attacker(), attacker()
    assert [repr(first.next(RELEASED)) for _ in range(300)] == [
        repr(second.next(RELEASED)) for _ in range(300)
    ]


def test_peers_have_odd_addresses() -> None:
    made = attacker()
    peers = [
        value
        for _ in range(20_000)
        for value in (getattr(made.next(RELEASED), "sender", None),)
        if isinstance(value, Peer)
    ]
    assert any(peer.port > 65_535 for peer in peers) and any(peer.port < 0 for peer in peers)
    assert any("/" in peer.host for peer in peers)
