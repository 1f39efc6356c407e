"""One node, or two, of EpTO: what is delivered when, what is missed, what is refused."""

import subprocess
import sys
from itertools import accumulate
from random import Random

import pytest

from epicast.core import DATA, DATAGRAM, EventBatch, Peer, Publication
from epicast.core.effects import Notice, Refuse
from epicast.core.message import Layered
from epicast.protocols.epto import Epto, EptoConfig, Missing
from epicast.protocols.epto.entries import by_source, columns_of
from epicast.protocols.epto.messages import Ball, Probe, ProbeAnswer
from epicast.protocols.membership import FullMembership
from epicast.wire import encode_datagram
from tests.protocols.single import Single

ME, OTHER, THIRD = 5, 6, 7
SECOND = 1_000_000_000
HOUR = 3600 * SECOND
NOTHING = {"wall": 0, "published": 0, "published_at": 0, "latency": 0, "epoch": 0, "size": 0}


def node(
    identity: int = ME, contacts: tuple[int, ...] = (), now: int = HOUR, **settings: object
) -> Single:
    config = {"system_size": 100, "ttl": 2, "adaptive_period": False, "idle_fanout": 0}
    config |= {"extra_rounds": 0} | settings
    rng = Random(7)
    members = FullMembership(identity, [ME, OTHER, THIRD], rng)
    epto = Epto(Peer(identity), EptoConfig(**config), rng, members)  # type: ignore[arg-type]
    single = Single(epto)
    single.now = now
    single.start(*contacts)
    return single


def ball(*entries: tuple[int, int, int, int], **fields: object) -> Ball:
    """Of (time, source, number, ttl) in ascending order."""
    parts = [
        columns_of(time, source, EventBatch.build(source, number, [b"%d/%d" % (source, number)]))
        for time, source, number, _ in entries
    ]
    columns = b"".join(part[at : at + 8] for at in (0, 8, 16) for part in parts)
    ends = accumulate(len(part) - 33 for part in parts)
    columns += b"".join((1 << 32 | end).to_bytes(8, "little") for end in ends)
    columns += bytes(ttl for *_, ttl in entries) + b"".join(part[33:] for part in parts)
    return Ball(len(entries), columns, minima=b"", **(NOTHING | fields))  # type: ignore[arg-type]


def publish(single: Single, first: int, *payloads: bytes) -> None:
    batch = EventBatch.build(single.protocol.node.id, first, payloads)
    single.call("on_publish", (Publication(batch.stream, first, batch),))


def rounds(single: Single, count: int) -> list[tuple[int, int]]:
    """Source and number of what is delivered in so many rounds."""
    found = []
    for _ in range(count):
        single.fire("round")
        found += delivered(single)
    return found


def delivered(single: Single) -> list[tuple[int, int]]:
    return [
        (part.stream, number)
        for batch in single.fx.deliveries
        for part in by_source(batch)
        for number in range(part.first, part.last + 1)
    ]


def missing(single: Single) -> list[Missing]:
    return [op.value for op in single.fx.operations if isinstance(op, Notice)]


def test_an_event_is_sent_in_the_next_round_and_delivered_after_ttl_more() -> None:
    single = node()
    publish(single, 1, b"a", b"bc")
    single.fire("round")
    ((targets, sent),) = single.sent(Ball)
    assert sorted(targets) == [OTHER, THIRD] and sent.entries == 1
    assert sent.columns[32] == 1, "its ttl"
    assert rounds(single, 1) == []
    assert single.sent(Ball) == [], "a ball is what was heard since the last round"
    assert rounds(single, 1) == [(ME, 1), (ME, 2)]
    (batch,) = single.fx.deliveries
    assert batch.payloads() == [b"a", b"bc"]


def test_the_largest_ttl_counts_and_ends_relaying() -> None:
    single = node()
    single.receive(OTHER, ball((100, OTHER, 1, 0)))
    single.receive(THIRD, ball((100, OTHER, 1, 1)))
    single.fire("round")
    ((_, sent),) = single.sent(Ball)
    assert sent.columns[32] == 2
    single.receive(THIRD, ball((100, OTHER, 1, 2)))
    assert rounds(single, 1) == [(OTHER, 1)]
    assert single.sent(Ball) == [], "ttl 3 is more than TTL"


def test_an_event_that_comes_with_ttl_used_up_is_delivered_all_the_same() -> None:
    """Algorithm 4 as printed would drop it unread."""
    single = node()
    single.receive(OTHER, ball((100, OTHER, 1, 2)))
    assert rounds(single, 2) == [(OTHER, 1)]


@pytest.mark.parametrize(("clock", "waited"), [("global", 4), ("logical", 5)])
def test_with_a_global_clock_a_round_more_is_waited_for(clock: str, waited: int) -> None:
    single = node(clock=clock, extra_rounds=-1)
    single.receive(OTHER, ball((100, OTHER, 1, 0)))
    assert rounds(single, waited - 1) == []
    assert rounds(single, 1) == [(OTHER, 1)]


def test_events_are_delivered_by_timestamp_then_source() -> None:
    single = node()
    single.receive(OTHER, ball((100, THIRD, 1, 1), (101, OTHER, 1, 1)))
    single.receive(OTHER, ball((99, THIRD + 9, 4, 0), (100, OTHER + 9, 3, 0), (101, ME, 1, 0)))
    assert rounds(single, 2) == [], "the first of all is not stable"
    assert rounds(single, 1) == [
        (THIRD + 9, 4), (THIRD, 1), (OTHER + 9, 3), (ME, 1), (OTHER, 1),
    ]  # fmt: skip


def test_figure_5_6_concurrent_events_under_a_logical_clock() -> None:
    """Both are stamped 1; p precedes q; q must not deliver its own before it hears of p's."""
    p, q = node(ME, clock="logical"), node(OTHER, clock="logical")
    publish(q, 1, b"e")
    q.fire("round")
    ((_, e),) = q.sent(Ball)
    q.fire("round")
    publish(p, 1, b"e'")
    p.receive(OTHER, e)
    p.fire("round")
    ((_, both),) = p.sent(Ball)
    q.receive(ME, both)
    assert rounds(p, 4) == rounds(q, 4) == [(ME, 1), (OTHER, 1)]


def test_a_late_event_is_a_hole_and_a_repetition_is_not() -> None:
    single = node()
    single.receive(OTHER, ball((100, OTHER, 1, 2), (200, THIRD, 1, 2)))
    assert rounds(single, 2) == [(OTHER, 1), (THIRD, 1)]
    single.receive(OTHER, ball((100, OTHER, 1, 0)))
    assert missing(single) == []
    single.receive(OTHER, ball((150, OTHER, 2, 0)))
    single.fire("round")
    assert missing(single) == [Missing(OTHER, 2, 2)]
    ((_, relayed),) = single.sent(Ball)
    assert relayed.entries == 1, "others may still be in time for it; the other one is old"
    assert rounds(single, 5) == []
    single.receive(OTHER, ball((150, OTHER, 2, 0)))
    single.fire("round")
    assert missing(single) == [], "once is enough"
    assert single.protocol.statistics()["missing"] == 1


def test_a_number_that_never_came_is_missed_with_the_next() -> None:
    single = node()
    single.receive(OTHER, ball((100, OTHER, 1, 2)))
    rounds(single, 2)
    single.receive(OTHER, ball((200, OTHER, 4, 2)))
    single.fire("round")
    single.fire("round")
    assert missing(single) == [Missing(OTHER, 2, 3)]
    assert delivered(single) == [(OTHER, 4)]


def test_the_last_event_of_a_publisher_is_missed_when_it_says_so() -> None:
    single = node()
    single.receive(OTHER, ball((100, OTHER, 1, 2), (300, THIRD, 1, 2)))
    assert len(rounds(single, 2)) == 2
    single.receive(OTHER, ball(published=1, published_at=100))
    assert missing(single) == []
    single.receive(OTHER, ball(published=2, published_at=400))
    assert missing(single) == [], "it may still come"
    single.receive(OTHER, ball(published=2, published_at=200))
    assert missing(single) == [Missing(OTHER, 2, 2)]


def test_a_clock_an_hour_ahead_stops_nobody() -> None:
    single = node()
    single.receive(OTHER, ball((2 * HOUR, OTHER, 1, 0)))
    single.fire("round")
    assert single.drops() == ["timestamp too far ahead"]
    single.receive(THIRD, ball((HOUR, THIRD, 1, 2)))
    assert rounds(single, 3) == [(THIRD, 1)]
    assert single.protocol.statistics()["refused"] == 1


def test_an_event_from_the_near_future_is_delivered_when_it_is_time() -> None:
    single = node()
    single.receive(OTHER, ball((HOUR + SECOND, OTHER, 1, 2)))
    assert rounds(single, 8) == []
    publish(single, 1, b"x")
    found = rounds(single, 8)
    assert found == [(OTHER, 1), (ME, 1)], "and holds back only what comes after it"


def test_a_node_an_hour_behind_still_publishes_in_time() -> None:
    single = node()
    for peer in (OTHER, THIRD):
        single.receive(peer, ball(wall=2 * HOUR))
    assert single.protocol.statistics()["clock_correction_ns"] == HOUR
    publish(single, 1, b"x")
    single.fire("round")
    ((_, sent),) = single.sent(Ball)
    assert int.from_bytes(sent.columns[:8], "little") >= 2 * HOUR


def test_clocks_that_are_right_count_as_much_as_wrong_ones() -> None:
    single = node()
    for _ in range(100):
        single.receive(OTHER, ball(wall=1))
        single.receive(THIRD, ball(wall=HOUR))
        assert single.protocol.statistics()["clock_correction_ns"] == 0


def test_who_joins_begins_after_what_it_heard_of() -> None:
    single = node(contacts=(OTHER,), clock="logical")
    publish(single, 1, b"mine")
    single.receive(OTHER, ball((7, OTHER, 8, 2)))
    assert rounds(single, 4) == []
    assert single.protocol.statistics()["settled"] == 1
    single.receive(OTHER, ball((6, THIRD, 3, 2), (8, THIRD, 4, 2)))
    single.fire("round")
    assert missing(single) == [], "3 is from before its time"
    assert rounds(single, 4) == [(ME, 1), (THIRD, 4)], "its own was stamped when it began"


def test_buffers_have_limits_and_what_finds_no_room_is_counted() -> None:
    single = node(max_entries=16)
    single.receive(OTHER, ball(*((100 + n, OTHER, n, 0) for n in range(1, 41))))
    single.fire("round")
    assert single.protocol.statistics()["entries"] == 16
    assert single.protocol.statistics()["dropped_full"] == 24
    assert single.protocol.publish_room() == 0
    publish(single, 1, b"x")
    assert [op.error for op in single.fx.operations if isinstance(op, Refuse)] == [
        "no room: events come faster than they can be ordered; publish again later"
    ]
    assert rounds(single, 2) == [(OTHER, n) for n in range(1, 17)]


def test_an_event_that_is_too_large_is_refused() -> None:
    single = node(max_event_bytes=10)
    publish(single, 1, b"x" * 11)
    (refused,) = (op for op in single.fx.operations if isinstance(op, Refuse))
    assert "max_event_bytes" in refused.error


def damaged(what: str) -> Ball:
    good = ball((100, OTHER, 1, 0), (200, THIRD, 1, 0))
    columns = bytearray(good.columns)
    match what:
        case "cut off":
            columns = columns[:-1]
        case "too long":
            columns += b"x"
        case "not ascending":
            columns[0:8], columns[8:16] = columns[8:16], columns[0:8]
        case "the same twice":
            columns[8:16] = columns[0:8]
            columns[24:32] = columns[16:24]
        case "no events":
            columns[52:56] = bytes(4)
        case "number zero":
            columns[32:40] = bytes(8)
        case "lengths that lie":
            columns[66:70] = b"\xff\0\0\0"
        case "fewer columns than entries":
            return Ball(99, good.columns, minima=b"", **NOTHING)  # type: ignore[arg-type]
        case "less than none":
            return Ball(-1, good.columns, minima=b"", **NOTHING)  # type: ignore[arg-type]
    return Ball(2, bytes(columns), minima=b"", **NOTHING)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "what",
    ["cut off", "too long", "not ascending", "the same twice", "no events", "number zero",
     "lengths that lie", "fewer columns than entries", "less than none"],
)  # fmt: skip
def test_a_malformed_ball_is_dropped(what: str) -> None:
    single = node()
    single.receive(OTHER, damaged(what))
    drops = single.drops()
    single.fire("round")
    assert drops + single.drops() == ["malformed ball"]
    assert single.protocol.statistics()["entries"] <= 1, "what was before the damage"


def test_large_balls_go_over_connections_and_in_parts() -> None:
    single = node(max_ball_bytes=1000, max_datagram_bytes=100, max_datagrams=2)
    publish(single, 1, b"x" * 800)
    publish(single, 2, b"y" * 800)
    publish(single, 3, b"z")
    single.fire("round")
    channels = {channel for _, _, channel in single.fx.sends}
    assert channels == {1} and [b.entries for _, b in single.sent(Ball)] == [1, 2]


def test_an_event_larger_than_a_datagram_goes_over_a_connection_and_a_ball_fits_one() -> None:
    """With the estimate of the size, and inside the layers of a topic."""
    single = node(system_size=0)
    room = single.protocol.config.max_datagram_bytes
    for number, size in enumerate((room // 3, room // 3, room // 4, 2 * room), start=1):
        publish(single, number, b"x" * size)
        single.fire("round")
        for _, message, channel in single.fx.sends:
            if channel == DATAGRAM:
                encode_datagram(ME, 2**62, [Layered(2**32 - 1, Layered(1, message))], 1400)
        assert (DATA in {channel for _, _, channel in single.fx.sends}) == (size > room)


def test_where_messages_are_faster_than_rounds_hops_age_nothing() -> None:
    single = node(adaptive_period=True)
    single.receive(OTHER, ball((100, OTHER, 1, 1), (101, OTHER, 2, 2)))
    single.fire("round")
    ((_, sent),) = single.sent(Ball)
    assert list(sent.columns[64:66]) == [1, 2], "as old as they came"
    single.receive(THIRD, ball((100, OTHER, 1, 1), (101, OTHER, 2, 1)))
    single.fire("round")
    ((_, sent),) = single.sent(Ball)
    assert sent.entries == 1 and sent.columns[32] == 2, "as old as they are here; the other is old"
    assert rounds(single, 1) == [(OTHER, 1), (OTHER, 2)], "after TTL rounds"


def test_measured_latency_decides_what_ages_events() -> None:
    single = node(adaptive_period=True, min_round_ns=SECOND // 10, idle_fanout=1)
    for latency, wanted in ((SECOND // 100, 1), (SECOND // 10, 2)):
        for _ in range(40):
            single.fire("round")
            ((to, probe),) = single.sent(Probe)
            single.now += 2 * latency
            single.receive(to, ProbeAnswer(probe.number))
        single.receive(OTHER, ball((latency, OTHER, 1, 1)))
        single.fire("round")
        ((_, sent),) = single.sent(Ball)
        assert sent.columns[32] == wanted


def test_in_a_stack_who_joins_listens_from_its_first_neighbour_on() -> None:
    single = Single(Epto(Peer(ME), EptoConfig(system_size=100, ttl=2, idle_fanout=0), Random(7)))
    single.now = HOUR
    single.start(OTHER)
    single.receive(OTHER, ball())
    for _ in range(6):
        single.fire("round")
    single.up(OTHER)
    settled = []
    for _ in range(5):
        single.fire("round")
        settled.append(single.protocol.statistics()["settled"])
    assert settled == [0, 0, 0, 1, 1], "TTL and two rounds"


def test_probes_are_answered_and_only_those_asked_for_count() -> None:
    single = node(adaptive_period=True, idle_fanout=1)
    single.fire("round")
    ((to, probe),) = single.sent(Probe)
    single.now += SECOND // 2
    single.receive(to, ProbeAnswer(probe.number))
    assert single.protocol.statistics()["round_period_ns"] == SECOND // 4
    single.receive(to, ProbeAnswer(probe.number))
    assert single.drops() == ["answer to no probe"]
    single.receive(OTHER, Probe(9))
    assert single.sends == [(OTHER, ProbeAnswer(9))]


def test_the_state_stays_small_while_events_go_through() -> None:
    single = node(max_sources=16)
    for number in range(1, 301):
        entries = [(HOUR - 10**9 + number, source, number, 1) for source in range(100, 140)]
        single.receive(OTHER, ball(*entries))
        single.fire("round")
    figures = single.protocol.statistics()
    assert figures["delivered"] >= 290 * 40
    assert figures["entries"] < 200 and figures["sources"] <= 80


def test_it_runs_without_numba() -> None:
    """Slowly, and right."""
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from tests.protocols.epto.orders import run_orders\n"
        "for seed in range(12): run_orders(seed)\n"
        "for seed in range(3): run_orders(seed, early=True)\n"
        "from epicast.protocols.epto import kernels\n"
        "assert not hasattr(kernels.absorb, 'py_func')\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=240)


def test_in_a_small_system_events_are_repeated() -> None:
    """One lost ball could be all there is of an event."""
    single = node(system_size=3)
    publish(single, 1, b"a")
    ttls = []
    for _ in range(4):
        single.fire("round")
        ttls += [sent.columns[32] for _, sent in single.sent(Ball)]
    assert ttls == [1, 2]


def test_a_ball_for_nobody_is_kept() -> None:
    config = EptoConfig(system_size=100, ttl=2, adaptive_period=False)
    members = FullMembership(ME, [ME], Random(1))
    epto = Epto(Peer(ME), config, Random(1), members)
    single = Single(epto)
    single.start()
    publish(single, 1, b"a")
    single.fire("round")
    assert single.sends == []
    epto.below = FullMembership(ME, [ME, OTHER], Random(1))
    single.fire("round")
    assert [sent.entries for _, sent in single.sent(Ball)] == [1]


def test_what_is_pending_is_as_of_the_last_round() -> None:
    single = node()
    single.receive(OTHER, ball((100, 2**64 - 2, 1, 0), (101, OTHER, 1, 0)))
    assert single.protocol.pending() == [], "taken in with the next round"
    for ttl in (1, 2):
        single.fire("round")
        found = single.protocol.pending()
        assert [(each.source, each.first, each.last, each.ttl) for each in found] == [
            (2**64 - 2, 1, 1, ttl), (OTHER, 1, 1, ttl),
        ]  # fmt: skip
        assert [each.stable for each in found] == [0, 0], "of nothing seen nothing is known"
    assert len(rounds(single, 1)) == 2 and single.protocol.pending() == []


def test_who_asks_what_is_pending_does_not_hide_a_hole() -> None:
    """So many balls are not left for the next round: they are taken in before."""
    single = node()
    single.receive(OTHER, ball((100, OTHER, 1, 2), (200, THIRD, 1, 2)))
    assert len(rounds(single, 2)) == 2
    for _ in range(64):
        single.receive(OTHER, ball((150, OTHER, 2, 0)))
    assert single.protocol.pending() == []
    single.fire("round")
    assert missing(single) == [Missing(OTHER, 2, 2)]


def test_what_is_delivered_in_one_go_is_not_kept_whole_by_each_of_its_parts() -> None:
    single = node()
    single.receive(OTHER, ball(*((100 + at, OTHER, 1 + at, 2) for at in range(1000))))
    assert len(rounds(single, 2)) == 1000
    (batch,) = single.fx.deliveries
    parts = list(by_source(batch))
    assert len(parts) == 1000
    assert sum(part.pinned_bytes for part in parts) < 10 * batch.pinned_bytes
