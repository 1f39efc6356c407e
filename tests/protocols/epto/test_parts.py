"""K and TTL, the size of the system, clocks and periods."""

from random import Random

import pytest

from epicast.core import ConfigError
from epicast.protocols.epto import EptoConfig
from epicast.protocols.epto.clocks import GlobalClock, LogicalClock
from epicast.protocols.epto.pace import Pace
from epicast.protocols.epto.sizing import SAMPLES, SizeEstimate, fanout_for, stability, ttl_for

SECOND = 1_000_000_000
HOUR = 3600 * SECOND


@pytest.mark.parametrize(
    ("size", "fanout", "ttl"),
    [(1, 1, 1), (2, 1, 1), (3, 2, 2), (15, 14, 4), (16, 15, 4), (100, 17, 7), (500, 19, 9),
     (1000, 20, 10), (5000, 22, 13)],
)  # fmt: skip
def test_fanout_and_ttl_follow_from_the_size(size: int, fanout: int, ttl: int) -> None:
    assert (fanout_for(size), ttl_for(size)) == (fanout, ttl)


def test_an_event_becomes_stable_within_ttl_rounds() -> None:
    found = stability(500, fanout_for(500), ttl_for(500))
    assert found == sorted(found)
    assert found[1] < 1e-6 and found[ttl_for(500)] > 0.999


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
            clock.hear_clock(peer, -error + peer)
        assert abs(clock.correction + error) < 5
        assert abs(clock.stamp(10 * HOUR + error) - 10 * HOUR) < 10


def test_one_clock_an_hour_off_leads_nobody_astray() -> None:
    clock = GlobalClock(SECOND)
    clock.hear_clock(1, 5)
    clock.hear_clock(2, -5)
    clock.hear_clock(3, HOUR)
    assert clock.correction == 0


def test_two_nodes_that_disagree_settle_on_one_clock() -> None:
    one, other = GlobalClock(SECOND), GlobalClock(SECOND)
    one.hear_clock(2, HOUR)
    other.hear_clock(1, -HOUR)
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
