"""Every oracle notices what it is there for."""

import numpy as np
import pytest

from epicast.core import EventBatch, EventKind, Publication, Run
from epicast.log import GcPolicy, History, gc_payload
from epicast.log.predicate import SeqBelow
from epicast.sim.campaign.oracles import Oracles
from epicast.sim.campaign.truth import Broken, StreamTruth
from epicast.sim.campaign.watched import Session

STREAM, PUBLISHER, READER, EPOCH = 7, 50, 60, 100


class Case:
    """A stream of one region, followed by two others; a publisher and a reader."""

    def __init__(self, policy: GcPolicy | None = None, synced: bool = True) -> None:
        self.policy = policy or GcPolicy()
        truth = StreamTruth("s", "r1", self.policy, synced=synced, on_files=True)
        self.oracles = Oracles({STREAM: truth}, {"r1": True, "r2": True, "r3": True})
        self.truth = truth
        self.oracles.sessions[READER, 1] = Session("reader", STREAM, 1000)
        self.open("r1", EPOCH)
        self.open("r2", 0)
        self.open("r3", 0)

    def open(self, region: str, epoch: int, end: int = 0) -> None:
        history = History.in_memory(STREAM, policy=self.policy, epoch=epoch)
        history.end = end
        self.oracles.on_opened(region, STREAM, history)

    def published(self, first: int, count: int, *, is_sound: bool = True, **columns) -> EventBatch:
        payloads = columns.pop("payloads", [b"%d" % (first + at) for at in range(count)])
        batch = EventBatch.build(STREAM, first, payloads, **columns)
        self.oracles.on_publish(PUBLISHER, batch, is_sound=is_sound)
        return batch

    def stored(self, batch: EventBatch, first: int | None = None, epoch: int = EPOCH) -> EventBatch:
        run = Run(PUBLISHER, batch.first, batch.rows)
        numbered = batch.renumbered(STREAM, epoch, first or batch.first, 0, (run,))
        self.oracles.on_stored("r1", numbered)
        return numbered

    def publish(self, first: int, count: int, **columns) -> EventBatch:
        """Published and stored."""
        return self.stored(self.published(first, count, **columns))

    def deliver(self, batch: EventBatch) -> None:
        self.oracles.on_delivery(READER, 1, batch)

    def acknowledge(self, batch: EventBatch, seq: int, level: str = "") -> None:
        self.oracles.on_acknowledge(Publication(PUBLISHER, batch.first, batch, 0, level), seq)


@pytest.fixture
def case() -> Case:
    return Case()


def broken(words: str):
    return pytest.raises(Broken, match=words)


# -- publishers ----------------------------------------------------------------------------------


def test_all_is_well(case):
    batch = case.published(1, 3)
    numbered = case.stored(batch)
    case.deliver(numbered)
    case.acknowledge(batch, 3)
    for region in ("r2", "r3"):
        case.oracles.on_stored(region, numbered)
    assert case.oracles.lagging() == []
    case.oracles.check_end()


def test_stored_twice(case):
    batch = case.published(1, 2)
    case.stored(batch)
    with broken("twice, or out of order"):
        case.stored(batch, first=3)


def test_out_of_the_publishers_order(case):
    one, two = case.published(1, 1), case.published(2, 1)
    case.stored(two, first=1)
    with broken("out of order"):
        case.stored(one, first=2)


def test_not_what_was_published(case):
    case.published(1, 2)
    with broken("other bytes"):
        case.stored(EventBatch.build(STREAM, 1, [b"1", b"3"]))


def test_with_another_key(case):
    case.published(1, 1, keys=[b"a"], payloads=[b"bc"])
    with broken("other lengths"):
        case.stored(EventBatch.build(STREAM, 1, [b"c"], keys=[b"ab"]))


def test_of_nobody(case):
    with broken("which is nobody"):
        case.stored(EventBatch.build(STREAM, 1, [b"1"]))


def test_acknowledged_before_it_is_stored(case):
    batch = case.published(1, 2)
    with broken("acknowledged and are not stored"):
        case.acknowledge(batch, 2)


def test_acknowledged_twice(case):
    batch = case.published(1, 1)
    case.stored(batch)
    case.acknowledge(batch, 1)
    with broken("nobody waits for"):
        case.acknowledge(batch, 1)


def test_acknowledged_under_another_number(case):
    batch = case.published(1, 2)
    case.stored(batch)
    with broken("2 of 50 was acknowledged as 1, here; it is at {100: 2}"):
        case.acknowledge(batch, 1)


def test_acknowledged_before_another_region_has_all_of_it(case):
    batch = case.published(1, 2)
    numbered = case.stored(batch)
    case.oracles.on_stored("r2", numbered.slice(1, 1))
    with broken("acknowledged as 2, regions=1.* 1 other regions do not have it"):
        case.acknowledge(batch, 2, "regions=1")


def test_refused_and_stored(case):
    batch = case.published(1, 1)
    case.stored(batch)
    with broken("was refused, and is stored"):
        case.oracles.on_refuse(Publication(PUBLISHER, 1, batch))


def test_refused_and_stored_in_part(case):
    batch = case.published(1, 5)
    case.stored(batch.slice(1, 2))
    with broken("was refused, and is stored"):
        case.oracles.on_refuse(Publication(PUBLISHER, 1, batch))


def test_a_right_that_was_withdrawn_says_nothing_of_earlier_copies(case):
    batch = case.published(1, 1)
    case.oracles.on_refuse(Publication(PUBLISHER, 1, batch), is_sure=False)
    case.stored(batch)


def test_what_has_to_be_refused_and_is_acknowledged(case):
    batch = case.published(1, 2, is_sound=False)
    case.stored(batch)
    with broken("1..2 of .* had to be refused, and were acknowledged"):
        case.acknowledge(batch, 2)


def test_a_number_used_again_is_acknowledged_for_what_was_stored_before(case):
    case.acknowledge(case.publish(1, 3), 3)
    again = case.published(2, 3, payloads=[b"a", b"b", b"c"])
    case.stored(again.slice(4, 4))
    with broken("were acknowledged, but others were published before: keys or payloads"):
        case.acknowledge(again, 4)


def test_refused_and_stored_later(case):
    batch = case.published(1, 1)
    case.oracles.on_refuse(Publication(PUBLISHER, 1, batch))
    with broken("was refused, and is stored"):
        case.stored(batch)


def test_no_answer(case):
    case.deliver(case.publish(1, 1))
    assert "wait for an answer" in "; ".join(case.oracles.lagging())


def test_an_answer_of_an_earlier_epoch_speaks_of_that():
    case = Case(synced=False)
    case.publish(1, 3)
    batch = case.published(4, 1)
    case.stored(batch)
    case.open("r1", EPOCH + 1, 0)
    case.stored(batch, first=1, epoch=EPOCH + 1)
    case.acknowledge(batch, 4)


# -- losses --------------------------------------------------------------------------------------


def test_less_than_was_stable_in_the_same_epoch(case):
    case.publish(1, 3)
    with broken("3 were stable, its region has 2"):
        case.open("r1", EPOCH, 2)


def test_an_epoch_without_a_loss(case):
    case.publish(1, 3)
    with broken("nothing can have been lost"):
        case.open("r1", EPOCH + 1, 3)


def test_an_epoch_that_was_used_before():
    case = Case(synced=False)
    case.publish(1, 3)
    case.open("r1", EPOCH + 5, 3)
    with broken("epoch 103 after epoch 105"):
        case.open("r1", EPOCH + 3, 3)


def test_what_was_not_synced_may_be_lost_with_a_crash():
    case = Case(synced=False)
    batch = case.published(1, 3)
    case.stored(batch)
    case.acknowledge(batch, 3)
    case.open("r1", EPOCH + 1, 2)
    case.oracles.check_end()
    assert case.truth.now.end == 2


def test_what_is_acknowledged_after_a_loss_is_owed():
    case = Case(synced=False)
    case.publish(1, 3)
    case.open("r1", EPOCH + 1, 2)
    batch = case.published(4, 1)
    with broken("4..4 of 50 were acknowledged and are not stored"):
        case.acknowledge(batch, 3)


def test_a_follower_that_lost_what_it_had_synced(case):
    case.oracles.on_stored("r2", case.publish(1, 3))
    with broken("it had 100/3"):
        case.open("r2", EPOCH, 2)


def test_a_follower_whose_disk_was_damaged(case):
    case.oracles.on_stored("r2", case.publish(1, 3))
    case.oracles.on_damaged("r2", STREAM)
    case.open("r2", EPOCH, 2)
    with broken("it had 100/2"):
        case.open("r2", EPOCH, 1)


def test_a_follower_where_it_never_was(case):
    case.publish(1, 3)
    with broken("where it never was"):
        case.open("r2", EPOCH, 2)


# -- subscribers ---------------------------------------------------------------------------------


def test_delivered_twice(case):
    batch = case.publish(1, 2)
    case.deliver(batch)
    with broken("behind 100/2"):
        case.deliver(batch)


def test_a_hole(case):
    batch = case.publish(1, 3)
    with broken("behind 100/0"):
        case.deliver(batch.slice(2, 3))


def test_not_stable(case):
    with broken("up to 2, of which 1 are stable"):
        case.publish(1, 1)
        case.deliver(EventBatch.build(STREAM, 1, [b"1", b"2"], epoch=EPOCH))


def test_other_bytes(case):
    case.publish(1, 2)
    with broken("other bytes between 1 and 2"):
        case.deliver(EventBatch.build(STREAM, 1, [b"1", b"9"], epoch=EPOCH))


def test_an_epoch_there_is_not(case):
    case.publish(1, 1)
    with broken("epoch 99, which there is not"):
        case.deliver(EventBatch.build(STREAM, 1, [b"1"], epoch=99))


def test_buried_without_reason(case):
    case.publish(1, 3)
    hole = EventBatch.build(STREAM, 1, [b"1", b"3"], seqs=[1, 3], epoch=EPOCH)
    with broken("2 is buried"):
        case.deliver(hole)


def test_buried_for_a_reason():
    case = Case(GcPolicy(latest_per_key=True))
    case.publish(1, 3, keys=[b"a", b"b", b"b"])
    case.deliver(
        EventBatch.build(STREAM, 1, [b"1", b"3"], keys=[b"a", b"b"], seqs=[1, 3], epoch=EPOCH)
    )


def test_restarted_without_a_loss(case):
    case.publish(1, 1)
    with broken("goes on at 2 of epoch 100, where no history begins"):
        case.oracles.on_restarted(READER, 1, EPOCH, 1)


def dropped(first: int) -> History:
    """A history of which retention has left what begins at `first`."""
    history = History.in_memory(STREAM, epoch=EPOCH)
    history.reset(EPOCH, first)
    return history


def test_restarted_behind_what_retention_has_dropped(case):
    case.publish(1, 8)
    case.oracles.retention.note(dropped(4))
    case.oracles.on_restarted(READER, 1, EPOCH, 3)
    with broken("restarted at 100/3, where it was at 100/3"):
        case.oracles.on_restarted(READER, 1, EPOCH, 3)
    with broken("goes on at 7 of epoch 100, where no history begins"):
        case.oracles.on_restarted(READER, 1, EPOCH, 6)


def test_a_history_that_begins_anew_where_none_begins(case):
    case.publish(1, 8)
    case.oracles.retention.note(dropped(4))
    case.oracles.on_began("r2", STREAM, EPOCH, keeps=False, first=4)
    with broken("r2: goes on at 6 of epoch 100, where no history begins"):
        case.oracles.on_began("r2", STREAM, EPOCH, keeps=False, first=6)


def test_restarted_more_often_than_there_were_losses():
    case = Case(synced=False)
    case.deliver(case.publish(1, 2))
    case.open("r1", EPOCH + 1, 2)
    case.open("r1", EPOCH + 2, 2)
    case.oracles.on_restarted(READER, 1, EPOCH + 2, 0)
    with broken("restarted at 102/0, where it was at 102/0"):
        case.oracles.on_restarted(READER, 1, EPOCH + 2, 0)


def test_behind(case):
    case.publish(1, 2)
    behind = case.oracles.lagging()
    assert any("reader is at (0, 0) of (100, 2)" in each for each in behind)
    assert any("r2 is at 0/0 of s" in each for each in behind)


# -- collection ----------------------------------------------------------------------------------


def filled(case: Case, batch: EventBatch) -> History:
    history = History.in_memory(STREAM, policy=case.policy, epoch=EPOCH)
    history.append(batch)
    return history


def test_a_history_with_what_is_live():
    case = Case(GcPolicy(last_n=2))
    history = filled(case, case.publish(1, 5))
    case.oracles.check_history("r1", STREAM, history)


def test_a_history_that_brings_something_back():
    case = Case(GcPolicy(last_n=2))
    batch = case.publish(1, 5)
    history = History.in_memory(STREAM, epoch=EPOCH)
    history.append(batch)
    with broken(r"\[1, 2, 3\] are collected and there"):
        case.oracles.check_history("r1", STREAM, history)


def test_a_history_that_collects_too_much():
    case = Case(GcPolicy(last_n=3))
    batch = case.publish(1, 5)
    history = History.in_memory(STREAM, policy=GcPolicy(last_n=2), epoch=EPOCH)
    history.append(batch)
    with broken("3 is buried"):
        case.oracles.check_history("r1", STREAM, history)


def test_events_that_expire_too_young():
    case = Case(GcPolicy(max_age_ns=1000))
    batch = case.published(1, 2)
    case.oracles.on_stored("r1", batch.renumbered(STREAM, EPOCH, 1, 5000, (Run(PUBLISHER, 1, 2),)))
    case.oracles.own_publishers = {9: "r1"}
    expiry = EventBatch.build(STREAM, 1, [gc_payload(SeqBelow(3))], kinds=[int(EventKind.GC)])
    with broken("younger than they may become"):
        case.oracles.on_stored("r1", expiry.renumbered(STREAM, EPOCH, 3, 5999, (Run(9, 1, 1),)))


def test_only_damage_excuses_what_compaction_removed():
    for damaged in (False, True):
        case = Case(GcPolicy(last_n=2), synced=False)
        case.publish(1, 5)
        if damaged:
            case.oracles.on_damaged("r1", STREAM)
        case.open("r1", EPOCH + 1, 3)
        buried = EventBatch.build(STREAM, 1, [b"3"], seqs=[3], epoch=EPOCH + 1)
        case.oracles.on_restarted(READER, 1, EPOCH + 1, 0)
        if damaged:
            case.deliver(buried)
        else:
            with broken("2 is buried"):
                case.deliver(buried)


def test_numbers_are_compared_as_they_are():
    """Rows beyond a hole are compared with their own events, not with the next ones."""
    case = Case(GcPolicy(latest_per_key=True))
    case.publish(1, 4, keys=[b"a", b"a", b"b", b"a"], payloads=[b"w", b"x", b"y", b"z"])
    wrong = EventBatch.build(STREAM, 1, [b"x", b"z"], keys=[b"b", b"a"], seqs=[3, 4], epoch=EPOCH)
    assert np.array_equal(wrong.seqs, [3, 4])
    with broken("other bytes between 3 and 4"):
        case.deliver(wrong)
