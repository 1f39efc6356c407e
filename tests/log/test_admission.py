"""Admission by columns, compared with a check of each event."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import EventBatch, EventKind
from epicast.log import GcPolicy, gc_payload, parse
from epicast.log.admission import Admission
from epicast.protocols.sprinkler import StreamInfo

MAX_KEY = 8
INFO = StreamInfo(7, "prices", 1, "us", max_key_bytes=MAX_KEY)
ANYTHING = Admission({7: GcPolicy()})
LATEST = Admission({7: GcPolicy(latest_per_key=True)})


@given(
    st.lists(st.tuples(st.binary(max_size=12), st.binary(max_size=20)), min_size=1, max_size=30),
    st.data(),
)
def test_keys_are_measured_one_by_one(
    events: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    keys, payloads = [k for k, _ in events], [p for _, p in events]
    batch = EventBatch.build(7, 1, payloads, keys=keys)
    first = data.draw(st.integers(1, len(events)))
    last = data.draw(st.integers(first, len(events)))
    longest = max(len(key) for key in keys[first - 1 : last])
    refused = ANYTHING(INFO, batch.slice(first, last))
    assert bool(refused) == (longest > MAX_KEY)
    if refused:
        assert f"a key of {longest} bytes" in refused and "max_key" in refused


def gc_event(payload: bytes) -> EventBatch:
    kinds = [EventKind.DATA, EventKind.GC]
    return EventBatch.build(7, 1, [b"value", payload], keys=[b"a", b""], kinds=kinds)


@pytest.mark.parametrize("text", ["key == 'a'", "seq < 17", "size < 5"])
def test_predicates_that_parse_are_admitted(text: str) -> None:
    assert ANYTHING(INFO, gc_event(gc_payload(parse(text), b"and data"))) == ""


def test_a_policy_has_its_say() -> None:
    assert LATEST(INFO, gc_event(gc_payload(parse("key == 'a'")))) == ""
    refused = LATEST(INFO, gc_event(gc_payload(parse("size < 5"))))
    assert refused.startswith("event 2: ") and "latest event per key" in refused


@given(st.binary(max_size=40))
def test_noise_for_a_predicate_is_refused_not_raised(noise: bytes) -> None:
    assert ANYTHING(INFO, gc_event(b"\xff" + noise)).startswith("event 2: predicate, position")


def test_other_kinds_are_refused() -> None:
    batch = EventBatch.build(7, 1, [b"value"], kinds=[9])
    assert "kind 9" in ANYTHING(INFO, batch)
