"""Nested timer tables against a dictionary of all deadlines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import NEVER, TimerTable
from epicast.core.timers import TimerHeap

PARENTS = {1: 0, 2: 0, 3: 1, 4: 1, 5: 2}
"""Table 0 is the root; the parent of each other table, if it is adopted."""
instants = st.integers(0, 12) | st.just(NEVER)
names = st.sampled_from("abc")
tables = st.integers(0, 5)
operations = st.one_of(
    st.tuples(st.just("set"), tables, names, instants),
    st.tuples(st.just("set"), tables, names, instants),
    st.tuples(st.just("cancel"), tables, names, st.just(0)),
    st.tuples(st.just("expire"), tables, names, st.integers(0, 12)),
    st.tuples(st.just("clear"), tables, st.just(""), st.just(0)),
    st.tuples(st.just("adopt or release"), st.integers(1, 5), st.just(""), st.just(0)),
)


class Model:
    """All deadlines in one dictionary, searched through for every answer."""

    def __init__(self) -> None:
        self.deadlines: dict[tuple[int, str], int] = {}
        self.adopted = set(PARENTS)

    def family(self, table: int) -> set[int]:
        members = {table}
        for child in sorted(self.adopted):
            if PARENTS[child] in members:
                members.add(child)
        return members

    def earliest(self, table: int) -> int:
        members = self.family(table)
        due = [at for (owner, _), at in self.deadlines.items() if owner in members]
        return min(due, default=NEVER)

    def due(self, table: int, now: int) -> list[str]:
        own = [(at, name) for (owner, name), at in self.deadlines.items() if owner == table]
        return [name for at, name in sorted(own) if at <= now]


@pytest.mark.parametrize("root_type", [TimerTable, TimerHeap])
@given(script=st.lists(operations, min_size=10, max_size=60), now=st.integers(0, 12))
def test_nested_tables(
    root_type: type[TimerTable], script: list[tuple[str, int, str, int]], now: int
) -> None:
    subjects = [root_type(), TimerTable(), root_type(), TimerTable(), TimerTable(), TimerTable()]
    for child, parent in PARENTS.items():
        subjects[parent].adopt(subjects[child])
    model = Model()
    for what, table, name, at in script:
        subject = subjects[table]
        if what == "set":
            subject.set(name, at)
            model.deadlines[table, name] = at
        elif what == "cancel":
            subject.cancel(name)
            model.deadlines.pop((table, name), None)
        elif what == "expire":
            was_due = model.deadlines.get((table, name), NEVER) <= at
            assert subject.expire(name, at) == was_due
            if was_due:
                del model.deadlines[table, name]
        elif what == "clear":
            subject.clear()
            model.deadlines = {k: v for k, v in model.deadlines.items() if k[0] != table}
        elif table in model.adopted:
            subjects[PARENTS[table]].release(subject)
            model.adopted.discard(table)
        else:
            subjects[PARENTS[table]].adopt(subject)
            model.adopted.add(table)
        for index, each in enumerate(subjects):
            assert each.earliest == model.earliest(index)
            assert each.due(now) == model.due(index, now)
            for letter in "abc":
                assert each.deadline(letter) == model.deadlines.get((index, letter), NEVER)


@given(
    st.dictionaries(st.integers(0, 9), st.integers(0, 9), min_size=1),
    st.integers(0, 9),
    st.integers(1, 12),
    st.sets(st.integers(0, 9)),
)
def test_a_heap_hands_out_what_is_due_by_deadline(
    deadlines: dict[int, int], now: int, limit: int, handled: set[int]
) -> None:
    heap = TimerHeap()
    children = {number: TimerTable() for number in sorted(deadlines)}
    numbers = {id(child): number for number, child in children.items()}
    for child in children.values():
        heap.adopt(child)
    for number, at in deadlines.items():
        children[number].set("t", 11)
        children[number].set("t", at)
        children[number].set("t", 11)
        children[number].set("t", at)  # the same again: it must still come only once
    expected = sorted((at, number) for number, at in deadlines.items() if at <= now)[:limit]

    taken = heap.take_due(now, limit)
    assert [numbers[id(child)] for child in taken] == [number for _, number in expected]
    for child in taken:
        if numbers[id(child)] in handled:
            child.set("t", 20)
            deadlines[numbers[id(child)]] = 20
    heap.put_back(taken)

    assert heap.earliest == min(deadlines.values())
    still_due = sorted((at, number) for number, at in deadlines.items() if at <= now)
    again = heap.take_due(now, 100)
    assert [numbers[id(child)] for child in again] == [number for _, number in still_due]


def test_a_child_released_while_taken_is_not_put_back() -> None:
    heap, child = TimerHeap(), TimerTable()
    heap.adopt(child)
    child.set("t", 1)
    taken = heap.take_due(5, 10)
    heap.release(child)
    heap.put_back(taken)
    assert heap.earliest == NEVER
    assert child.earliest == 1  # its deadlines stay with it


def test_a_heap_stays_small_however_often_deadlines_move() -> None:
    heap = TimerHeap()
    children = [TimerTable() for _ in range(10)]
    for child in children:
        heap.adopt(child)
    heap.set("own", 0)  # keeps entries from coming to the top and being dropped there
    for instant in range(1, 2000):
        children[instant % 10].set("t", 5000 - instant)
    assert len(heap._heap) <= 2 * len(children) + 17
    heap.cancel("own")
    assert heap.earliest == 5000 - 1999


@pytest.mark.parametrize("table_type", [TimerTable, TimerHeap])
def test_a_table_has_one_parent(table_type: type[TimerTable]) -> None:
    parent, other, child = table_type(), table_type(), TimerTable()
    parent.adopt(child)
    with pytest.raises(ValueError, match="one parent"):
        other.adopt(child)
    with pytest.raises(ValueError, match="not adopted here"):
        other.release(child)
    parent.release(child)
    other.adopt(child)
    child.set("t", 4)
    assert (parent.earliest, other.earliest) == (NEVER, 4)


def test_what_is_released_leaves_nothing_behind() -> None:
    heap, child, other = TimerHeap(), TimerTable(), TimerTable()
    heap.adopt(child)
    heap.adopt(other)
    other.set("t", 9)
    child.set("t", 3)
    heap.release(child)
    assert heap.earliest == 9
    heap.adopt(child)
    assert heap.earliest == 3
