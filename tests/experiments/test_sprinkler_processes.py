"""Claim S1 on real processes, briefly; and that what goes wrong in one is noticed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epicast.experiments import sprinkler_processes
from epicast.experiments.geo_events import ROWS, DrawnStream, Expected, digest
from epicast.experiments.geo_load import (
    LATEST_PER_KEY,
    LoadError,
    Measured,
    check,
    evaluate,
    measure,
)
from epicast.experiments.model import Scale
from epicast.experiments.parts import Leader, PartFailed, Team
from epicast.experiments.results import Results
from epicast.experiments.sprinkler_processes import SprinklerProcesses


def echo(leader: Leader, factor: int) -> None:
    while True:
        leader.send(factor * leader.recv())


def break_down(leader: Leader) -> None:
    leader.send(1 // 0)


def leave(leader: Leader) -> None:
    leader.close()


def test_parts_talk_and_end_with_their_team() -> None:
    with Team() as team:
        parts = [team.start(echo, factor) for factor in (2, 3)]
        for part in parts:
            part.tell(5)
        assert [part.hear(60) for part in parts] == [10, 15]
        processes = [part._process for part in parts]
        assert all(process.is_alive() for process in processes)
    assert all(process._closed for process in processes)  # closed only once it has ended


@pytest.mark.parametrize(
    ("part", "message"),
    [(break_down, r"(?s)break_down failed.*ZeroDivisionError"), (leave, "leave has ended")],
)
def test_a_part_that_fails_says_why(part: Any, message: str) -> None:
    with Team() as team, pytest.raises(PartFailed, match=message):
        team.start(part).hear(60)


def test_a_silent_part_is_not_waited_for() -> None:
    with Team() as team, pytest.raises(PartFailed, match=r"echo said nothing for 0\.05 s"):
        team.start(echo, 1).hear(0.05)


def test_expected_events_are_those_drawn() -> None:
    source = DrawnStream(9, 4)
    batches = [source.batch() for _ in range(3)]
    assert [batch.first for batch in batches] == [1, ROWS + 1, 2 * ROWS + 1]
    expected = Expected(9, 4, 3 * ROWS)
    assert expected.digest == sum(map(digest, batches)) % 2**64
    latest: dict[bytes, int] = {}
    for batch in batches:
        latest.update(zip(batch.keys(), batch.seqs.tolist(), strict=True))
    assert expected.live() == {seq: key for key, seq in latest.items()}


def report(expected: Expected, **changes: Any) -> dict[str, Any]:
    stream = {"last": expected.events, "rows": expected.events, "digest": expected.digest}
    return {
        "failures": changes.pop("failures", []),
        "streams": {"s": [*(stream | changes).values()]},
    }


def test_whatever_differs_from_what_was_published_is_an_error() -> None:
    expected = Expected(9, 4, 2 * ROWS)
    check(report(expected), {"s": expected})
    check(report(expected, rows=5, digest=0), {"s": expected})  # tombstones instead of the rest
    for change in ({"last": ROWS}, {"digest": 1}, {"failures": ["gap"]}):
        with pytest.raises(LoadError):
            check(report(expected, **change), {"s": expected})


def test_rates_and_delays_from_the_files(tmp_path: Path) -> None:
    ms = 1_000_000
    np.save(tmp_path / "a.npy", np.array([0, 10 * ms, 20 * ms]))
    rows = [(ROWS, 5 * ms, ROWS), (2 * ROWS, 15 * ms, 10), (3 * ROWS, 40 * ms, ROWS)]
    np.savez(tmp_path / "a.npz", a=np.array(rows))
    found = evaluate(tmp_path, ["a"], (10 * ms, 50 * ms), 0.0)
    assert found.events_per_s == pytest.approx(2 * ROWS / 0.04)
    assert found.p50_ms == pytest.approx((5 + 20) / 2)
    assert found.rows_share == pytest.approx((2 * ROWS + 10) / (3 * ROWS))
    nothing = evaluate(tmp_path, ["a"], (50 * ms, 60 * ms), 0.0)
    assert (nothing.events_per_s, nothing.p99_ms) == (0, np.inf)


@pytest.mark.parametrize("regions", [1, 2])
def test_a_geoplex_under_load_loses_nothing(regions: int) -> None:
    """`measure` compares everything itself; how fast it was depends on the machine."""
    found = measure(regions, LATEST_PER_KEY, 3.0)
    assert 0 < found.p50_ms <= found.p99_ms
    assert 0 < found.rows_share <= 1


def test_smoke_with_a_given_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    def pretend(regions: int, policy: str, seconds: float) -> Measured:
        return Measured(9e6 - 1e6 * regions, 5.0, 20.0, 1.0, 1.0)

    monkeypatch.setattr(sprinkler_processes, "measure", pretend)
    experiment = SprinklerProcesses()
    for scale in Scale:
        (point,) = experiment.points(scale)
        rows = experiment.run(point, 1)
        (claim,) = experiment.claims(Results(scale, rows))
        assert (claim.id, claim.holds) == ("S1", True)
        assert "8.0 M with 1" in claim.ours and "6.0 M with 3" in claim.ours
        assert [plot.name for plot in experiment.plots(Results(scale, rows))] == ["throughput"]


@pytest.mark.parametrize(
    ("one", "three", "verdict"), [(8e6, 6e6, True), (3e6, 2.5e6, False), (5e6, 6e6, False)]
)
def test_verdict_on_processes(one: float, three: float, verdict: bool) -> None:
    rows = [
        {"proxies": count, "policy": "paper", "events_per_s": rate, "p99_ms": 20.0, "cores": 2}
        for count, rate in ((1, one), (3, three))
    ]
    (claim,) = SprinklerProcesses().claims(Results(Scale.PAPER, rows))
    assert claim.holds is verdict
