"""Streams that are moved in a campaign: whose they are, and what is true of them."""

import pytest

from epicast.core import EventBatch, Run
from epicast.log import GcPolicy, History
from epicast.sim.campaign import CampaignRun
from epicast.sim.campaign.faults import KillCoordination, Move
from epicast.sim.campaign.moves import MovedTruth, may_own
from epicast.sim.campaign.oracles import Oracles
from epicast.sim.campaign.running import plan_of
from epicast.sim.campaign.truth import Broken
from epicast.sim.campaign.watched import Session

STREAM, PUBLISHER, READER, EPOCH = 7, 50, 60, 100
A, B = "r1", "r2"


class Case:
    """Two regions that are alone; the first owns the stream."""

    def __init__(self) -> None:
        self.owner = A
        self.truth = MovedTruth(
            "s", GcPolicy(), lambda: self.owner, lambda: [self.owner], lambda: [self.owner]
        )
        self.oracles = Oracles({STREAM: self.truth}, {A: True, B: True})
        self.oracles.sessions[READER, 1] = Session("reader", STREAM, 1000)
        for region, epoch in ((A, EPOCH), (B, 0)):
            self.open(region, epoch)
        self._published = 0

    def open(self, region: str, epoch: int, *batches: EventBatch) -> None:
        history = History.in_memory(STREAM, epoch=epoch)
        history.append_many(batches)
        self.oracles.on_opened(region, STREAM, history)

    def publish(self, count: int, at: int) -> EventBatch:
        first, self._published = self._published + 1, self._published + count
        payloads = [b"%d" % (first + row) for row in range(count)]
        batch = EventBatch.build(STREAM, first, payloads)
        self.oracles.on_publish(PUBLISHER, batch)
        return batch.renumbered(STREAM, EPOCH, at, 0, (Run(PUBLISHER, first, count),))

    def store(self, batch: EventBatch, *regions: str) -> EventBatch:
        for region in regions:
            self.oracles.on_stored(region, batch)
        return batch

    def deliver(self, batch: EventBatch) -> None:
        self.oracles.on_delivery(READER, 1, batch)


@pytest.fixture
def case() -> Case:
    return Case()


def broken(words: str):
    return pytest.raises(Broken, match=words)


def test_one_goes_on_where_the_other_has_ended(case):
    case.deliver(case.store(case.publish(3, at=1), A, B))
    case.owner = B
    case.deliver(case.store(case.publish(2, at=4), B, A))
    assert case.truth.region == B and case.truth.now.end == 5
    assert case.oracles.lagging() == [f"2 publications of {PUBLISHER} to s wait for an answer, the "
                                      "first at 1"]  # fmt: skip
    case.oracles.check_end()


def test_nothing_was_published(case):
    assert case.oracles.lagging() == []


def test_the_new_owner_lacks_what_was_shown(case):
    case.deliver(case.store(case.publish(3, at=1), A))
    case.owner = B
    with broken("r2, which is in the chain, is at 100/1"):
        case.store(case.publish(1, at=1), B)
        case.deliver(case.publish(1, at=4))


def test_the_old_owner_goes_on(case):
    case.deliver(case.store(case.publish(3, at=1), A, B))
    case.owner = B
    with broken("r2, which is in the chain, is at 100/3"):
        case.store(case.publish(1, at=4), A)


def test_both_number_the_same(case):
    case.store(case.publish(3, at=1), A, B)
    late = case.publish(1, at=4)
    case.owner = B
    case.store(case.publish(1, at=4), B)
    with broken("other bytes"):
        case.store(late, A)


def test_a_new_epoch_is_a_loss(case):
    case.deliver(case.store(case.publish(3, at=1), A, B))
    case.owner = B
    case.oracles.on_began(B, STREAM, EPOCH + 1, keeps=True)
    with broken("nothing can have been lost"):
        case.oracles.on_restarted(READER, 1, EPOCH + 1, 0)


def test_who_does_not_own_it_begins_no_epoch(case):
    with broken("which others number"):
        case.oracles.on_began(B, STREAM, EPOCH + 1, keeps=True)


def test_an_owner_that_was_finds_less_than_it_had(case):
    batch = case.store(case.publish(3, at=1), A, B)
    case.owner = B
    with broken("it had 100/3"):
        case.open(A, EPOCH, batch.slice(1, 2))


def test_an_epoch_that_began_on_a_disk_without_room_for_its_events(case):
    case.store(case.publish(3, at=1), A)
    case.open(B, EPOCH)
    assert case.truth.logs[B].epoch == EPOCH


def test_regions_that_may_own_a_stream():
    other = KillCoordination(at_ns=1, until_ns=2)
    moves = [Move(at_ns=1, until_ns=2, stream="s", to=to) for to in ("b", "c")]
    assert may_own([other, *moves], {"s": "a", "t": "a"}) == {"s": frozenset("abc")}


@pytest.mark.parametrize(("seed", "kind"), [(36, "streams"), (5045, "chains")])
def test_streams_are_really_moved(seed, kind):
    verdict = CampaignRun(plan_of(seed, kind)).run()
    assert not verdict.failure
    assert verdict.moved
