"""Where the order of a node begins, what it is owed from there on, and when it begins anew."""

import numpy as np
import pytest

from epicast.core import EventBatch, NodeId
from epicast.core.effects import Notice, Refuse
from epicast.protocols.catalog import stack_factory
from epicast.protocols.cyclon import CyclonConfig
from epicast.protocols.epto import EarlyStep, EptoConfig, Missing
from epicast.protocols.epto.early import EarlyReader
from epicast.protocols.epto.layout import MAX_BATCH_EVENTS
from epicast.protocols.epto.messages import Ball
from epicast.sim.latency import UniformLatency
from epicast.sim.node import SimNode
from epicast.sim.simulation import Simulation
from tests.protocols.epto.test_protocol import (
    HOUR,
    ME,
    OTHER,
    SECOND,
    THIRD,
    ball,
    delivered,
    missing,
    node,
    publish,
    rounds,
)
from tests.protocols.single import Single

MS = 1_000_000
LATER = HOUR + SECOND // 100


def stamps(sent: Ball) -> list[int]:
    return np.frombuffer(sent.columns, "<i8", sent.entries).tolist()  # type: ignore[no-any-return]


# -- joining -----------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", ["global", "logical"])
def test_who_joins_a_quiet_topic_begins_behind_what_was_published(clock: str) -> None:
    """With a counter it began with 1: what it published was late for everybody, and it missed what
    others had published long before."""
    orders: dict[NodeId, list[tuple[int, int]]] = {}
    numbers: dict[NodeId, int] = {}

    def deliver(now: int, node: NodeId, batch: EventBatch) -> None:
        orders.setdefault(node, []).extend((run.publisher, run.first) for run in batch.runs)

    def publish(node: SimNode) -> None:
        numbers[node.id] = numbers.get(node.id, 0) + 1
        simulation.publish(node, EventBatch.build(node.id, numbers[node.id], [b"x"]))

    simulation = Simulation(5, latency=UniformLatency(20 * MS, 60 * MS, 5), on_delivery=deliver)
    configs = {
        "cyclon": CyclonConfig(view_size=30, shuffle_period_ns=200 * MS),
        "epto": EptoConfig(clock=clock),  # type: ignore[arg-type]
    }
    factory = stack_factory(["cyclon", "epto"], configs)
    for identity in range(1, 8):
        contacts = [simulation.nodes[1].peer] if identity > 1 else []
        simulation.add_node(factory, contacts, identity)
    simulation.run_for(4 * SECOND)
    for at in range(14):
        publish(simulation.nodes[1 + at % 7])
        simulation.run_for(50 * MS)
    simulation.run_for(5 * SECOND)
    joiner = simulation.add_node(factory, [simulation.nodes[1].peer], 99)
    simulation.run_for(5 * SECOND)
    for _ in range(3):
        publish(joiner)
        simulation.run_for(100 * MS)
    publish(simulation.nodes[4])
    simulation.run_for(5 * SECOND)
    wanted = [(99, 1), (99, 2), (99, 3), (4, 3)]
    assert orders[99] == wanted
    assert all(orders[identity][-4:] == wanted for identity in range(1, 8))
    for each in simulation.nodes.values():
        assert each.protocol.statistics()["epto.missing"] == 0


def test_a_counter_is_told_once_it_is_to_be_believed() -> None:
    single = node(contacts=(OTHER,), clock="logical", idle_fanout=1)
    single.fire("round")
    ((_, sent),) = single.sent(Ball)
    assert sent.wall == 0
    single.receive(OTHER, ball(wall=41))
    rounds(single, 5)
    ((_, sent),) = single.sent(Ball)
    assert sent.wall == 41
    single.receive(OTHER, ball(wall=50))
    publish(single, 1, b"x")
    single.fire("round")
    ((_, sent),) = single.sent(Ball)
    assert stamps(sent) == [51] and sent.published_at == sent.first_at == 51


def test_what_is_published_while_joining_counts_by_its_bytes() -> None:
    """All was accepted, and refused when there was nobody left to tell."""
    single = node(contacts=(OTHER,), max_buffer_bytes=4_000_000, max_event_bytes=1_000_000)
    accepted = []
    for number in range(1, 11):
        publish(single, number, b"x" * 900_000)
        if not any(isinstance(op, Refuse) for op in single.fx.operations):
            accepted.append(number)
    assert accepted == [1, 2, 3, 4] and single.protocol.publish_room() == 0
    single.receive(OTHER, ball((HOUR, OTHER, 1, 0)), filler(500_000))
    for _ in range(4):
        single.fire("round")
        assert not any(isinstance(op, Refuse) for op in single.fx.operations)
    assert single.protocol.statistics()["settled"]
    assert single.protocol.statistics()["dropped_full"] == 1, "room is kept for what was accepted"
    assert rounds(single, 5)[-4:] == [(ME, number) for number in accepted]


def filler(size: int) -> Ball:
    big = node(THIRD)
    publish(big, 1, b"x" * size)
    big.fire("round")
    ((_, sent),) = big.sent(Ball)
    sent.wall = sent.published = sent.published_at = sent.first_at = 0
    return sent


def test_who_leaves_before_its_order_began_sends_what_it_published() -> None:
    single = node(contacts=(OTHER,))
    publish(single, 1, b"a")
    publish(single, 2, b"b")
    single.call("on_stop")
    ((targets, sent),) = single.sent(Ball)
    assert targets and sent.entries == 2 and stamps(sent)[0] >= HOUR
    other = node(OTHER)
    other.receive(ME, sent)
    assert rounds(other, 4) == [(ME, 1), (ME, 2)]


# -- what is owed ------------------------------------------------------------------------------


def began_at_an_hour(**settings: object) -> Single:
    """And has delivered something since."""
    single = node(**settings)  # type: ignore[arg-type]
    single.receive(THIRD, ball((HOUR + 100, THIRD, 1, 2)))
    assert rounds(single, 2) == [(THIRD, 1)]
    return single


def test_a_publisher_that_began_after_us_owes_all_its_events() -> None:
    single = began_at_an_hour()
    single.receive(OTHER, ball(published=4, published_at=LATER + 4, first_at=LATER + 1))
    single.receive(THIRD, ball((LATER + 4, OTHER, 4, 2)))
    single.fire("round")
    single.fire("round")
    assert missing(single) == [Missing(OTHER, 1, 3)], "before the batch it is noticed with"
    assert delivered(single) == [(OTHER, 4)]
    single.receive(OTHER, ball(published=4, published_at=LATER + 4, first_at=LATER + 1))
    assert missing(single) == [], "once is enough"


def test_its_word_may_come_after_its_events() -> None:
    single = began_at_an_hour()
    single.receive(THIRD, ball((LATER + 4, OTHER, 4, 2)))
    assert rounds(single, 3) == [(OTHER, 4)]
    single.receive(THIRD, ball((LATER + 3, OTHER, 3, 0)))
    single.fire("round")
    assert missing(single) == [Missing(OTHER, 3, 3)], "it has come too late"
    for wanted in ([Missing(OTHER, 1, 2)], []):
        single.receive(OTHER, ball(published=4, published_at=LATER + 4, first_at=LATER + 1))
        assert missing(single) == wanted


def test_of_a_publisher_never_heard_of_before_all_is_missed_by_its_word() -> None:
    single = began_at_an_hour()
    single.receive(THIRD, ball((LATER + SECOND // 5, THIRD, 2, 2)))
    assert rounds(single, 4) == [(THIRD, 2)]
    single.receive(OTHER, ball(published=10, published_at=LATER + 9, first_at=LATER + 1))
    assert missing(single) == [Missing(OTHER, 1, 10)]


def test_a_publisher_that_began_before_us_is_owed_from_where_it_is_heard_of() -> None:
    for first_at in (HOUR - 5, 0):
        single = began_at_an_hour()
        single.receive(OTHER, ball(published=4, published_at=LATER + 4, first_at=first_at))
        single.receive(THIRD, ball((LATER + 4, OTHER, 4, 2), (LATER + 5, THIRD, 2, 2)))
        assert rounds(single, 3) == [(OTHER, 4), (THIRD, 2)]
        single.receive(OTHER, ball(published=4, published_at=LATER + 4, first_at=first_at))
        assert single.protocol.statistics()["missing"] == 0
    single = node(contacts=(OTHER,))
    single.receive(OTHER, ball(published=4, published_at=HOUR - 5, first_at=HOUR - 9))
    rounds(single, 5)
    single.receive(OTHER, ball(published=4, published_at=HOUR - 5, first_at=HOUR - 9))
    single.receive(THIRD, ball((single.now, OTHER, 7, 2)))
    rounds(single, 2)
    assert missing(single) == [Missing(OTHER, 5, 6)], "4 was the last before our time"


def test_what_was_delivered_before_a_publisher_was_forgotten_is_not_missed() -> None:
    single = node(max_sources=16)
    single.receive(OTHER, ball((HOUR + 1, OTHER, 1, 2)))
    assert rounds(single, 2) == [(OTHER, 1)]
    for number in range(1, 4):
        entries = [(single.now - 100 + at, 1000 * number + at, 1, 2) for at in range(40)]
        single.receive(THIRD, ball(*entries))
        assert len(rounds(single, 2)) == 40
    assert single.protocol.statistics()["sources_forgotten"]
    single.receive(THIRD, ball((single.now, OTHER, 2, 2)))
    assert rounds(single, 2) == [(OTHER, 2)]
    single.receive(OTHER, ball(published=2, published_at=single.now, first_at=HOUR + 1))
    assert missing(single) == []


# -- beginning anew ----------------------------------------------------------------------------


def corrected(*, deliver: bool, **settings: object) -> Single:
    """It was alone and half an hour ahead, and others come that are right."""
    single = node(**settings)  # type: ignore[arg-type]
    publish(single, 1, b"ahead")
    assert rounds(single, 3 if deliver else 1) == ([(ME, 1)] if deliver else [])
    for peer in (OTHER, THIRD, 9):
        single.receive(peer, ball(wall=single.now - HOUR // 2))
    return single


@pytest.mark.parametrize("deliver", [True, False])
def test_who_was_ahead_begins_anew_with_the_others(deliver: bool) -> None:
    """For as long as it was ahead nobody took its events, nor it theirs, and nobody was told."""
    single = corrected(deliver=deliver)
    figures = single.protocol.statistics()
    assert figures["clock_correction_ns"] == -HOUR // 2 and figures["begun_anew"] == 1
    assert figures["missing"] == (0 if deliver else 1), "its own event, not delivered and given up"
    now = single.now - HOUR // 2
    publish(single, 2, b"right")
    single.fire("round")
    ((_, sent),) = single.sent(Ball)
    assert len(stamps(sent)) == 1 and abs(stamps(sent)[0] - now) < SECOND
    assert sent.published == 2 and sent.published_at == stamps(sent)[0]
    single.receive(OTHER, ball((now + SECOND // 50, OTHER, 1, 2)))
    assert sorted(rounds(single, 3)) == [(ME, 2), (OTHER, 1)]
    assert single.protocol.statistics()["begun_anew"] == 1


@pytest.mark.parametrize(("since", "wanted"), [(-SECOND, [Missing(ME, 1, 1)]), (SECOND, [])])
def test_others_are_told_what_became_of_its_events(since: int, wanted: list[Missing]) -> None:
    """Those who began before it was set right."""
    single = corrected(deliver=True)
    other = node(OTHER, contacts=(THIRD,), now=single.now - HOUR // 2 + since)
    other.receive(THIRD, ball())
    assert rounds(other, 4) == [] and other.protocol.statistics()["settled"]
    single.now += 5 * SECOND
    publish(single, 2, b"right")
    single.fire("round")
    ((_, sent),) = single.sent(Ball)
    other.receive(ME, sent)
    other.now = max(other.now, stamps(sent)[0])
    found, gaps = [], []
    for _ in range(4):
        other.fire("round")
        found += delivered(other)
        gaps += missing(other)
    assert found == [(ME, 2)] and gaps == wanted


def test_its_word_is_enough_for_those_who_began_before_and_nothing_to_those_who_came_later() -> (
    None
):
    single = corrected(deliver=True, idle_fanout=1)
    right = single.now - HOUR // 2
    single.fire("round")
    ((_, word),) = single.sent(Ball)
    assert word.entries == 0 and word.published == 1
    for since, wanted in ((-SECOND, [Missing(ME, 1, 1)]), (SECOND, [])):
        other = node(OTHER, contacts=(THIRD,), now=right + since)
        other.receive(THIRD, ball())
        assert rounds(other, 4) == [] and other.protocol.statistics()["settled"]
        other.receive(THIRD, ball((right + 3 * SECOND, THIRD, 1, 2)))
        other.now = right + 4 * SECOND
        assert rounds(other, 4) == [(THIRD, 1)]
        other.receive(ME, word)
        assert missing(other) == wanted


def test_what_was_given_early_is_taken_back_when_an_order_begins_anew() -> None:
    single = node()
    reader = single.protocol.early.add(0.5)
    for number in range(1, 40):
        publish(single, number, b"x")
        single.fire("round")
    given = single.protocol.statistics()["early_given"]
    waiting = given - single.protocol.statistics()["delivered"]
    assert waiting > 0
    steps: list[EarlyStep] = []
    for peer in (OTHER, THIRD, 9):
        single.receive(peer, ball(wall=single.now - HOUR // 2))
        steps += [
            op.value
            for op in single.fx.operations
            if isinstance(op, Notice) and isinstance(op.value, EarlyStep)
        ]
    assert steps == [EarlyStep(reader.number, waiting, None, 0)]
    publish(single, 40, b"x")
    single.now += SECOND
    assert rounds(single, 4) == [(ME, 40)]


def test_a_reader_is_given_a_bounded_number_of_events_at_a_time() -> None:
    class Waiting:
        first_new, delivered = 5, 1
        events = np.array([0, 10, 20, 10 + MAX_BATCH_EVENTS, 11 + MAX_BATCH_EVENTS])
        likely = np.ones(4)

        def batch(self, begin: int, end: int, given: int) -> None:
            self.given = begin, end

    waiting = Waiting()
    EarlyReader(1, 0.5).step(waiting)  # type: ignore[arg-type]
    assert waiting.given == (0, 3), "what is delivered, and so many events more"
