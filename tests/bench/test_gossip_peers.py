"""`bench gossip-peers` in small: real processes, loss, one killed; and what figures make of it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import bench_gossip_peers as bench
from bench.gossip_peer_parts import Meter, MostFile, read_most
from bench.harness import Bar, Result

PEER: dict[str, Any] = {
    "got": {"1": 320}, "duplicates": 0, "twice": 0, "gaps": 0, "bytes_sent": 1,
    "datagrams_received": 1, "retrieval_asked": 0, "retrieval_abandoned": 0, "purged_young": 0,
    "bytes_withheld": 0, "delays": [0, 200, 120], "over_budget": 0,
}  # fmt: skip


def test_everybody_who_stays_gets_everything() -> None:
    result = bench.run(quick=True)
    bars = {bar.name: bar for bar in result.bars}
    assert bars["delivery_ratio"].measured == 1
    assert bars["bytes_per_peer_per_s"].holds
    for setting in ("", "many_publishers."):
        assert result.figures[setting + "peers_at_the_end"] == 11
        assert result.figures[setting + "peers_measured"] == 13
        assert float(result.figures[setting + "most_bytes_per_s_of_crashed"]) > 0
        assert result.figures[setting + "delivered_twice"] == 0
    assert result.figures["many_publishers.delivery_ratio"] == 1
    assert result.figures["many_publishers.publishers"] == 8


def judged(change: dict[str, Any], staying: list[int], crashed: list[int]) -> Result:
    assert bench.QUICK.owed == 320
    report = {"peers": [PEER, PEER | change], "cpu_s": 1.0, "join_s": 1.0}
    return bench.judge(bench.QUICK, [report], 2.0, staying, crashed)


@pytest.mark.parametrize(
    ("change", "staying", "crashed", "fails"),
    [
        ({}, [50_000, 120_000], [120_000], set()),
        ({"got": {"1": 319}}, [50_000], [1], {"delivery_ratio"}),
        ({}, [50_000, 120_001], [1], {"bytes_per_peer_per_s"}),
        ({}, [50_000], [1, 120_001], {"bytes_per_peer_per_s"}),
    ],
)
def test_verdict(
    change: dict[str, Any], staying: list[int], crashed: list[int], fails: set[str]
) -> None:
    result = judged(change, staying, crashed)
    assert {bar.name for bar in result.bars if not bar.holds} == fails


def test_the_second_setting_has_figures_and_no_bars() -> None:
    slow = judged({"got": {"1": 0}}, [130_000], [1])
    result = bench.with_many(
        Result("gossip-peers", {"events": 1}, [Bar("x", 1, "at least", 1)]), slow
    )
    assert result.holds and [bar.name for bar in result.bars] == ["x"]
    assert result.figures["events"] == 1
    assert result.figures["many_publishers.events"] == 320
    assert result.figures["many_publishers.delivery_ratio"] == 0.5


def test_both_settings_try_the_same_rate() -> None:
    for few, many in ((bench.FULL, bench.MANY), (bench.QUICK, bench.QUICK_MANY)):
        rates = [load.owed / (load.batches * load.every_s) for load in (few, many)]
        assert rates[0] == rates[1]
        staying = min(many.peers - crashing for crashing in many.crashing)
        assert few.publishers < many.publishers <= staying
    assert bench.MANY.processes * bench.MANY.publishers >= 100


# -- What is sent in a second -------------------------------------------------------------------


def test_a_meter_has_its_most_on_file(tmp_path: Path) -> None:
    file, meters = MostFile(tmp_path / "most"), [Meter(), Meter()]
    meters[0].note(0.0, 300)  # before it is kept
    for place, meter in enumerate(meters):
        meter.keep(file, place)
    assert read_most(tmp_path / "most") == [300, 0]
    meters[1].note(10.0, 100)
    meters[1].note(10.5, 250)
    meters[1].note(11.2, 260)  # 160 in the second that ends here
    assert read_most(tmp_path / "most") == [300, 250]


def test_what_was_sent_is_known_of_a_process_that_was_killed(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from bench.gossip_peer_parts import *;"
        "meter = Meter(); meter.keep(MostFile(Path(sys.argv[1])), 0);"
        "meter.note(1.0, 777); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path / "most")], check=False)
    assert killed.returncode == -9
    assert read_most(tmp_path / "most") == [777]


def test_those_that_crash_are_the_last_to_have_joined(tmp_path: Path) -> None:
    load = replace(bench.QUICK, processes=2, peers=3, crashing=(1, 0), killed=2)
    files = [tmp_path / name for name in "abc"]
    for file, found in zip(files, ([1, 2, 30], [4, 5, 6], [70, 80]), strict=True):
        for place, most in enumerate(found):
            MostFile(file).write(place, most)
    assert bench.most_sent(load, files) == ([1, 2, 4, 5, 6], [30, 70, 80])
    files[1].write_bytes(files[1].read_bytes()[:16])
    with pytest.raises(RuntimeError, match="2 of 3 peers"):
        bench.most_sent(load, files)
