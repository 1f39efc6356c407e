"""The parts of a simulated geoplex: keys, links, the ledger."""

import numpy as np
import pytest

from epicast.core import EventBatch, Protocol, Publication, Run
from epicast.deployment import Link, StreamWorkload
from epicast.sim.geoplex_ledger import GeoplexLedger, Session, StreamTruth
from epicast.sim.geoplex_workload import Workload, ZipfKeys
from epicast.sim.latency import MatrixLatency
from epicast.sim.simulation import Simulation
from epicast.sim.wide_area import WideAreaLatency

MS = 1_000_000
SECOND = 1000 * MS
OWNER, AGENT, STREAM = 1, 2, 7


# -- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize("skew", [0.0, 0.7, 1.0, 1.5])
def test_keys_are_as_frequent_as_their_rank_says(skew):
    drawn = ZipfKeys(20, skew, 1).draw(100_000)
    counts = np.array([drawn.count(b"k%d" % rank) for rank in range(1, 21)])
    weights = np.arange(1, 21) ** -skew
    assert counts.sum() == 100_000
    assert np.allclose(counts / 100_000, weights / weights.sum(), atol=0.01)


@pytest.mark.parametrize("skew", [0.0, 0.9, 1.0, 1.3])
def test_of_very_many_keys_the_rare_ones_come_too(skew):
    keys = 1 << 24
    ranks = np.array([int(key[1:]) for key in ZipfKeys(keys, skew, 1).draw(50_000)])
    assert ranks.min() >= 1 and ranks.max() <= keys
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -skew
    for bound in (10, 1 << 20, 1 << 22):
        share = weights[:bound].sum() / weights.sum()
        assert np.mean(ranks <= bound) == pytest.approx(share, abs=0.01)


def test_a_workload_publishes_at_its_rate_until_its_end():
    plan = StreamWorkload(
        stream="s", from_ns=SECOND, rate_per_second=100.0, batch=10, size_bytes=20
    )
    times = Workload(plan, STREAM, 1, 1).times(3 * SECOND)
    assert list(times[:3]) == [SECOND, SECOND + 100 * MS, SECOND + 200 * MS]
    assert len(times) == 20


def test_payloads_have_their_size_and_all_differ():
    workload = Workload(StreamWorkload(stream="s", size_bytes=10, keys=0), STREAM, 1, 1)
    batches = [workload.next_batch(100), workload.next_batch(50)]
    payloads = [payload for batch in batches for payload in batch.payloads()]
    assert {len(payload) for payload in payloads} == {10}
    assert len(set(payloads)) == 150
    assert batches[1].first == 101


# -- what a geoplex asks of the simulator -----------------------------------------------------


class Ticker(Protocol[None]):
    """Counts to ten every ten nanoseconds, and can be poked from outside of a step."""

    ticks = 0

    def on_start(self, now, contacts, recovered, fx):
        self.timers.set("tick", now + 10)

    def on_deadline(self, now, name, fx):
        if name == "tick":
            self.ticks += 1
            self.timers.set("tick", now + 10)


def test_what_an_application_does_at_the_instant_of_an_alarm_does_not_silence_the_node():
    """It arms a deadline in the past. That one must not count as earlier than the alarm."""
    simulation = Simulation(1)

    def poke(*_: object) -> None:
        node.protocol.timers.set("poked", 0)
        simulation.wake(node)

    simulation.scheduler.at(20, poke)  # queued before the alarm of the same instant
    node = simulation.add_node(lambda peer, rng: Ticker(peer, None, rng))
    simulation.run_until(100)
    assert node.protocol.ticks == 10


def test_nodes_may_be_placed_after_the_latencies_were_made():
    placement: dict[int, int] = {}
    latency = MatrixLatency(np.array([[1, 2], [3, 4]], dtype=np.int64), placement)
    placement.update({10: 1, 11: 0})
    assert latency.draw(10, [11]) == [3]


# -- links ------------------------------------------------------------------------------------


def wide_area(link: Link) -> WideAreaLatency:
    delays = np.array([[MS, 40 * MS], [40 * MS, MS]], dtype=np.int64)
    return WideAreaLatency(delays, {10: 0, 11: 0, 20: 1}, {(0, 1): link}, 1)


def test_messages_queue_for_a_narrow_link():
    latency = wide_area(Link(bandwidth_bytes_per_second=1000))
    assert latency.transfer_ns(0, 10, 20, 100) == 100 * MS
    assert latency.transfer_ns(0, 11, 20, 100) == 200 * MS  # behind the first
    assert latency.transfer_ns(500 * MS, 10, 20, 100) == 100 * MS
    assert latency.transfer_ns(0, 20, 10, 100) == 0  # the way back is another
    assert latency.transfer_ns(0, 10, 11, 100) == 0


def test_a_lossy_link_costs_retransmissions():
    latency = wide_area(Link(loss=0.5))
    delays = [latency.draw(10, [20])[0] for _ in range(4000)]
    assert min(delays) == 40 * MS
    assert np.mean(np.array(delays) == 40 * MS) == pytest.approx(0.5, abs=0.05)
    assert np.mean(delays) == pytest.approx(240 * MS, rel=0.1)
    assert {latency.draw(20, [10])[0] for _ in range(100)} == {40 * MS}


# -- the ledger -------------------------------------------------------------------------------


def ledger() -> GeoplexLedger:
    book = GeoplexLedger({STREAM: StreamTruth("s", OWNER)})
    book.sessions[AGENT, 1] = Session(STREAM, 0)
    return book


def batch(first: int, count: int, epoch: int = 1) -> EventBatch:
    payloads = [b"%d" % (first + index) for index in range(count)]
    return EventBatch.build(STREAM, first, payloads, epoch=epoch, runs=[Run(99, first, count)])


def test_what_is_stored_is_owed_and_what_comes_is_had():
    book = ledger()
    book.on_publish(5, 99, batch(1, 10))
    book.on_stored(OWNER, batch(1, 10))
    book.on_stored(AGENT, batch(1, 10))  # not the owner: counts for nothing
    assert book.account() == (10, 0)
    book.on_delivery(8, AGENT, 1, batch(1, 10).slice(1, 6))
    assert book.account() == (10, 6)
    assert list(book.delays_ns) == [3]
    book.on_delivery(9, AGENT, 1, EventBatch.build(STREAM, 7, [], seqs=[], last=10, epoch=1))
    assert book.account() == (10, 10)
    assert (book.delivered, book.tombstoned) == (6, 4)
    assert book.problems == []


@pytest.mark.parametrize(
    ("delivered", "what"),
    [
        (batch(2, 3), "came after 0"),
        (batch(9, 3), "came after 0"),
        (EventBatch.build(STREAM, 1, [b"x"], epoch=1), "is not what was published"),
    ],
)
def test_what_must_not_happen_is_noted(delivered, what):
    book = ledger()
    book.on_stored(OWNER, batch(1, 10))
    book.on_delivery(8, AGENT, 1, delivered)
    assert book.out_of_order + book.wrong >= 1
    assert what in book.problems[0]


def test_a_delivery_ahead_of_the_owners_disk_is_noted():
    book = ledger()
    book.on_stored(OWNER, batch(1, 10))
    book.on_delivery(8, AGENT, 1, batch(1, 11))
    assert book.wrong == 1


def test_an_owner_must_not_use_a_number_twice():
    book = ledger()
    book.on_stored(OWNER, batch(1, 10))
    book.on_stored(OWNER, batch(6, 10))
    assert book.wrong == 1


def test_acknowledgements_of_a_lost_epoch_are_lost():
    book = ledger()
    book.on_stored(OWNER, batch(1, 10))
    book.on_acknowledge(Publication(99, 1, batch(1, 10)), 10)
    assert book.forgotten() == 0
    book.on_stored(OWNER, batch(1, 2, epoch=2))
    assert book.forgotten() == 10
    book.on_restarted(AGENT, 1, 2, 0)
    book.on_delivery(8, AGENT, 1, batch(1, 2, epoch=2))
    assert book.account() == (2, 2)
