"""What is true of a stream in a chain, and what its oracles notice."""

import pytest

from epicast.core import EventBatch, Publication, Run
from epicast.log import GcPolicy, History
from epicast.sim.campaign.chained import ChainedTruth
from epicast.sim.campaign.oracles import Oracles
from epicast.sim.campaign.truth import Broken
from epicast.sim.campaign.watched import Session

STREAM, PUBLISHER, READER, EPOCH = 7, 50, 60, 100
A, B, C = "r1/1", "r1/2", "r1/3"


class Case:
    """A stream of a chain, followed by a region with one proxy; a publisher and a reader."""

    def __init__(self, *, synced: bool = True, policy: GcPolicy | None = None) -> None:
        self.members = self.listed = [A, B]
        self.policy = policy or GcPolicy()
        self.truth = ChainedTruth(
            "s", "r1", self.policy, synced=synced, on_files=True, members=lambda: self.members,
            listed=lambda: self.listed,
        )  # fmt: skip
        regions = {A: "r1", B: "r1", C: "r1", "r2": "r2"}
        on_files = {"r1": True, "r2": True}
        self.oracles = Oracles({STREAM: self.truth}, on_files, regions, self._listed)
        self.oracles.sessions[READER, 1] = Session("reader", STREAM, 1000)
        for replica in regions:
            self.open(replica, 0)
        self.begin(A, EPOCH)
        for replica in (B, C):
            self.oracles.on_began(replica, STREAM, EPOCH, keeps=False)

    def _listed(self, region: str) -> list[str]:
        return self.listed if region == "r1" else [region]

    def begin(self, replica: str, epoch: int) -> None:
        self.oracles.on_began(replica, STREAM, epoch, keeps=True)

    def open(self, replica: str, epoch: int, *batches: EventBatch) -> None:
        history = History.in_memory(STREAM, policy=self.policy, epoch=epoch)
        history.append_many(batches)
        self.oracles.on_opened(replica, STREAM, history)

    def publish(self, first: int, count: int, at: int | None = None, **columns) -> EventBatch:
        """Published, and numbered by some head."""
        payloads = [b"%d" % (first + row) for row in range(count)]
        batch = EventBatch.build(STREAM, first, payloads, **columns)
        self.oracles.on_publish(PUBLISHER, batch)
        run = Run(PUBLISHER, first, count)
        return batch.renumbered(STREAM, EPOCH, at or first, 0, (run,))

    def store(self, batch: EventBatch, *replicas: str) -> EventBatch:
        for replica in replicas:
            self.oracles.on_stored(replica, batch)
        return batch

    def deliver(self, batch: EventBatch) -> None:
        self.oracles.on_delivery(READER, 1, batch)

    def acknowledge(self, first: int, count: int, seq: int) -> None:
        batch = EventBatch.build(STREAM, first, [b"%d" % (first + at) for at in range(count)])
        self.oracles.on_acknowledge(Publication(PUBLISHER, first, batch, 0, ""), seq)


@pytest.fixture
def case() -> Case:
    return Case()


def broken(words: str):
    return pytest.raises(Broken, match=words)


def test_all_is_well(case):
    batch = case.store(case.publish(1, 3), A, B)
    case.deliver(batch)
    case.acknowledge(1, 3, 3)
    case.store(batch, "r2")
    assert case.oracles.lagging(), "one replica has nothing"
    case.store(batch, C)
    assert case.oracles.lagging() == []
    case.oracles.check_end()


def test_shown_before_the_tail_has_it(case):
    batch = case.store(case.publish(1, 3), A)
    with broken("r1/2, which is in the chain, is at 100/0"):
        case.deliver(batch)


def test_acknowledged_before_the_tail_has_it(case):
    case.store(case.publish(1, 3), A)
    with broken("r1/2, which is in the chain"):
        case.acknowledge(1, 3, 3)


def test_an_acknowledgement_that_comes_when_the_chain_is_down_is_that_of_the_chain(case):
    """Who was removed from it has numbered the same differently."""
    someone = EventBatch.build(STREAM, 1, [b"other"])
    case.oracles.on_publish(51, someone)
    case.store(someone.renumbered(STREAM, EPOCH, 1, 0, (Run(51, 1, 1),)), A)
    case.store(case.publish(1, 3, at=2), A)
    case.store(case.publish(1, 3), B)
    case.listed, case.members = [B], []
    case.acknowledge(1, 3, 3)


def test_stored_in_another_region_before_the_tail_has_it(case):
    batch = case.store(case.publish(1, 3), A)
    with broken("r1/2, which is in the chain"):
        case.store(batch, "r2")


def test_a_newcomer_without_what_was_shown(case):
    case.deliver(case.store(case.publish(1, 3), A, B))
    case.members.append(C)
    with broken("r1/3, which is in the chain"):
        case.deliver(case.store(case.publish(4, 1), A, B))


def test_what_was_not_shown_may_be_numbered_anew(case):
    case.deliver(case.store(case.publish(1, 3), A, B))
    case.store(case.publish(4, 2), A)
    case.members.remove(A)
    case.publish(6, 1)
    other = case.publish(4, 2)
    case.deliver(case.store(other.renumbered(STREAM, EPOCH, 4, 9, other.runs), B))
    assert case.truth.now.end == 5


def test_what_was_shown_may_not(case):
    case.store(case.publish(1, 3), A, B, C, "r2")
    case.deliver(case.publish(1, 3))
    case.deliver(case.store(case.publish(4, 2), A, B))
    case.members = [C]
    with broken("other bytes"):
        case.store(case.publish(6, 2, at=4), C, "r2")


def test_acknowledged_and_then_forgotten_by_all(case):
    case.store(case.publish(1, 3), A, B)
    case.acknowledge(1, 3, 3)
    case.members = [C]
    again = case.publish(4, 1, at=1)
    case.store(again, C)
    with broken("other"):
        case.deliver(again)


def test_who_caught_up_has_what_is_live_and_others_have_the_rest():
    case = Case(policy=GcPolicy(latest_per_key=True))
    case.store(case.publish(1, 2, keys=[b"k", b"k"]), A)
    merged = EventBatch.build(
        STREAM, 1, [b"2"], seqs=[2], last=2, keys=[b"k"], epoch=EPOCH, runs=[Run(0, 0, 1),
        Run(PUBLISHER, 2, 1)],
    )  # fmt: skip
    case.members = [B]
    case.deliver(case.store(merged, B))
    assert case.truth.now.place_of(PUBLISHER, 1) == 1


def test_shown_and_numbered_by_nobody(case):
    holes = EventBatch.build(STREAM, 1, [b"2"], seqs=[2], last=2, epoch=EPOCH)
    case.members = [B]
    with broken("nobody has numbered"):
        case.deliver(case.store(holes, B))


def test_buried_by_something_that_not_every_replica_has():
    case = Case(policy=GcPolicy(latest_per_key=True))
    case.store(case.publish(1, 1, keys=[b"k"]), A, B)
    case.store(case.publish(2, 1, keys=[b"k"]), A)
    with broken("1 is buried, and nothing has collected it"):
        case.deliver(EventBatch.build(STREAM, 1, [], seqs=[], last=1, epoch=EPOCH))


def test_buried_by_something_that_every_replica_has_and_nobody_was_shown():
    case = Case(policy=GcPolicy(latest_per_key=True))
    case.store(case.publish(1, 1, keys=[b"k"]), A, B)
    case.store(case.publish(2, 1, keys=[b"k"]), A, B)
    case.deliver(EventBatch.build(STREAM, 1, [], seqs=[], last=1, epoch=EPOCH))
    assert case.truth.now.end == 2


def test_buried_where_replicas_may_have_less_than_they_had():
    case = Case(synced=False, policy=GcPolicy(latest_per_key=True))
    first = case.store(case.publish(1, 1, keys=[b"k"]), A, B)
    case.store(case.publish(2, 1, keys=[b"k"]), A)
    case.open(B, EPOCH, first)
    case.deliver(EventBatch.build(STREAM, 1, [], seqs=[], last=1, epoch=EPOCH))
    with broken("1 is buried, and nothing has collected it"):
        case.oracles.check_end()


def test_a_replica_finds_less_than_it_had(case):
    batch = case.store(case.publish(1, 3), A, B)
    with broken("it had 100/3"):
        case.open(B, EPOCH, batch.slice(1, 2))
    case.oracles.on_damaged(A, STREAM)
    case.open(A, EPOCH, batch.slice(1, 2))
    assert case.truth.logs[A].end == 2


def test_a_new_epoch_without_need(case):
    case.deliver(case.store(case.publish(1, 3), A, B))
    case.begin(B, EPOCH + 1)
    with broken("nothing can have been lost"):
        case.oracles.on_restarted(READER, 1, EPOCH + 1, 0)


def test_an_epoch_that_was_used_before(case):
    with broken("which there was"):
        case.begin(B, EPOCH)


def test_a_loss_that_is_allowed_and_told():
    case = Case(synced=False)
    batch = case.store(case.publish(1, 3), A, B)
    case.deliver(batch)
    case.acknowledge(1, 3, 3)
    case.members = [B]
    case.open(B, EPOCH, batch.slice(1, 2))
    case.begin(B, EPOCH + 1)
    case.oracles.on_restarted(READER, 1, EPOCH + 1, 0)
    assert case.truth.losses == 1
    assert case.truth.now.end == 2
    assert list(case.truth.lost[PUBLISHER]) == [(3, 3)]
