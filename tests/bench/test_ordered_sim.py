"""`bench ordered-sim` simulates what it says, and loses nothing."""

from bench import bench_ordered_sim


def test_the_quick_run_delivers_what_is_published() -> None:
    result = bench_ordered_sim.run(quick=True)
    assert result.figures["missing"] == 0
    assert 0.8 < float(result.figures["delivered_share_of_published"]) < 1.2
    assert [bar.name for bar in result.bars] == ["rounds_per_s"]
