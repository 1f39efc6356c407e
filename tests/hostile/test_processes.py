"""No hostile message does harm to real processes, nor to what honest nodes are promised.

`EPICAST_HOSTILE_SOCKETS` is how many messages there are altogether.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from tests.hostile.honest import Outcome
from tests.hostile.siege import Siege

MESSAGES = int(os.environ.get("EPICAST_HOSTILE_SOCKETS", "3000"))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("senders", [("stranger", "client"), ("member", "peer")], ids="-".join)
def test_no_message_does_harm(senders: tuple[str, ...], tmp_path: Path) -> None:
    with Siege(tmp_path, senders, seed=1) as siege:
        siege.attack(MESSAGES // 2)
        siege.statuses()
        outcome = siege.outcome() if senders[0] == "stranger" else None
        siege.statuses()
    assert not siege.complaints(), siege.report()
    assert len(siege.sent) == 8 and min(siege.sent.values()) > MESSAGES // 100
    if outcome is not None:
        check(outcome)


def check(outcome: Outcome) -> None:
    """Everybody got the same, in order and without a hole, and all that was acknowledged."""
    whole = {first: what for first, last, what in outcome.got["owner"] if first == last}
    for name, got in outcome.got.items():
        assert got and got[0][0] == 1, f"{name}: {got[:2]}"
        assert all(one[1] + 1 == other[0] for one, other in pairwise(got)), name
        assert got[-1][1] == outcome.got["owner"][-1][1], f"{name} is at {got[-1]}"
        for first, _, what in got:
            assert what in ("tombstone", whole.get(first, what)) or whole[first] == "tombstone"
    # Hostile publishers publish the same once more.
    mine = list(dict.fromkeys(bytes.fromhex(w) for w in whole.values() if _is_number(w)))
    numbers = list(map(int, mine))
    assert numbers == sorted(numbers) and numbers[-1] == outcome.acknowledged
    if not any(what == "tombstone" for got in outcome.got.values() for *_, what in got):
        assert len(numbers) == outcome.acknowledged
    assert outcome.reached == [3, 3]


def _is_number(what: str) -> bool:
    try:
        return bytes.fromhex(what).decode("ascii").isdecimal()
    except ValueError:
        return False
