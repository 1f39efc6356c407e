"""Where timestamps come from: the stability oracles' idea of time.

Global: wall-clock time, never below what was accepted, so that a clock that is behind does no
harm, and never above what most others say, so that one that is ahead does none either. Logical: a
counter, never below what was accepted or others say, unless that is out of all proportion.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epicast.core import NodeId

_NEVER = 2**63 - 1
LAST_LOGICAL = 2**62
CENTURY_NS = 100 * 365 * 24 * 3600 * 10**9
"""No clock is off by more: what seems to be is not believed."""
_MAX_LOGICAL_AHEAD = 2**40
"""A counter is not this far ahead of another, with millions of publications a second for days."""
_CLOCKS = 31
"""Other nodes' clocks remembered."""
_PATIENCE = 16
"""Balls after which half of the clocks outweigh the other half. By then others would have been
heard of, if there were any."""
AGES = 4100
"""Ages of entries are below this."""
_AGES_PER_OCTAVE = 64
Ints = NDArray[np.int64]


class _Clocks(dict[NodeId, int]):
    """Those of the nodes heard of last."""

    def hear(self, peer: NodeId, clock: int) -> None:
        self.pop(peer, None)
        self[peer] = clock
        if len(self) > _CLOCKS:
            del self[next(iter(self))]


class LogicalClock:
    """One more than the largest timestamp heard of (Fig. 5.5(b))."""

    __slots__ = ("_begun", "_clocks", "highest")

    rounds_factor = 2
    """An event is deliverable after so many times TTL."""
    extra_rounds = 0
    """And so many rounds more, unless it was decided otherwise."""

    def __init__(self) -> None:
        self.highest = 0
        self._clocks = _Clocks()
        self._begun = False
        """Whether this node's own counter is to be believed."""

    def next(self, wall: int) -> int:
        """The timestamp of the next publication."""
        return self.highest + 1

    def stamp(self, wall: int) -> int:
        self.highest = self.next(wall)
        return self.highest

    def hear(self, time: int) -> None:
        if time > self.highest:
            self.highest = time

    def told(self, wall: int) -> int:
        """What others are told of it, 0: nothing."""
        return self.highest if self._begun else 0

    def is_believable(self, clock: int, wall: int) -> bool:
        """Whether somebody's clock may say this."""
        return 0 <= clock <= LAST_LOGICAL

    def latest(self, wall: int) -> int:
        """Timestamps above this are refused."""
        middle = self.highest if self._begun else self._middle()
        return min(LAST_LOGICAL, middle + _MAX_LOGICAL_AHEAD)

    def _middle(self) -> int:
        clocks = sorted(self._clocks.values())
        return clocks[(len(clocks) - 1) // 2] if clocks else LAST_LOGICAL

    def now(self, wall: int) -> int:
        """Nothing later than this is delivered."""
        return _NEVER

    def ages(self, times: Ints, ttls: Ints, now: int) -> Ints:
        """How old entries are, in steps of this clock. This one knows rounds only."""
        return np.clip(ttls, 0, AGES - 2)

    def begin(self, wall: int, newest: int) -> int:
        """The order of this node begins, after the time returned. `newest`: the largest timestamp
        accepted. Who joins begins by the clock in the middle of those it has heard of, or a larger
        one if that is near: so one that is out of all proportion leads nobody astray."""
        latest = self.latest(wall)
        self.highest = max([newest, *(clock for clock in self._clocks.values() if clock <= latest)])
        self._begun = True
        self._clocks.clear()
        return self.highest

    def hear_clock(self, peer: NodeId, clock: int, wall: int) -> bool:
        """Somebody's counter stands at this. Whether ours is set right for it: never."""
        if not self._begun:
            self._clocks.hear(peer, clock)
        elif clock <= self.latest(wall):
            self.hear(clock)
        return False

    @property
    def correction(self) -> int:
        return 0


class GlobalClock:
    """Wall-clock time in nanoseconds; the last bits tell events of one instant apart."""

    __slots__ = ("_ahead", "_correction", "_max_ahead", "_ties", "highest")

    rounds_factor = 1
    extra_rounds = 1
    """Hops can be faster than rounds, so ttl runs ahead of what others have heard of."""

    def __init__(self, max_ahead_ns: int) -> None:
        self.highest = 0
        self._max_ahead = max_ahead_ns
        self._ahead = _Clocks()
        """By how much others' clocks are ahead of ours."""
        self._correction = 0
        self._ties = 0
        """Balls since there were more than two halves that disagree."""

    def next(self, wall: int) -> int:
        return max(wall + self._correction, self.highest + 1)

    def stamp(self, wall: int) -> int:
        self.highest = self.next(wall)
        return self.highest

    def hear(self, time: int) -> None:
        if time > self.highest:
            self.highest = time

    def told(self, wall: int) -> int:
        return wall

    def is_believable(self, clock: int, wall: int) -> bool:
        return clock >= 0 and -CENTURY_NS <= clock - wall <= CENTURY_NS

    def latest(self, wall: int) -> int:
        return wall + self._correction + self._max_ahead

    def now(self, wall: int) -> int:
        return wall + self._correction

    def ages(self, times: Ints, ttls: Ints, now: int) -> Ints:
        """The time since they were stamped, in steps of 1 %. It tells more than rounds do: the ttl
        of an entry is that of its fastest copy."""
        elapsed = np.maximum(now - times, 1).astype(np.float64)
        return (_AGES_PER_OCTAVE * np.log2(elapsed)).astype(np.int64)

    def begin(self, wall: int, newest: int) -> int:
        self.highest = max(wall + self._correction, newest)
        return self.highest

    def hear_clock(self, peer: NodeId, clock: int, wall: int) -> bool:
        """Somebody's clock shows this when ours shows `wall`. If most are off by more than is
        allowed, it is ours that is: it follows the one in the middle. If there are two halves, as
        in a system of two, that which is ahead follows the other, but not at once: who has heard of
        one node only may have heard of the one that is wrong. Whether ours was set right."""
        ahead = clock - wall
        self._ahead.hear(peer, ahead)
        before = self._correction
        if abs(ahead) > self._max_ahead or before:
            self._follow_the_middle()
        return self._correction != before

    def _follow_the_middle(self) -> None:
        clocks = sorted([0, *self._ahead.values()])
        lower, upper = clocks[(len(clocks) - 1) // 2], clocks[len(clocks) // 2]
        self._ties = self._ties + 1 if upper - lower > self._max_ahead else 0
        middle = lower if self._ties >= _PATIENCE else min(lower, upper, key=abs)
        self._correction = middle if abs(middle) > self._max_ahead else 0

    @property
    def correction(self) -> int:
        """By how much this node's clock is set right, 0 while it is right."""
        return self._correction


Clock = GlobalClock | LogicalClock
