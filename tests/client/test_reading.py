"""Items and watermarks of batches, against a model that goes number by number."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from epicast.client.items import Item, Reset, Tombstone, Watermark
from epicast.client.reading import Reading
from epicast.core import Event, EventBatch
from tests.client.fakes import EPOCH, batch

START = Watermark(EPOCH, 0)

Layout = list[tuple[list[bool], bool]]
layouts: st.SearchStrategy[Layout] = st.lists(
    st.tuples(st.lists(st.booleans(), min_size=1, max_size=8), st.booleans()), max_size=6
)
"""Per batch: which numbers are alive; and whether the next batch is there when it is read."""


def batches_of(layout: Layout) -> list[EventBatch]:
    made, first = [], 1
    for alive, _ in layout:
        gone = [first + i for i, is_alive in enumerate(alive) if not is_alive]
        made.append(batch(first, first + len(alive) - 1, gone=gone))
        first += len(alive)
    return made


def covered(item: Item) -> range:
    assert not isinstance(item, Reset)
    if isinstance(item, Tombstone):
        return range(item.first, item.last + 1)
    return range(item.seq, item.seq + 1)


@given(layouts)
def test_items_cover_every_number_once_and_in_order(layout: Layout) -> None:
    reading = Reading(START, tombstones=True)
    items: list[Item] = []
    made = batches_of(layout)
    for index, whole in enumerate(made):
        more = layout[index][1] and index + 1 < len(made)
        reading.load(whole, more=more)
        items += reading.iterator
    alive = [is_alive for flags, _ in layout for is_alive in flags]
    numbers = [number for item in items for number in covered(item)]
    assert numbers == list(range(1, len(alive) + 1))
    for item in items:
        assert all(alive[number - 1] == isinstance(item, Event) for number in covered(item))


@given(layouts)
def test_adjacent_tombstones_are_one_where_the_next_batch_is_there(layout: Layout) -> None:
    reading = Reading(START, tombstones=True)
    items: list[Item] = []
    made = batches_of(layout)
    for index, whole in enumerate(made):
        reading.load(whole, more=index + 1 < len(made))
        items += reading.iterator
    for left, right in pairwise(items):
        assert not (isinstance(left, Tombstone) and isinstance(right, Tombstone))


@given(layouts, st.booleans())
def test_the_watermark_is_right_before_the_item_in_hand(layout: Layout, tombstones: bool) -> None:
    reading = Reading(START, tombstones=tombstones)
    made = batches_of(layout)
    for index, whole in enumerate(made):
        reading.load(whole, more=layout[index][1] and index + 1 < len(made))
        reading.in_hand = 1
        for item in reading.iterator:
            assert reading.watermark == (EPOCH, covered(item)[0] - 1)
            assert reading.handed_out.seq >= covered(item)[-1]
        reading.in_hand = 0
        if not reading.has_begun:
            assert reading.watermark == (EPOCH, whole.last)


def test_left_out_tombstones_count_as_dealt_with() -> None:
    reading = Reading(START, tombstones=False)
    assert not reading.load(batch(1, 3, gone=[1, 2, 3]), more=True)
    assert reading.watermark == (EPOCH, 3)
    assert reading.load(batch(4, 6, gone=[4]), more=False)
    reading.in_hand = 1
    assert next(reading.iterator) == batch(4, 6).events()[1]
    assert reading.watermark == (EPOCH, 4)


def test_a_reset_is_an_item_between_two_places() -> None:
    reading = Reading(START, tombstones=True)
    reading.load(batch(1, 4, gone=[3, 4]), more=True)
    assert [type(item) for item in reading.iterator] == [Event, Event]
    reset = Reset(7, Watermark(9, 0))
    reading.load(reset, more=True)
    reading.in_hand = 1
    assert next(reading.iterator) == Tombstone(7, 3, 4)
    assert reading.watermark == (EPOCH, 2)
    assert next(reading.iterator) == reset
    assert reading.watermark == (EPOCH, 4)
    reading.in_hand = 0
    assert reading.watermark == (9, 0)
    reading.load(batch(1, 2, epoch=9), more=False)
    reading.in_hand = 1
    next(reading.iterator)
    assert reading.watermark == (9, 0)


def test_a_whole_batch_is_in_hand_until_the_next_is_asked_for() -> None:
    reading = Reading(START, tombstones=True)
    reading.hold(batch(1, 5))
    assert reading.watermark == START
    assert reading.handed_out == (EPOCH, 5)
    reading.in_hand = 0
    assert reading.watermark == (EPOCH, 5)
