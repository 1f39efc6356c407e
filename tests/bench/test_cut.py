"""What `bench cut` makes of the outages it sees."""

import msgspec
import pytest

from bench import bench_cut
from epicast.experiments.geo_cut import Outage

GOOD = Outage(stalled_ms=60, bound_ms=100, drained_ms=70, published=1000, lost=0, switches=1)


@pytest.mark.parametrize(
    ("change", "holds"),
    [({}, True), ({"stalled_ms": 101}, False), ({"lost": 1}, False)],
)
def test_verdict(monkeypatch: pytest.MonkeyPatch, change: dict[str, float], holds: bool) -> None:
    outage = msgspec.structs.replace(GOOD, **change)
    monkeypatch.setattr(bench_cut, "measure", lambda how, outage_s: outage)
    result = bench_cut.run(quick=True)
    assert result.holds is holds
    assert result.figures["swallows_median_ms"] == outage.stalled_ms
    assert [bar.name for bar in result.bars] == [
        "swallows_stalled_ms", "breaks_stalled_ms", "deaf_stalled_ms", "lost",
    ]  # fmt: skip
