"""What the experiment on early delivery measures is right, and its readers disturb nobody."""

import numpy as np
import pytest

from epicast.core import EventBatch
from epicast.experiments.epto_early import PROBABILITIES, EarlySystem, EptoEarly, _Given
from epicast.experiments.model import Scale
from epicast.experiments.ordered_rounds import OrderedSystem, Setting
from epicast.experiments.results import Results
from epicast.protocols.epto import EarlyStep

SETTING = Setting(processes=20, rate=0.5, rounds=30)


@pytest.fixture(scope="module")
def found() -> EarlySystem:
    early = EarlySystem(SETTING, 3)
    early.system.run()
    return early


def test_readers_change_nothing(found: EarlySystem) -> None:
    plain = OrderedSystem(SETTING, 3, watched=False)
    plain.run()
    for node, log in plain.delivered.items():
        other = found.system.delivered[node]
        assert [now for now, _ in log] == [now for now, _ in other]
        assert plain.order(node).tolist() == found.system.order(node).tolist()


def test_what_is_likelier_comes_later_and_is_revised_less(found: EarlySystem) -> None:
    rows = found.deliveries()
    assert [row["probability"] for row in rows] == list(PROBABILITIES)
    delays = [float(row["early_delay"] or 0) for row in rows]
    shares = [float(row["revised"] or 0) for row in rows]
    assert delays == sorted(delays) and shares == sorted(shares, reverse=True)
    final = found.system.delays().mean()
    assert delays[0] < 0.8 * final and 0 < shares[0] < 0.5
    assert all(float(row["final_delay"] or 0) == pytest.approx(final, rel=0.1) for row in rows)


def test_odds_are_compared_with_what_became_of_it(found: EarlySystem) -> None:
    rows = found.calibration()
    assert [row["band"] for row in rows][:3] == [0.0, 0.5, 0.9]
    for row in rows:
        predicted, observed = float(row["predicted"] or 0), float(row["observed"] or 0)
        assert abs(predicted - observed) < 0.2, row
    kept = found._samples
    identity = next(iter(kept))
    delivered, names, odds = next(sample for sample in kept[identity] if len(sample[1]) > 1)
    try:
        found._samples = {node: [] for node in kept}
        found._samples[identity] = [(delivered, names[::-1], np.full(len(odds), 0.95))]
        (row,) = found.calibration()
        assert (row["band"], row["samples"]) == (0.9, len(odds))
        assert float(row["observed"] or 0) <= 1 / len(odds), "all but the middle are out of place"
    finally:
        found._samples = kept


def test_what_was_taken_back_is_remembered() -> None:
    def batch(*events: int) -> EventBatch:
        return EventBatch.build(1, 1, [event.to_bytes(8, "little") for event in events])

    given = _Given(5)
    given.take(10, EarlyStep(1, 0, batch(0, 1), 0))
    given.take(20, EarlyStep(1, 1, batch(2, 1), 1))
    given.take(30, EarlyStep(1, 0, batch(3), 3))
    assert given.first[:4].tolist() == [10, 10, 20, 30]
    assert given.final[:4].tolist() == [20, 30, 30, 30]
    assert given.revised.tolist() == [False, True, False, False, False]


def test_results_are_drawn() -> None:
    experiment = EptoEarly()
    (point, *_) = experiment.points(Scale.SMOKE)
    rows = [
        {**point, "clock": clock} | row
        for clock in ("global", "logical")
        for row in (
            [{"probability": p, "early_delay": 300.0} for p in PROBABILITIES]
            + [{"band": 0.5, "predicted": 0.7, "observed": 0.8}]
        )
    ]
    plots = experiment.plots(Results(Scale.SMOKE, rows))
    assert [plot.name for plot in plots] == ["delay", "odds"]
    assert experiment.claims(Results(Scale.SMOKE, rows)) == []
