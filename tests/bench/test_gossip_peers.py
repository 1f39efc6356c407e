"""`bench gossip-peers` in small: real processes, loss, one killed; and what figures make of it."""

from typing import Any

import pytest

from bench import bench_gossip_peers as bench

PEER: dict[str, Any] = {
    "got": {"1": 320}, "duplicates": 0, "twice": 0, "gaps": 0, "most_bytes_per_s": 50_000,
    "bytes_sent": 1,
    "datagrams_received": 1, "retrieval_asked": 0, "retrieval_abandoned": 0, "purged_young": 0,
    "bytes_withheld": 0, "delays": [0, 200, 120], "over_budget": 0,
}  # fmt: skip


def test_everybody_who_stays_gets_everything() -> None:
    result = bench.run(quick=True)
    bars = {bar.name: bar for bar in result.bars}
    assert bars["delivery_ratio"].measured == 1
    assert bars["bytes_per_peer_per_s"].holds
    assert result.figures["peers_at_the_end"] == 11
    assert result.figures["delivered_twice"] == 0


@pytest.mark.parametrize(
    ("change", "fails"),
    [
        ({}, set()),
        ({"got": {"1": 319}}, {"delivery_ratio"}),
        ({"most_bytes_per_s": 120_001}, {"bytes_per_peer_per_s"}),
    ],
)
def test_verdict(change: dict[str, Any], fails: set[str]) -> None:
    assert bench.QUICK.owed == 320
    report = {"peers": [PEER, PEER | change], "cpu_s": 1.0, "join_s": 1.0}
    result = bench.judge(bench.QUICK, [report], 2.0)
    assert {bar.name for bar in result.bars if not bar.holds} == fails
