"""Numbering at the owner, compared with a model that remembers every event; regional waits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import EventBatch, Run
from epicast.protocols.sprinkler import RefusalCode
from epicast.protocols.sprinkler.messages import Publish
from epicast.protocols.sprinkler.ownership import Ownership, Pending, Refusal
from epicast.protocols.sprinkler.regions import RegionalAcks, regions_of
from epicast.protocols.sprinkler.states import StreamState
from tests.protocols.sprinkler.parts import INFO, STREAM, events, publish, stabilise

ME, PEER, WALL = 20, 5, 1_700_000_000


def owner(publishers: dict[int, int] | None = None, limit: int = 100) -> Ownership:
    return Ownership(StreamState(INFO, 1, 0, 0), publishers or {}, limit)


def take(owned: Ownership, message: Publish) -> object:
    taken = owned.take(WALL, PEER, message, 0)
    if isinstance(taken, EventBatch):
        owned._state.take(taken)
    return taken


def code(taken: object) -> RefusalCode:
    assert isinstance(taken, Refusal)
    return taken.code


def test_an_unknown_publisher_may_begin_anywhere_it_has_settled():
    taken = take(owner(), publish(500, 3))
    assert (taken.first, taken.last) == (1, 3)
    assert [tuple(run) for run in taken.runs] == [(99, 500, 3)]


def test_an_unknown_publisher_that_has_something_unanswered_is_not_taken_at_its_second():
    """The first may have been refused by a relay for lack of room. Were the second one taken, the
    first would be thought a copy when it comes again: acknowledged, and never stored."""
    owned = owner()
    assert code(take(owned, publish(8, 7, settled=0))) == RefusalCode.GAP
    assert isinstance(take(owned, publish(1, 7, settled=0)), EventBatch)
    assert isinstance(take(owned, publish(8, 7, settled=0)), EventBatch)


def test_an_owner_started_again_answers_nothing_behind_what_it_has_not_seen_yet():
    """An acknowledgement speaks for everything before it, which may have asked for more regions: an
    owner that has stored it, and knows only that, must not say so in passing."""
    owned = owner({99: 540})
    assert code(take(owned, publish(481, 60, settled=388))) == RefusalCode.GAP
    assert code(take(owned, publish(541, 10, settled=388))) == RefusalCode.GAP
    assert isinstance(take(owned, publish(389, 92, settled=388)), Pending)
    assert isinstance(take(owned, publish(481, 60, settled=388)), Pending)
    assert isinstance(take(owned, publish(541, 10, settled=388)), EventBatch)


def test_who_becomes_the_head_again_has_seen_nothing():
    owned = owner()
    take(owned, publish(1, 10))
    owned.stabilise(10)
    owned.retire()
    assert code(take(owned, publish(6, 5, settled=0))) == RefusalCode.GAP
    assert isinstance(take(owned, publish(1, 5, settled=0)), Pending)


def test_behind_what_was_refused_for_good_the_publisher_goes_on():
    owned = owner()
    take(owned, publish(1, 3))
    assert code(take(owned, publish(7, 2, settled=3))) == RefusalCode.GAP  # 4 to 6 is invalid
    assert isinstance(take(owned, publish(7, 2, settled=6)), EventBatch)


def test_a_number_that_was_left_out_is_never_acknowledged():
    owned = owner()
    take(owned, publish(1, 3))
    take(owned, publish(7, 2, settled=6))  # 4 to 6 were refused
    take(owned, publish(10, 1, settled=9))  # and so was 9
    for first, count, skipped in ((4, 3, 4), (6, 1, 6), (5, 4, 5), (1, 10, 4), (9, 5, 9)):
        refusal = take(owned, publish(first, count, settled=first - 1))
        assert code(refusal) == RefusalCode.INVALID
        assert f"number {skipped} of publisher 99" in refusal.detail
        assert "from 11 on" in refusal.detail
    assert take(owned, publish(7, 2, settled=6)) is None  # a copy, acknowledged once it is stored
    assert isinstance(take(owned, publish(4, 3, publisher=98, settled=3)), EventBatch)
    assert isinstance(take(owned, publish(11, 1, settled=10)), EventBatch)


def test_a_publisher_that_leaves_out_very_much_takes_no_more_memory():
    owned = owner()
    for number in range(1, 10_000, 2):
        take(owned, publish(number, 1, settled=number - 1))
    assert len(owned._skipped) < 1000
    assert code(take(owned, publish(9_998, 1, settled=9_997))) == RefusalCode.INVALID


def test_a_copy_is_acknowledged_once_what_it_is_a_copy_of_is_stored():
    owned = owner()
    take(owned, publish(1, 3))
    assert take(owned, publish(1, 3)) is None
    [pending] = owned.stabilise(3)
    assert (pending.last, pending.seq) == (3, 3)
    stabilise(owned._state, 3)
    again = take(owned, publish(1, 3))
    assert isinstance(again, Pending) and again.seq >= 3


def test_the_answer_goes_where_it_was_asked_for_last():
    owned = owner()
    take(owned, publish(1))
    moved = Publish(STREAM, 99, 1, 0, "", (7, 8), events(1))
    owned.take(WALL, 6, moved, 0)
    [pending] = owned.stabilise(1)
    assert (pending.peer, pending.path) == (6, (7, 8))


def test_what_another_head_has_numbered_waits_for_the_regions_that_the_copy_asks_for():
    owned = owner()
    batch = events(1, 3).renumbered(STREAM, 1, 1, WALL, (Run(99, 1, 3),))
    owned.observe(batch)
    assert owned.take(WALL, PEER, publish(1, 3), 1) is None
    assert owned.take(WALL, PEER, publish(1, 3), 0) is None
    [pending] = owned.stabilise(3)
    assert (pending.peer, pending.regions) == (PEER, 1)


def test_what_could_not_be_stored_may_come_again():
    """Whether copies of it are under way, only its publisher knows."""
    owned = owner()
    take(owned, publish(1, 2))
    [failed] = owned.fail(1)
    owned._state.fail(1)
    assert (failed.first, failed.last) == (1, 2)
    assert code(take(owned, publish(3, 2, settled=0))) == RefusalCode.GAP
    taken = take(owned, publish(1, 2))
    assert (taken.first, taken.last) == (1, 2)  # the stream's numbers are used again, too


def test_what_follows_is_not_held_up_once_the_publisher_has_given_up():
    owned = owner()
    take(owned, publish(1, 2))
    owned.fail(1)
    owned._state.fail(1)
    taken = take(owned, publish(3, 2, settled=2))
    assert (taken.first, taken.last) == (1, 2)


def test_a_number_of_the_proxys_own_is_used_again():
    """Events that expire are published under the number behind what history has."""
    owned = owner()
    owned.take(WALL, ME, publish(1), 0)
    owned.fail(1)
    assert isinstance(owned.take(WALL, ME, publish(1), 0), EventBatch)


def test_a_failure_does_not_touch_what_begins_before_it():
    """Two appends failed; before the second was told, something longer was stored in the place of
    the first."""
    owned = owner()
    take(owned, publish(1, 5))
    take(owned, publish(6, 5))
    owned.fail(1)
    owned._state.fail(1)
    take(owned, publish(11, 15))
    assert owned.fail(6) == []
    assert [pending.seq for pending in owned.stabilise(15)] == [15]


def test_what_history_names_is_forgotten_with_all_it_stands_for():
    """A replica that cannot store is sent the same again, the second time from history, which names
    the last number of a publisher only."""
    owned = owner({99: 937})
    batch = EventBatch.build(STREAM, 984, [b""] * 51)
    for runs in ([Run(99, 938, 51)], [Run(0, 0, 50), Run(99, 988, 1)]):
        owned.observe(batch.renumbered(STREAM, 1, 984, WALL, tuple(runs)))
        owned.fail(984)
        owned._state.fail(984)
    taken = take(owned, publish(938, 51))
    assert isinstance(taken, EventBatch) and taken.rows == 51


def test_only_so_many_publishers_are_remembered():
    owned = owner(limit=3)
    for publisher in range(1, 6):
        take(owned, publish(1, publisher=publisher))
        owned.stabilise(publisher)
    assert isinstance(take(owned, publish(1, publisher=5)), Pending)
    assert isinstance(take(owned, publish(1, publisher=1)), EventBatch)  # forgotten


class Publisher:
    """The dumb side of the property: publications in order, each repeated at will."""

    def __init__(self, name: int, counts: list[int]) -> None:
        self.name = name
        self.publications: list[tuple[int, int]] = []
        first = 1
        for count in counts:
            self.publications.append((first, count))
            first += count
        self.answered: set[int] = set()
        """Indexes of publications."""

    def settled(self) -> int:
        for index, (first, _) in enumerate(self.publications):
            if index not in self.answered:
                return first - 1
        first, count = self.publications[-1]
        return first + count - 1


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.tuples(st.integers(0, 1), st.integers(0, 5))),
        st.tuples(st.just("store"), st.integers(1, 30)),
        st.tuples(st.just("fail"), st.integers(1, 30)),
    ),
    max_size=60,
)


@settings(max_examples=400, deadline=None)
@given(counts=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6), min_size=2, max_size=2),
       steps=STEPS)  # fmt: skip
def test_each_event_is_stored_at_most_once_in_order_and_answered_truly(counts, steps):
    """Publications are sent in any order and any number of times, as after lost answers."""
    owned = owner()
    state = owned._state
    publishers = [Publisher(101 + at, each) for at, each in enumerate(counts)]
    stored: list[tuple[int, int]] = []
    unstored: list[EventBatch] = []
    refused: set[tuple[int, int]] = set()

    def answer(pending):
        publisher = publishers[pending.publisher - 101]
        for index, (first, count) in enumerate(publisher.publications):
            last = first + count - 1
            if last <= pending.last and index not in publisher.answered:
                publisher.answered.add(index)
                for number in range(first, last + 1):  # acknowledged means stored
                    assert (pending.publisher, number) in stored

    for step, argument in steps:
        if step == "send":
            publisher = publishers[argument[0]]
            if argument[1] >= len(publisher.publications):
                continue
            first, count = publisher.publications[argument[1]]
            if first <= publisher.settled():
                continue  # a publisher does not send what it has an answer to
            message = publish(first, count, publisher.settled(), publisher.name)
            taken = take(owned, message)
            if isinstance(taken, EventBatch):
                unstored.append(taken)
            elif isinstance(taken, Pending):
                answer(taken)
        elif step == "store" and unstored:
            batches = [unstored.pop(0) for _ in range(min(argument, len(unstored)))]
            for batch in batches:
                for run in batch.runs:
                    stored += [(run.publisher, run.first + i) for i in range(run.count)]
            stabilise(state, batches[-1].last)
            for pending in owned.stabilise(batches[-1].last):
                answer(pending)
        elif step == "fail" and unstored:
            kept = min(argument - 1, len(unstored) - 1)
            first = unstored[kept].first
            del unstored[kept:]
            state.fail(first)
            for pending in owned.fail(first):
                refused.add((pending.publisher, pending.first))
                publisher = publishers[pending.publisher - 101]
                for index, (begin, _) in enumerate(publisher.publications):
                    if begin == pending.first:
                        publisher.answered.add(index)
    assert len(set(stored)) == len(stored)
    for publisher in publishers:
        own = [number for name, number in stored if name == publisher.name]
        assert own == sorted(own)
        for first, count in publisher.publications:
            there = [first + i in own for i in range(count)]
            assert all(there) or not any(there)
            if (publisher.name, first) in refused:
                assert not any(there)


# -- other regions ----------------------------------------------------------------------------


def pending(seq: int, regions: int, publisher: int = 1) -> Pending:
    return Pending(PEER, (), publisher, seq, seq, seq, regions)


def test_levels():
    assert [regions_of(level) for level in ("", "regions=0", "regions=12")] == [0, 0, 12]
    for nonsense in ("disk", "regions=", "regions=x", "regions=-1", "regions=²", "3"):
        assert regions_of(nonsense) is None


def test_an_acknowledgement_waits_for_as_many_regions_as_it_asks_for():
    acks = RegionalAcks(10)
    assert acks.wait(STREAM, pending(5, 2))
    assert acks.heard(STREAM, 100, 9) == []
    assert acks.heard(STREAM, 100, 10) == []  # the same one again
    assert acks.heard(STREAM, 200, 4) == []
    assert [p.seq for p in acks.heard(STREAM, 200, 5)] == [5]
    assert not acks.wait(STREAM, pending(5, 2))


def test_those_of_one_publisher_are_acknowledged_in_order():
    acks = RegionalAcks(10)
    assert acks.wait(STREAM, pending(5, 1))
    assert acks.wait(STREAM, pending(6, 0))
    assert not acks.wait(STREAM, pending(7, 0, publisher=2))
    assert [p.seq for p in acks.heard(STREAM, 100, 5)] == [5, 6]
    assert not acks.wait(STREAM, pending(8, 0))


def test_only_so_many_wait():
    acks = RegionalAcks(1)
    assert acks.has_room(STREAM, 1, 1)
    acks.wait(STREAM, pending(5, 1))
    assert not acks.has_room(STREAM, 2, 1)
    assert not acks.has_room(STREAM, 1, 0)  # it would have to wait behind the first
    assert acks.has_room(STREAM, 2, 0)
