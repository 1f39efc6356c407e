"""Datagrams that fit, a budget that holds, and messages of any content that do no harm."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import EventBatch, Layered, Peer
from epicast.core.message import MAX_LAYERS
from epicast.protocols.budget import ENVELOPE_BYTES, ByteBudget
from epicast.protocols.lpbcast import Lpbcast
from epicast.protocols.lpbcast import messages as wire
from tests.protocols.harness import SECOND
from tests.protocols.lpbcast.nodes import ME, batch, config, gossip, next_round, node, publish
from tests.protocols.single import Single

NAMES = st.text(max_size=40)
IDS = st.one_of(st.integers(0, 6), st.integers(0, 2**64 - 1))
PEERS = st.builds(Peer, IDS, NAMES, st.integers(0, 65535))
NUMBERS = st.one_of(st.integers(1, 12), st.integers(-3, 2**63))
BATCHES = st.builds(
    lambda source, first, payloads, buried: EventBatch.build(
        source, first, payloads, seqs=list(range(first, first + len(payloads))),
        last=first + len(payloads) - 1 + buried,
    ),
    IDS, st.integers(1, 12), st.lists(st.binary(max_size=900), min_size=1, max_size=6),
    st.sampled_from([0, 0, 0, 2**40]),
)  # fmt: skip
RANGES = st.builds(wire.EventRange, IDS, NUMBERS, NUMBERS)
NOTIFICATIONS = st.builds(wire.Notification, st.integers(-1, 40), BATCHES)


def some(items, most=6):
    return st.lists(items, max_size=most).map(tuple)


GOSSIPS = st.builds(
    wire.Gossip,
    some(st.builds(wire.Subscription, PEERS, st.integers(0, 2**64 - 1)), 12),
    some(st.builds(wire.Unsubscription, st.one_of(IDS, st.just(ME)), NUMBERS, NUMBERS)),
    some(NOTIFICATIONS),
    some(st.builds(wire.Announcement, st.integers(-1, 9), RANGES)),
    some(st.builds(wire.SourceDigest, IDS, NUMBERS, some(st.tuples(NUMBERS, NUMBERS), 4))),
    st.integers(-1, 5),
)
MESSAGES = st.one_of(
    GOSSIPS,
    GOSSIPS,
    st.builds(wire.Subscribe, st.builds(wire.Subscription, PEERS, NUMBERS)),
    st.builds(wire.Retrieve, some(RANGES)),
    st.builds(wire.Retrieved, some(NOTIFICATIONS)),
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.one_of(MESSAGES, st.just("round")), max_size=25), seed=st.integers(0, 9))
def test_whatever_comes_bounds_hold_and_gossip_fits_its_datagram(steps, seed):
    long_name = Peer(ME, "x" * 60, 7400)
    settings_ = config(
        max_events=10, view_size=6, max_subs=8, max_message_bytes=700, max_sources=4,
        max_stored_events=9, max_retrievals=5, retrieve_after_rounds=0, max_datagrams=3,
    )  # fmt: skip
    single = Single(Lpbcast(long_name, settings_, Random(seed)))
    single.start()
    had = set()
    for step in steps:
        if step == "round":
            single.fire("round")
        else:
            single.receive(3, step)
        for to, message in single.sends:
            wrapped = message
            for layer in range(MAX_LAYERS):
                wrapped = Layered(layer, wrapped)
            large = isinstance(message, wire.Retrieved) and len(message.events) == 1
            assert large or wrapped.wire_size() <= 700, message
            assert ME not in (to if isinstance(to, list) else [to])
        for each in single.fx.deliveries:
            new = {(each.stream, seq) for seq in range(each.first, each.last + 1)}
            assert not new & had or single.protocol.statistics()["sources"] == 4
            had |= new
        assert sorted(single.told) == sorted(single.protocol.neighbors())


def test_events_that_do_not_fit_one_datagram_take_several_then_wait_their_turn():
    single = node(1, 2, max_message_bytes=700, max_datagrams=2, max_events=40, adaptive=False)
    publish(single, batch(ME, 1, 30, size=100))
    counts = dict.fromkeys(range(1, 31), 0)
    for _ in range(12):
        messages = next_round(single)
        assert len(messages) == 2
        assert len(messages[1].subscriptions) == 0
        for message in messages:
            for item in message.events:
                for seq in range(item.batch.first, item.batch.last + 1):
                    counts[seq] += 1
    assert max(counts.values()) - min(counts.values()) <= 1
    assert min(counts.values()) >= 2
    assert max(counts.values()) < 12  # or there would be nothing to wait for


def test_small_events_published_together_travel_as_one_slice():
    single = node(1, 2)
    publish(single, batch(ME, 1, 10))
    [message] = next_round(single)
    assert [(item.batch.first, item.batch.last) for item in message.events] == [(1, 10)]


def test_the_byte_budget_holds_in_every_second():
    single = node(1, 2, 3, 4, fanout=4, bytes_per_s=3000, gossip_period_ns=SECOND // 10)
    spent = []
    for number in range(100):
        single.receive(1, gossip((1, batch(7, 1 + number, size=200))))
        single.receive(2, wire.Retrieve((wire.EventRange(7, 1, 50),)))
        sends = list(single.fx.sends)
        single.fire("round")
        sends += single.fx.sends
        size = sum(len(to) * (m.wire_size() + ENVELOPE_BYTES) for to, m, _ in sends)
        spent.append(size)
    for start in range(90):
        assert sum(spent[start : start + 9]) <= 3000  # jitter or not: within a second
    assert 7 * 3000 <= sum(spent) <= 11 * 3000
    assert single.protocol.statistics()["bytes_withheld"] > 0
    assert single.protocol.statistics()["bytes_spent"] == sum(spent)


def test_a_budget_without_a_limit_grants_everything():
    assert ByteBudget(0).copies(0, 10**9, 7) == 7


def test_a_budget_neither_saves_up_nor_borrows():
    budget, slot = ByteBudget(1000), SECOND // 20
    assert budget.copies(0, 100, 8) == 8
    budget.settle(1)
    assert budget.copies(SECOND // 2, 100, 20) == 2
    budget.settle(SECOND // 2 + 1)
    assert budget.copies(SECOND, 100, 20) == 0  # the second that begins with the first is not over
    assert budget.copies(SECOND + slot, 100, 20) == 8
    budget.settle(2 * SECOND)
    assert budget.copies(100 * SECOND, 100, 20) == 10
    assert (budget.spent, budget.withheld) == (2800, 6000)


def test_what_a_long_step_sends_late_counts_from_the_next_step():
    budget, slot = ByteBudget(1000), SECOND // 20
    assert budget.copies(0, 100, 10) == 10
    late = 7 * slot  # it left at any time up to here
    assert budget.copies(late, 100, 1) == 0
    assert budget.copies(late + SECOND, 100, 1) == 0
    assert budget.copies(late + SECOND + slot, 100, 20) == 10


def test_what_goes_over_connections_counts_for_longer():
    budget, slot = ByteBudget(1000), SECOND // 20
    assert budget.copies(0, 400, 5, lingering=True) == 2
    budget.settle(1)
    assert budget.available(3 * SECOND) == 200
    assert budget.available(3 * SECOND + slot) == 1000


SENDS = st.tuples(st.integers(0, 400), st.integers(1, 700), st.integers(0, 5))


@given(st.lists(SENDS, max_size=60))
def test_no_second_exceeds_the_budget(sends):
    budget, now, paid = ByteBudget(1000), 0, []
    for pause_ms, size, wanted in sends:
        # A step, and what it sends at its end, which is when the next may begin.
        granted = budget.copies(now, size, wanted)
        now += pause_ms * SECOND // 1000
        paid.append((now, size * granted))
    for began, _ in paid:
        assert sum(cost for at, cost in paid if began <= at < began + SECOND) <= 1000
    assert sum(cost for _, cost in paid) == budget.spent
