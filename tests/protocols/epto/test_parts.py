"""K and TTL, the size of the system, clocks and periods."""

from random import Random

import numpy as np
import pytest

from epicast.core import ConfigError, EventBatch
from epicast.protocols.epto import EptoConfig
from epicast.protocols.epto.clocks import GlobalClock, LogicalClock
from epicast.protocols.epto.entries import by_source
from epicast.protocols.epto.pace import Pace
from epicast.protocols.epto.sizing import SAMPLES, SizeEstimate, fanout_for, ttl_for
from epicast.protocols.epto.sources import Sources
from epicast.protocols.epto.store import EventStore, _ascending

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
NOW = 10 * HOUR


@pytest.mark.parametrize(
    ("size", "fanout", "ttl"),
    [(1, 1, 1), (2, 1, 1), (3, 2, 2), (15, 14, 4), (16, 15, 4), (100, 17, 7), (500, 19, 9),
     (1000, 20, 10), (5000, 22, 13)],
)  # fmt: skip
def test_fanout_and_ttl_follow_from_the_size(size: int, fanout: int, ttl: int) -> None:
    assert (fanout_for(size), ttl_for(size)) == (fanout, ttl)


def gossip_sizes(estimates: list[SizeEstimate], rounds: int, rng: Random) -> None:
    for _ in range(rounds):
        for one in estimates:
            one.next_round()
        for one in estimates:
            for other in rng.sample(estimates, 3):
                other.hear(one.epoch, one.to_send(), one.size)


def test_the_size_is_estimated_and_followed() -> None:
    rng = Random(5)
    nodes = [SizeEstimate(20, rng, 2) for _ in range(200)]
    gossip_sizes(nodes, 45, rng)
    sizes = {node.size for node in nodes}
    assert min(sizes) > 130 and max(sizes) < 300
    assert max(sizes) - min(sizes) < 60, "they know the same minima"
    del nodes[40:]
    gossip_sizes(nodes, 65, rng)
    assert all(25 < node.size < 62 for node in nodes)
    nodes.append(SizeEstimate(20, rng, 2))
    gossip_sizes(nodes, 1, rng)
    assert nodes[-1].size > 25 or nodes[-1].epoch == 0


@pytest.mark.parametrize("minima", [b"", b"\0" * 4 * SAMPLES, b"\xff" * 4 * SAMPLES])
def test_sizes_that_make_no_sense_are_not_believed(minima: bytes) -> None:
    estimate = SizeEstimate(20, Random(1), 2)
    before = estimate.to_send()
    assert not estimate.hear(estimate.epoch, minima, 5)
    assert not estimate.hear(1 << 60, before, 5)
    assert estimate.to_send() == before


def test_a_logical_clock_counts_on_from_what_it_heard() -> None:
    clock = LogicalClock()
    assert [clock.stamp(0), clock.stamp(0)] == [1, 2]
    clock.hear(10)
    clock.hear(7)
    assert clock.stamp(0) == 11


def test_timestamps_of_a_global_clock_never_go_back() -> None:
    clock = GlobalClock(SECOND)
    assert clock.stamp(100) == 100
    assert clock.stamp(100) == 101
    clock.hear(500)
    assert clock.stamp(200) == 501, "behind all it has heard of it would be too late"


def test_a_clock_an_hour_off_follows_the_others() -> None:
    for error in (HOUR, -HOUR):
        clock = GlobalClock(SECOND)
        for peer in range(4):
            clock.hear_clock(peer, NOW - error + peer, NOW)
        assert abs(clock.correction + error) < 5
        assert abs(clock.stamp(10 * HOUR + error) - 10 * HOUR) < 10


def test_one_clock_an_hour_off_leads_nobody_astray() -> None:
    clock = GlobalClock(SECOND)
    clock.hear_clock(1, NOW + 5, NOW)
    clock.hear_clock(2, NOW - 5, NOW)
    clock.hear_clock(3, NOW + HOUR, NOW)
    assert clock.correction == 0


@pytest.mark.parametrize("error", [HOUR, -HOUR])
def test_who_has_heard_of_a_wrong_clock_only_waits_for_others(error: int) -> None:
    clock = GlobalClock(SECOND)
    clock.hear_clock(1, NOW + error, NOW)
    assert clock.correction == 0
    clock.hear_clock(2, NOW + 5, NOW)
    for _ in range(100):
        clock.hear_clock(1, NOW + error, NOW)
    assert clock.correction == 0


def test_two_nodes_that_disagree_settle_on_one_clock() -> None:
    one, other = GlobalClock(SECOND), GlobalClock(SECOND)
    for _ in range(16):
        one.hear_clock(2, NOW + HOUR, NOW)
        other.hear_clock(1, NOW - HOUR, NOW)
    assert one.now(20 * HOUR) == other.now(21 * HOUR)


def test_the_period_follows_the_latencies() -> None:
    pace = Pace(EptoConfig(min_round_ns=SECOND // 100, max_round_ns=SECOND))
    assert pace.period_ns == EptoConfig().round_period_ns
    for number in range(1, 6):
        assert pace.answered(SECOND // 5 * number, pace.probe(SECOND // 5 * (number - 1)))
    assert pace.period_ns == SECOND // 10 == pace.latency_ns
    for peer in range(20):
        pace.hear(peer, SECOND // 4)
    pace.answered(0, pace.probe(-SECOND // 5))
    assert pace.period_ns == SECOND // 4, "what others measure counts as well"
    pace.hear(99, 100 * SECOND)
    assert not pace.answered(1, 77), "nobody asked"


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong in (
        {"min_round_ns": SECOND, "max_round_ns": SECOND // 2},
        {"shuffle_length": 31},
        {"max_event_bytes": 1 << 25},
        {"ttl": 61},
    ):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            EptoConfig(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("times", [1, 7, 1 << 40])
def test_new_entries_are_sorted_by_time_then_source(times: int) -> None:
    rng = np.random.default_rng(times)
    stamps, sources = rng.integers(0, times, 200), rng.permutation(200)
    expected = sorted(range(200), key=lambda i: (stamps[i], sources[i]))
    assert _ascending(stamps, sources).tolist() == expected


def test_what_is_delivered_cannot_be_changed_by_who_gets_it() -> None:
    store = EventStore(100, 10_000)
    for number, source in enumerate((7, 5), 1):
        store.publish(number, source, EventBatch.build(source, 1, [b"ab", b"c" * number]))
    store.begin_round(4, 1)
    batch = store.batch(0, 2, 11)
    assert [event.payload for event in batch.events()] == [b"ab", b"c", b"ab", b"cc"]
    assert (batch.first, batch.last, batch.times.tolist()) == (11, 14, [1, 1, 2, 2])
    assert [(run.publisher, run.first, run.count) for run in batch.runs] == [(7, 1, 2), (5, 1, 2)]
    assert batch.data.readonly and not batch.times.flags.writeable
    assert EventBatch.decode(b"".join(batch.encode())) == batch


@pytest.mark.parametrize("sources", [1, 16, 17, 300])
def test_what_is_delivered_stands_being_looked_through(sources: int) -> None:
    store = EventStore(1000, 1 << 20)
    for source in range(1, sources + 1):
        payloads = [b"x" * (source % 7)] * (1 + source % 3)
        store.publish(source, source, EventBatch.build(source, 1, payloads))
    store.begin_round(4, 1)
    batch = store.batch(0, sources, 1)
    assert EventBatch.decode(b"".join(batch.encode())) == batch
    assert [run.publisher for run in batch.runs] == list(range(1, sources + 1))


def test_a_small_part_of_what_is_delivered_does_not_keep_the_rest_in_memory() -> None:
    store = EventStore(100, 1 << 20)
    store.publish(1, 7, EventBatch.build(7, 1, [b"x" * 100_000]))
    store.publish(2, 5, EventBatch.build(5, 1, [b"y"]))
    store.begin_round(4, 1)
    batch = store.batch(0, 2, 1)
    assert batch.pinned_bytes >= batch.wire_size() > 100_000
    large, small = by_source(batch)
    assert large.pinned_bytes == batch.pinned_bytes and small.pinned_bytes < 1000


def test_sources_are_found_again_however_many_they_become() -> None:
    sources = Sources(max_sources=1 << 16)
    store = EventStore(100, 10_000)
    store.start_after(5)
    for source in range(1, 2000):
        sources.word(source << 50 | source, source, 1, 0, store)
    assert len(sources) == 1999 and not sources.forgotten
    assert all(sources.last_of(source << 50 | source) == source for source in range(1, 2000))
    assert sources.last_of(2000) == 0
