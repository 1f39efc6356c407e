"""The plain words of the oracle about garbage collection, beside those of the log's own tests."""

from random import Random

import pytest

from epicast.core import Event, EventBatch, EventKind
from epicast.log import GcPolicy, gc_payload, parse
from epicast.sim.campaign.collecting import ALIVE, Collected
from epicast.sim.campaign.columns import EventColumns
from tests.log.reference import live

POLICIES = [
    GcPolicy(),
    GcPolicy(latest_per_key=True),
    GcPolicy(last_n=9),
    GcPolicy(latest_per_key=True, last_n=25),
]


def drawn(rng: Random, count: int) -> list[tuple[bytes, bytes, int]]:
    events = []
    for seq in range(1, count + 1):
        key = b"k%d" % rng.randrange(6) if rng.random() < 0.8 else b""
        if rng.random() < 0.8:
            events.append((key, b"%d" % seq, int(EventKind.DATA)))
            continue
        text = rng.choice(
            (f"seq < {rng.randint(1, count)}", "key == 'k1'", "key == 'k2'", "key prefix 'k'")
        )
        key = text[-3:-1].encode() if "==" in text and rng.random() < 0.5 else b""
        events.append((key, gc_payload(parse(text)), int(EventKind.GC)))
    return events


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("seed", range(25))
def test_it_agrees_with_the_reference(policy, seed):
    rng = Random(seed)
    events = drawn(rng, 60)
    columns = EventColumns()
    collected = Collected(policy, columns)
    known: list[Event] = []
    while len(known) < len(events):
        part = events[len(known) : len(known) + rng.choice((1, 3, 20))]
        keys, payloads, kinds = zip(*part, strict=True)
        batch = EventBatch.build(1, len(known) + 1, payloads, keys=keys, kinds=kinds)
        columns.add(batch)
        collected.take_new()
        known += batch.events()
        alive = [seq for seq, by in enumerate(collected.by.tolist(), 1) if by == ALIVE]
        assert alive == [event.seq for event in live(known, policy)]


def test_it_knows_when():
    columns = EventColumns()
    collected = Collected(GcPolicy(latest_per_key=True), columns)
    columns.add(EventBatch.build(1, 1, [b"", b"", b""], keys=[b"a", b"b", b"a"]))
    collected.take_new()
    assert collected.by.tolist() == [3, ALIVE, ALIVE]
