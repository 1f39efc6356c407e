"""Early delivery: what is applied early and rolled back when it is revised is in the end the order.

After every round of every run the applications of `orders` have exactly what was delivered and,
after it, the events that are likely enough by a model of lists.
"""

import numpy as np
import pytest

from epicast.core import ConfigError
from epicast.core.effects import Notice
from epicast.protocols.epto import EarlyStep, Missing
from epicast.protocols.epto.early import EarlyOrder
from epicast.protocols.epto.stability import NEVER, Stability
from tests.protocols.epto.orders import events_of, run_orders
from tests.protocols.epto.test_protocol import HOUR, OTHER, SECOND, THIRD, ball, node
from tests.protocols.single import Single

RUNS = 240
PARTS = 4


@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_who_rolls_back_when_told_to_has_the_order_in_the_end(part: int) -> None:
    early = revisions = 0
    for seed in range(part, RUNS, PARTS):
        try:
            nodes = run_orders(seed, early=True)
        except Exception as error:
            raise AssertionError(f"run_orders({seed}, early=True): {error!r}") from error
        for each in nodes.values():
            applications = [application for _, application in each.readers.values()]
            for application in applications:
                assert application.applied == each.order[application.since :], "all confirmed"
            applications += each.left
            early += sum(application.early for application in applications)
            revisions += sum(application.revisions for application in applications)
    assert early > 500 and revisions > 50, "or nothing was tried"


def told(single: Single) -> list[object]:
    """What the round has told readers: taken back, given and confirmed; and holes."""
    found: list[object] = []
    for operation in single.fx.operations:
        if isinstance(operation, Notice) and isinstance(operation.value, EarlyStep):
            step = operation.value
            given = [] if step.batch is None else [event[:2] for event in events_of(step.batch)]
            found.append((step.revised, given, step.confirmed))
        elif isinstance(operation, Notice):
            found.append(operation.value)
    return found


def steps(single: Single, rounds: int) -> list[object]:
    found = []
    for _ in range(rounds):
        single.fire("round")
        found += told(single)
    return found


def watching(probability: float, **settings: object) -> Single:
    """A node that has seen one event keep its place: the next will with a probability of 0.5."""
    single = node(clock="logical", **settings)
    assert isinstance(single.protocol.early, EarlyOrder)
    single.protocol.early.add(probability)
    single.fire("round")
    single.receive(OTHER, ball((1, OTHER, 1, 0)))
    assert steps(single, 5) == [(0, [(OTHER, 1)], 1)], "nothing was known: given when it is certain"
    return single


def test_an_event_is_given_early_and_confirmed_when_it_is_delivered() -> None:
    single = watching(0.5)
    single.receive(OTHER, ball((2, OTHER, 2, 0), (3, THIRD, 1, 0)))
    assert steps(single, 1) == [(0, [(OTHER, 2), (THIRD, 1)], 0)]
    assert steps(single, 5) == [(0, [], 2)], "both at once"


def test_what_comes_before_an_early_event_takes_it_back() -> None:
    single = watching(0.5)
    single.receive(OTHER, ball((10, THIRD, 1, 0)))
    assert steps(single, 1) == [(0, [(THIRD, 1)], 0)]
    single.receive(OTHER, ball((5, OTHER, 2, 0), (20, OTHER, 3, 0)))
    assert steps(single, 1) == [(1, [(OTHER, 2), (THIRD, 1), (OTHER, 3)], 0)]
    assert steps(single, 5) == [(0, [], 3)]
    single.receive(OTHER, ball((30, THIRD, 2, 0)))
    single.fire("round")
    (pending,) = single.protocol.pending()
    assert pending.stable == pytest.approx(1 - 2 / 5), "one of four was moved at this age"


def test_an_event_that_is_not_likely_enough_is_given_when_it_is_certain() -> None:
    single = watching(0.6)
    single.receive(OTHER, ball((2, OTHER, 2, 0)))
    assert steps(single, 4) == []
    assert steps(single, 1) == [(0, [(OTHER, 2)], 1)]


def test_a_hole_is_reported_before_what_comes_after_it_is_confirmed() -> None:
    single = watching(0.5)
    single.receive(OTHER, ball((4, OTHER, 4, 0)))
    assert steps(single, 1) == [(0, [(OTHER, 4)], 0)], "2 and 3 may still come"
    assert steps(single, 5) == [Missing(OTHER, 2, 3), (0, [], 1)]


def test_an_event_from_the_future_is_not_likely_to_be_the_next() -> None:
    single = node()
    single.protocol.early.add(0.3)
    single.fire("round")
    single.receive(OTHER, ball((HOUR, OTHER, 1, 2)))
    assert steps(single, 2) == [(0, [(OTHER, 1)], 1)]
    single.receive(OTHER, ball((HOUR + 1, OTHER, 2, 0), (single.now + SECOND, THIRD, 1, 2)))
    assert steps(single, 1) == [(0, [(OTHER, 2)], 0)]


def test_nobody_watches_when_nobody_reads() -> None:
    single = watching(0.5)
    early = single.protocol.early
    (reader,) = early._readers.values()
    early.remove(reader)
    single.receive(OTHER, ball((2, OTHER, 2, 0), (4, THIRD, 1, 0)))
    assert steps(single, 1) == [] and len(early._ages) == 0
    early.add(0.5)
    assert steps(single, 1) == [(0, [(OTHER, 2), (THIRD, 1)], 0)], "what it knew it still knows"
    single.receive(OTHER, ball((3, OTHER, 3, 0)))
    assert steps(single, 1) == [(1, [(OTHER, 3), (THIRD, 1)], 0)]


@pytest.mark.parametrize("wrong", [0, 1, -0.5, 1.5, float("nan"), True, "0.9", None])
def test_what_is_no_probability_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"^early: .*0\.99"):
        EarlyOrder().add(wrong)  # type: ignore[arg-type]


def test_stability_is_the_share_of_those_seen_at_an_age_that_were_not_moved_later() -> None:
    stability = Stability()
    assert (stability.by_age == 0).all()
    stability.learn(np.empty((0, 3), dtype=np.int64))
    assert (stability.by_age == 0).all()
    stability.learn(np.array([[1, NEVER, NEVER]] * 7 + [[1, 3, 4], [1, 1, 2], [6, 7, 8]]))
    seen, moved_later = (0, 9, 9, 9, 9, 9, 10, 10, 10), (0, 2, 1, 1, 0, 0, 1, 1, 0)
    assert stability.by_age[:9].tolist() == pytest.approx(
        [1 - (moved + 1) / (known + 1) for known, moved in zip(seen, moved_later, strict=True)]
    )


def test_moves_between_two_looks_are_put_where_others_were() -> None:
    stability = Stability()
    for _ in range(300):
        stability.learn(np.array([[1, 4, 5]] * 9 + [[1, 1, 9]]))
    assert stability.by_age[4] < 0.01
    assert stability.by_age[5] > 0.98, "those moved between 1 and 9 were moved at 5 as the others"


def test_what_was_is_forgotten_when_things_change() -> None:
    stability = Stability()
    for _ in range(100):
        stability.learn(np.full((1000, 3), (1, NEVER, NEVER)))
    assert 0.9999 < stability.by_age[5] < 1
    for _ in range(60):
        stability.learn(np.full((1000, 3), (1, 7, 8)))
    assert stability.by_age[5] < 0.25 and stability.by_age[8] > 0.9999
