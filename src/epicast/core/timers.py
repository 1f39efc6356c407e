"""Named deadlines of one protocol. The driver only ever asks for the earliest.

Setting, cancelling and asking happen on every step of every node, so the earliest deadline is
kept ready instead of being searched for. Tables nest: a stack adopts the table of each layer, and a
change of a child's earliest deadline is passed up at once. `TimerTable` looks through its children
when their earliest deadline moves away, which is fastest for the few layers of a stack;
`TimerHeap` is for the thousands of topics of a host.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

NEVER = 2**63 - 1
"""A deadline that does not come (and sorts after all that do)."""


class TimerTable:
    __slots__ = ("_children", "_deadlines", "_parent", "earliest")

    def __init__(self) -> None:
        self._deadlines: dict[str, int] = {}
        self._children: tuple[TimerTable, ...] = ()
        self._parent: TimerTable | None = None
        self.earliest = NEVER

    def adopt(self, child: TimerTable) -> None:
        """Let `earliest` cover the deadlines of `child` too."""
        self._take_charge(child)
        self._children += (child,)
        self._refresh()

    def release(self, child: TimerTable) -> None:
        """Undo `adopt`; the deadlines of `child` stay with it."""
        self._let_go(child)
        self._children = tuple(other for other in self._children if other is not child)
        self._refresh()

    def set(self, name: str, at: int) -> None:
        """(Re)arm `name` for the instant `at`."""
        deadlines = self._deadlines
        previous = deadlines.get(name, NEVER)
        deadlines[name] = at
        if at <= self.earliest:
            self._change(at)
        elif previous == self.earliest:
            self._refresh()

    def cancel(self, name: str) -> None:
        if self._deadlines.pop(name, NEVER) == self.earliest:
            self._refresh()

    def deadline(self, name: str) -> int:
        """When `name` is due, `NEVER` if it is not armed."""
        return self._deadlines.get(name, NEVER)

    def clear(self) -> None:
        self._deadlines.clear()
        self._refresh()

    def due(self, now: int) -> list[str]:
        """The names due by `now`, earliest first, ties by name. They stay armed."""
        if self.earliest > now:
            return []
        due = sorted((at, name) for name, at in self._deadlines.items() if at <= now)
        return [name for _, name in due]

    def expire(self, name: str, now: int) -> bool:
        """Disarm `name` if it is due by `now`; whether it was."""
        at = self._deadlines.get(name, NEVER)
        if at > now:
            return False
        del self._deadlines[name]
        if at == self.earliest:
            self._refresh()
        return True

    def _take_charge(self, child: TimerTable) -> None:
        if child._parent is not None:
            raise ValueError("a timer table has one parent only")
        child._parent = self

    def _let_go(self, child: TimerTable) -> None:
        if child._parent is not self:
            raise ValueError("this timer table was not adopted here")
        child._parent = None

    def _refresh(self) -> None:
        earliest = min(self._deadlines.values()) if self._deadlines else NEVER
        for child in self._children:
            if child.earliest < earliest:
                earliest = child.earliest
        self._change(earliest)

    def _change(self, earliest: int) -> None:
        before = self.earliest
        self.earliest = earliest
        if self._parent is not None and earliest != before:
            self._parent._child_changed(self, before, earliest)

    def _child_changed(self, child: TimerTable, before: int, earliest: int) -> None:
        if earliest <= self.earliest:
            self._change(earliest)
        elif before == self.earliest:
            self._refresh()


class TimerHeap(TimerTable):
    """A table with many children: what one of them does costs the logarithm of their number.

    A child is pushed whenever its earliest deadline changes. Entries that no longer say the truth
    are recognised and dropped when they come to the top, or all at once when they are the majority.
    """

    __slots__ = ("_adopted", "_heap", "_orders")

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[int, int, TimerTable]] = []
        self._orders: dict[TimerTable, int] = {}
        self._adopted = 0

    def adopt(self, child: TimerTable) -> None:
        self._take_charge(child)
        self._adopted += 1
        self._orders[child] = self._adopted  # breaks ties, the same way in every run
        self._child_changed(child, NEVER, child.earliest)

    def release(self, child: TimerTable) -> None:
        self._let_go(child)
        del self._orders[child]
        self._refresh()

    def take_due(self, now: int, limit: int) -> list[TimerTable]:
        """Up to `limit` children due by `now`, earliest first; `put_back` must follow."""
        taken: list[TimerTable] = []
        while len(taken) < limit and self._top() <= now:
            child = heappop(self._heap)[2]
            if not taken or taken[-1] is not child:  # the same entry twice lies side by side
                taken.append(child)
        return taken

    def put_back(self, children: Iterable[TimerTable]) -> None:
        """Watch the children taken again, whatever has become of their deadlines."""
        for child in children:
            if child in self._orders and child.earliest != NEVER:
                heappush(self._heap, (child.earliest, self._orders[child], child))
        self._refresh()

    def _top(self) -> int:
        heap = self._heap
        while heap:
            at, order, child = heap[0]
            if child.earliest == at and self._orders.get(child) == order:
                return at
            heappop(heap)
        return NEVER

    def _refresh(self) -> None:
        own = min(self._deadlines.values()) if self._deadlines else NEVER
        self._change(min(own, self._top()))

    def _child_changed(self, child: TimerTable, before: int, earliest: int) -> None:
        if earliest != NEVER:
            if len(self._heap) > 2 * len(self._orders) + 16:
                self._rebuild()
            else:
                heappush(self._heap, (earliest, self._orders[child], child))
        self._refresh()

    def _rebuild(self) -> None:
        self._heap = [
            (child.earliest, order, child)
            for child, order in self._orders.items()
            if child.earliest != NEVER
        ]
        heapify(self._heap)
