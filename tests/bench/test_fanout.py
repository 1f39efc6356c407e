"""A small region, for real: everybody gets everything, and the bytes are counted."""

from collections import Counter

import pytest

from bench import bench_fanout
from bench.fanout_parts import BATCH, Follower
from bench.peer_ways import Expected
from bench.rivals.events import EVENT_BYTES, events
from epicast.core import EventBatch


def test_a_small_region() -> None:
    count = 5 * BATCH // 2
    result = bench_fanout.measure(8, 2, count, rate=100_000, heartbeat_s=1, settle_s=0.5)
    assert result.holds
    figures = result.figures
    assert figures["payload_bytes"] == count * EVENT_BYTES
    # Everybody has received every event at least once. Batches that had to wait come as one, so
    # that it can be less than all of them encoded one by one: amplification can be below 1.
    assert float(figures["received_bytes_per_agent"]) >= count * EVENT_BYTES
    assert float(figures["amplification"]) > 0.9
    assert 0 < float(figures["proxy_share_of_bytes"]) <= 1


def test_figures() -> None:
    names = ("bytes_sent", "duplicates", "fallbacks", "notified", "connections_made")
    reports = [{"statistics": dict.fromkeys(names, value)} for value in (100, 300)]
    figures = bench_fanout.evaluate(reports, agents=4, events=10, encoded=80.0, proxy_bytes=240)
    assert figures["sent_bytes_per_agent"] == 100
    assert figures["received_bytes_per_agent"] == 160
    assert figures["amplification"] == 2.0
    assert figures["proxy_share_of_bytes"] == 240 / 640
    assert figures["duplicates_per_agent"] == 100


class Deaf:
    """Stands in for agent and driver."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def consumed(self, number: int, seq: int) -> None:
        self.calls["consumed"] += 1

    def wake(self) -> None:
        self.calls["wake"] += 1


@pytest.mark.parametrize(
    ("batches", "last", "fine"),
    [
        ([(1, 50), (51, 60)], 60, True),
        ([(1, 50), (52, 60)], 50, False),
        ([(1, 50), (1, 50)], 50, False),
    ],
)
def test_an_agent_counts_only_what_follows(
    batches: list[tuple[int, int]], last: int, fine: bool
) -> None:
    follower, expected = Follower(1, Expected()), events(100)
    follower._agent = follower._driver = Deaf()  # type: ignore[assignment]
    for first, end in batches:
        follower._on_delivery(1, EventBatch.build(1, first, expected[first - 1 : end]))
    assert follower.last == last
    assert (not follower.error) == fine
