"""What nobody honest says is dropped, counted by reason, and holds up nobody."""

import json
import struct
import subprocess
import sys

import numpy as np
import pytest

from epicast.client.topics import topic
from epicast.core import EventBatch, Publication
from epicast.core.effects import Refuse
from epicast.protocols.epto.clocks import CENTURY_NS
from epicast.protocols.epto.layout import MAX_BATCH_EVENTS, MAX_ENTRY_EVENTS
from epicast.protocols.epto.messages import Ball, Probe
from epicast.protocols.epto.sizing import MAX_SIZE, SAMPLES
from tests.protocols.epto.hostile import EXTREMES, FIELDS, entry, outcome
from tests.protocols.epto.test_protocol import (
    HOUR,
    ME,
    NOTHING,
    OTHER,
    SECOND,
    THIRD,
    ball,
    missing,
    node,
    publish,
    rounds,
)

RUNS = 60


@pytest.mark.parametrize("rows", [MAX_ENTRY_EVENTS + 1, 20_000_000, 2**31 - 1])
def test_an_entry_of_more_events_than_can_be_published_is_refused(rows: int) -> None:
    """Eight bytes were enough for memory of 32 GiB, at every node."""
    single = node()
    single.receive(OTHER, entry(100, OTHER, 1, rows))
    single.fire("round")
    assert single.drops() == ["malformed ball"]
    assert rounds(single, 4) == [] and single.protocol.statistics()["entries"] == 0


@pytest.mark.parametrize("number", [0, -1, 2**53 + 1, 2**63 - 1])
def test_an_entry_with_a_number_that_cannot_be_is_refused(number: int) -> None:
    single = node()
    single.receive(OTHER, entry(100, OTHER, number, 1))
    single.fire("round")
    assert single.drops() == ["malformed ball"] and rounds(single, 4) == []


@pytest.mark.parametrize(
    ("rows", "content"),
    [
        (1, b""),
        (1, bytes(7)),
        (1, bytes(9)),
        (2, struct.pack("<II", 0, 3) + b"abcde"),
        (2, struct.pack("<II", 2**32 - 1, 0) + bytes(8)),
        (2, struct.pack("<IIIIII", 2**32 - 1, 0, 0, 1, 0, 1) + b"a"),
    ],
)
def test_an_entry_with_content_that_does_not_fit_its_events_is_refused(
    rows: int, content: bytes
) -> None:
    single = node()
    single.receive(OTHER, entry(100, OTHER, 1, rows, content))
    single.fire("round")
    assert single.drops() == ["malformed ball"] and rounds(single, 4) == []


def test_as_many_events_as_an_entry_has_can_be_published_and_no_more() -> None:
    assert topic._BATCH_EVENTS == MAX_ENTRY_EVENTS
    single, other = node(), node(OTHER)
    publish(single, 1, *[b""] * MAX_ENTRY_EVENTS)
    single.fire("round")
    ((_, sent),) = single.sent(Ball)
    other.receive(ME, sent)
    assert len(rounds(other, 4)) == MAX_ENTRY_EVENTS
    batch = EventBatch.build(ME, 1 + MAX_ENTRY_EVENTS, [b""] * (MAX_ENTRY_EVENTS + 1))
    single.call("on_publish", (Publication(ME, batch.first, batch),))
    (refused,) = (op for op in single.fx.operations if isinstance(op, Refuse))
    assert "at most 1024" in refused.error


def test_events_without_content_are_delivered_in_bounded_batches() -> None:
    """A batch has 2^24 events at most: 16,384 entries of 41 bytes have more."""
    single = node()
    entries = MAX_BATCH_EVENTS // MAX_ENTRY_EVENTS + 3
    table = np.empty((4, entries), dtype="<i8")
    table[0] = 1 + np.arange(entries)
    table[1], table[2] = OTHER, 1 + MAX_ENTRY_EVENTS * np.arange(entries)
    table[3] = MAX_ENTRY_EVENTS << 32 | 8 * (1 + np.arange(entries))
    columns = table.tobytes() + bytes(entries) + bytes(8 * entries)
    single.receive(OTHER, Ball(entries, columns, minima=b"", **NOTHING))  # type: ignore[arg-type]
    sizes = []
    for _ in range(5):
        single.fire("round")
        sizes += [batch.rows for batch in single.fx.deliveries]
    assert sizes == [MAX_BATCH_EVENTS, 3 * MAX_ENTRY_EVENTS]


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("implausible number", {"published": 2**63 - 1, "published_at": 5}),
        ("implausible number", {"published": 2**62, "published_at": 5}),
        ("implausible number", {"published": -5, "published_at": 5}),
        ("implausible timestamp", {"published": 1, "published_at": -1}),
        ("implausible timestamp", {"published": 1, "published_at": 2**63}),
        ("implausible timestamp", {"published": 1, "first_at": 2**63 - 1}),
        ("implausible clock", {"wall": 2**63 - 1}),
        ("implausible clock", {"wall": 2**64 - 1}),
        ("implausible clock", {"wall": -1}),
        ("implausible clock", {"wall": 2 * HOUR + CENTURY_NS}),
        ("implausible latency", {"latency": -1}),
        ("implausible latency", {"latency": 2**63 - 1}),
    ],
)
def test_numbers_that_cannot_be_are_dropped_at_the_door(
    reason: str, fields: dict[str, int]
) -> None:
    single = node(adaptive_period=True)
    single.receive(OTHER, ball((100, OTHER, 1, 2), (300, THIRD, 1, 2)))
    assert len(rounds(single, 3)) == 2
    for peer in (OTHER, THIRD, 9, 10):
        single.receive(peer, ball((200, peer, 1, 1), **fields))
        assert single.drops() == [reason] and missing(single) == []
    assert single.protocol.statistics()["clock_correction_ns"] == 0
    publish(single, 1, b"x")
    assert rounds(single, 3) == [(ME, 1)], "it goes on as if nothing was said"


def test_a_probe_with_a_number_that_cannot_be_is_not_answered() -> None:
    single = node()
    single.receive(OTHER, Probe(-1))
    assert single.drops() == ["implausible number"] and single.sends == []


@pytest.mark.parametrize("clock", ["global", "logical"])
@pytest.mark.parametrize("field", FIELDS)
def test_no_field_of_a_ball_breaks_a_node(field: str, clock: str) -> None:
    for value in (*EXTREMES, 2**64 - 1):
        single = node(clock=clock, system_size=0, adaptive_period=True, idle_fanout=1)
        single.protocol.early.add(0.5)
        for peer in range(100, 140):
            told = ball(published=3, published_at=7) if field == "first_at" else ball()
            setattr(told, field, value)
            told.minima = b"\x00\x00\x80\x3f" * SAMPLES
            single.receive(peer, told)
        single.receive(OTHER, ball((100, OTHER, 1, 2)))
        publish(single, 1, b"x")
        rounds(single, 12)
        if field == "published":
            single.receive(OTHER, ball((200, OTHER, 2, 2)))
            rounds(single, 12)


def test_a_clock_is_not_raised_by_what_is_refused() -> None:
    """It went to the latest time that is accepted, so that all published next waited 10 s."""
    single = node()
    single.receive(OTHER, ball((2 * HOUR, OTHER, 1, 0)))
    single.receive(THIRD, ball((HOUR - 9, THIRD, 1, 0), (2 * HOUR, THIRD, 2, 0)))
    publish(single, 1, b"x")
    single.fire("round")
    ((_, sent),) = single.sent(Ball)
    times = np.frombuffer(sent.columns, "<i8", sent.entries).tolist()
    assert times[0] == HOUR - 9 and times[1] < HOUR + SECOND
    assert rounds(single, 2) == [(THIRD, 1), (ME, 1)]


def test_a_clock_is_raised_by_what_is_accepted() -> None:
    single = node()
    single.receive(OTHER, ball((HOUR + SECOND, OTHER, 1, 0)))
    publish(single, 1, b"x")
    single.fire("round")
    ((_, sent),) = single.sent(Ball)
    assert np.frombuffer(sent.columns, "<i8", 2).tolist() == [HOUR + SECOND, HOUR + SECOND + 1]


def test_a_counter_out_of_all_proportion_poisons_no_topic() -> None:
    """After one event stamped 2^62 nobody's events were taken by anybody."""
    single, other = node(clock="logical"), node(OTHER, clock="logical")
    for each in (single, other):
        each.receive(THIRD, ball((2**62, THIRD, 1, 2), wall=2**62))
        each.fire("round")
        assert each.drops() == ["timestamp too far ahead"]
    publish(single, 1, b"x")
    single.fire("round")
    ((_, sent),) = single.sent(Ball)
    assert np.frombuffer(sent.columns, "<i8", 1).tolist() == [1] and sent.wall == 1
    other.receive(ME, sent)
    assert rounds(other, 6) == [(ME, 1)]


def test_who_joins_begins_by_the_counters_in_the_middle() -> None:
    single = node(contacts=(OTHER,), clock="logical")
    single.receive(THIRD, ball((2**61, THIRD, 1, 2), wall=2**61))
    single.fire("round")
    assert single.protocol.statistics()["entries"] == 1, "there was nobody else to go by"
    single.receive(OTHER, ball(wall=70))
    single.receive(9, ball((65, OTHER, 5, 2), wall=72))
    publish(single, 1, b"x")
    assert rounds(single, 3) == [] and single.protocol.statistics()["settled"]
    single.fire("round")
    ((_, sent),) = single.sent(Ball)
    assert np.frombuffer(sent.columns, "<i8", sent.entries).tolist()[-1] == 73
    assert rounds(single, 6) == [(ME, 1)]


def test_sizes_beyond_belief_change_nothing() -> None:
    for minima, size, epoch in (
        (np.full(SAMPLES, 1e-30, "<f4"), 5, 1),
        (np.zeros(SAMPLES, "<f4"), 5, 1),
        (np.full(SAMPLES, 0.5 / MAX_SIZE, "<f4"), 5, 1),
        (np.ones(SAMPLES, "<f4"), 2 * MAX_SIZE, 1),
        (np.ones(SAMPLES, "<f4"), -7, 1),
        (np.ones(SAMPLES, "<f4"), 5, 2**63),
    ):
        single = node(system_size=0, ttl=0)
        before = single.protocol.statistics()
        single.receive(OTHER, Ball(0, b"", 0, 0, 0, 0, epoch, minima.tobytes(), size))
        assert single.drops() == ["malformed size"]
        assert single.protocol.statistics() == before
        single.fire("round")
        single.receive(OTHER, ball((HOUR, OTHER, 1, 0)))
        single.fire("round")
        ((_, sent),) = single.sent(Ball)
        assert sent.epoch == 0, "the epoch did not begin either"


def test_numba_and_plain_python_make_the_same_of_hostile_balls() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        f"sys.argv = ['hostile', '{RUNS}']\n"
        "import runpy; runpy.run_module('tests.protocols.epto.hostile', run_name='__main__')\n"
        "from epicast.protocols.epto import kernels\n"
        "assert not hasattr(kernels.absorb, 'py_func')\n"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    plain = subprocess.run(command, check=True, timeout=240, capture_output=True).stdout
    compiled = [outcome(seed) for seed in range(RUNS)]
    assert json.loads(plain) == json.loads(json.dumps(compiled))
    drops = {reason for run in compiled for each in run for reason in each if type(reason) is str}  # type: ignore[attr-defined]
    assert {"malformed ball", "timestamp too far ahead", "implausible number"} <= drops
    assert any(delivered for run in compiled for delivered in run[-9:-1])
