"""The publisher's side: lanes, refusals, room."""

from collections.abc import Iterator

from epicast.core import Publication
from epicast.core.effects import Acknowledge, Refuse
from epicast.protocols.sprinkler import ClientConfig, RefusalCode
from epicast.protocols.sprinkler.messages import Publish, Published, Refused
from epicast.protocols.sprinkler.outbox import Outbox
from epicast.protocols.sprinkler.rooms import MESSAGE_BYTES
from tests.protocols.harness import SECOND
from tests.protocols.sprinkler.parts import STREAM, effects, events

PROXY, ME = 20, 99


def outbox(**settings: int) -> Outbox:
    return Outbox(ClientConfig(**settings))


def publication(first: int, count: int = 1, stream: int = STREAM) -> Publication:
    return Publication(ME, first, events(first, count, stream=stream))


def add(box: Outbox, *publications: Publication, now: int = 0) -> None:
    box.add(now, publications)


def sent(box: Outbox, room: int = 1 << 62) -> list[tuple[int, int, int]]:
    """Stream, first number and what is settled, of what goes out now."""
    fx = effects(room)
    box.send(PROXY, fx)
    assert all(isinstance(message, Publish) for _, message, _ in fx.sends)
    return [(m.stream, m.first, m.settled) for _, m, _ in fx.sends]


def firsts(box: Outbox) -> list[int]:
    return [first for _, first, _ in sent(box)]


def published(box: Outbox, *acks: tuple[int, int], now: int = 0) -> Iterator[tuple[int, int]]:
    """First number and stream number of what is acknowledged to the application."""
    fx = effects()
    box.handle_published(now, Published(STREAM, ME, (), acks), fx)
    for op in fx.operations:
        assert isinstance(op, Acknowledge)
        yield op.publication.first, op.seq


def refused(box: Outbox, first: int, last: int, code: RefusalCode) -> tuple[bool, list[str]]:
    fx = effects()
    again = box.handle_refused(0, Refused(STREAM, ME, (), first, last, code, "why"), fx)
    return again, [op.error for op in fx.operations if isinstance(op, Refuse)]


def test_publications_go_out_once_in_order():
    box = outbox()
    add(box, publication(1, 3), publication(4, 2))
    assert sent(box) == [(STREAM, 1, 0), (STREAM, 4, 0)]
    assert sent(box) == []


def test_each_says_up_to_where_everything_was_answered():
    box = outbox()
    add(box, publication(1, 3), publication(4, 2))
    sent(box)
    assert list(published(box, (3, 30))) == [(1, 30)]
    add(box, publication(6))
    assert sent(box) == [(STREAM, 6, 3)]


def test_streams_are_lanes_of_their_own():
    box = outbox()
    add(box, publication(1), publication(1, stream=8))
    assert sent(box) == [(STREAM, 1, 0), (8, 1, 0)]


def test_an_acknowledgement_speaks_for_what_came_before():
    box = outbox()
    add(box, publication(1, 3), publication(4, 2), publication(6))
    sent(box)
    assert list(published(box, (5, 50))) == [(1, 50), (4, 50)]
    assert box.unanswered == 1


def test_after_a_reconnection_everything_unanswered_is_sent_again():
    box = outbox()
    add(box, publication(1), publication(2), publication(3))
    sent(box)
    list(published(box, (1, 10)))
    box.send_again(0)
    assert sent(box) == [(STREAM, 2, 1), (STREAM, 3, 1)]


def test_a_lane_without_an_answer_is_repeated_though_others_get_theirs():
    """One answer for another stream must not count for this one."""
    box = outbox(acknowledge_within_ns=5 * SECOND)
    add(box, publication(1), publication(1, stream=8))
    sent(box)
    assert list(published(box, (1, 10), now=4 * SECOND)) == [(1, 10)]
    box.repeat_overdue(4 * SECOND)
    assert sent(box) == []
    box.repeat_overdue(6 * SECOND)
    assert sent(box) == [(8, 1, 0)]
    box.repeat_overdue(7 * SECOND)
    assert sent(box) == []


def test_a_refusal_for_good_leaves_the_numbers_of_the_others_alone():
    """If those behind it took its number, a copy of one of them under its old number would be
    stored twice, or taken for another."""
    box = outbox()
    add(box, publication(1, 3), publication(4, 2), publication(6))
    sent(box)
    assert refused(box, 1, 3, RefusalCode.INVALID) == (False, ["INVALID: why"])
    assert sent(box) == [(STREAM, 4, 3), (STREAM, 6, 3)]
    add(box, publication(7))
    assert sent(box) == [(STREAM, 7, 3)]


def test_whoever_comes_back_leaves_out_what_was_refused():
    box = outbox()
    add(box, publication(4, 2), publication(9))
    assert sent(box) == [(STREAM, 4, 3)]
    assert list(published(box, (5, 50))) == [(4, 50)]
    assert sent(box) == [(STREAM, 9, 8)]
    assert list(published(box, (9, 51))) == [(9, 51)]


def test_a_refusal_in_the_middle():
    box = outbox()
    add(box, publication(1), publication(2), publication(3))
    sent(box)
    assert refused(box, 2, 2, RefusalCode.STORAGE) == (False, ["STORAGE: why"])
    assert list(published(box, (3, 9))) == [(1, 9), (3, 9)]
    assert box.unanswered == 0


def test_what_is_behind_a_refusal_waits_until_everything_before_it_is_answered():
    """The owner takes nothing behind a gap before it is told that the gap stays."""
    box = outbox()
    add(box, *(publication(number) for number in range(1, 6)))
    assert len(sent(box)) == 5
    assert refused(box, 3, 3, RefusalCode.INVALID) == (False, ["INVALID: why"])
    assert firsts(box) == [1, 2]
    for number in (4, 5):  # refused as well, before their publisher knew
        assert refused(box, number, number, RefusalCode.GAP) == (False, [])
    assert firsts(box) == []
    assert list(published(box, (2, 20))) == [(1, 20), (2, 20)]
    assert sent(box) == [(STREAM, 4, 3), (STREAM, 5, 3)]
    add(box, publication(6), publication(7))
    assert refused(box, 5, 5, RefusalCode.INVALID) == (False, ["INVALID: why"])
    assert firsts(box) == [4]


def test_a_gap_is_believed_once_no_later_copy_can_be_taken():
    box = outbox()
    add(box, publication(1), publication(2), publication(3))
    sent(box)
    refused(box, 1, 1, RefusalCode.INVALID)
    assert firsts(box) == [2, 3]
    assert refused(box, 2, 2, RefusalCode.GAP) == (False, [])  # the first copy
    assert refused(box, 2, 2, RefusalCode.GAP) == (True, [])  # and the second: something is lost
    assert firsts(box) == []
    box.unblock()
    assert firsts(box) == [2]
    box.send_again(0)  # all copies before are lost
    assert firsts(box) == [2]
    assert refused(box, 2, 2, RefusalCode.GAP) == (True, [])


def test_a_refusal_comes_to_the_application_once():
    box = outbox()
    add(box, publication(1), publication(2))
    sent(box)
    refused(box, 1, 1, RefusalCode.INVALID)
    assert refused(box, 1, 1, RefusalCode.INVALID) == (False, [])


def test_without_room_at_the_owner_one_is_tried_then_two_then_four():
    box = outbox()
    add(box, *(publication(number) for number in range(1, 20)))
    assert len(sent(box)) == 19
    assert refused(box, 1, 1, RefusalCode.BUSY) == (True, [])
    refused(box, 2, 2, RefusalCode.GAP)  # of the same burst
    assert firsts(box) == []  # not before some time has passed
    box.unblock()
    assert firsts(box) == [1]
    list(published(box, (1, 1)))
    assert firsts(box) == [2, 3]
    list(published(box, (2, 2), (3, 3)))
    assert firsts(box) == [4, 5, 6, 7]


def test_a_late_refusal_of_what_was_answered_means_nothing():
    box = outbox()
    add(box, publication(1), publication(2))
    sent(box)
    list(published(box, (1, 1)))
    assert refused(box, 1, 1, RefusalCode.BUSY) == (False, [])
    assert sent(box) == []


def test_a_full_link_takes_what_fits_in_one_step():
    box = outbox()
    sent(box)  # an idle link has room for more than the next one
    add(box, *(publication(number) for number in range(1, 11)))
    size = publication(1).batch.wire_size() + MESSAGE_BYTES
    assert [first for _, first, _ in sent(box, 3 * size + 10)] == [1, 2, 3]
    assert firsts(box) == [4, 5, 6, 7, 8, 9, 10]


def test_what_is_too_large_for_any_queue_goes_when_it_is_empty():
    box = outbox()
    add(box, Publication(ME, 1, events(1, size=5000)), Publication(ME, 2, events(2, size=5000)))
    assert [first for _, first, _ in sent(box, 1000)] == [1]
    assert [first for _, first, _ in sent(box, 900)] == []
    assert [first for _, first, _ in sent(box, 1000)] == [2]


def test_room_is_counted_in_events_and_in_bytes():
    box = outbox(max_unacknowledged_events=10, max_unacknowledged_bytes=10_000)
    add(box, publication(1, 7))
    assert box.room == 3
    sent(box)
    list(published(box, (7, 7)))
    assert box.room == 10
    heavy = Publication(ME, 8, events(1, 1, size=20_000))
    add(box, heavy)
    assert box.room == 0


def test_answers_for_somebody_else_are_ignored():
    box = outbox()
    add(box, publication(1))
    fx = effects()
    box.handle_published(0, Published(STREAM, 5, (), ((1, 1),)), fx)
    box.handle_published(0, Published(STREAM, ME, (), ()), fx)
    box.handle_refused(0, Refused(8, ME, (), 1, 1, RefusalCode.INVALID, ""), fx)
    assert not fx
    assert box.unanswered == 1


def test_what_was_sent_twice_is_given_up_only_when_no_copy_could_be_stored():
    """The other copy may reach an owner that was started again, or another replica."""
    box = outbox()
    add(box, publication(1))
    assert firsts(box) == [1]
    box.send_again(0)
    assert firsts(box) == [1]
    assert refused(box, 1, 1, RefusalCode.STORAGE) == (False, [])
    assert refused(box, 1, 1, RefusalCode.STORAGE) == (False, ["STORAGE: why"])
    add(box, publication(2))
    assert firsts(box) == [2]
    box.send_again(0)
    assert firsts(box) == [2]
    assert refused(box, 2, 2, RefusalCode.STORAGE) == (False, [])
    assert list(published(box, (2, 7))) == [(2, 7)]
