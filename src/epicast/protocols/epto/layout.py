"""How a node's table of entries is laid out, and how the functions that work on it are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """By numba where it is installed. numba looks at the age of a function's own file only:
    functions that call each other stand in one file."""
    try:
        from numba import njit
    except ImportError:
        return function
    try:
        return cast(Function, njit(function, cache=True, nogil=True))
    except RuntimeError:  # no directory to keep compiled code in
        return cast(Function, njit(function, nogil=True))


ENTRY_BYTES = 33
"""Of an entry in the columns of a ball, besides its content."""
TIME, SOURCE, FIRST, EXTENT = range(4)
"""Columns of the table of ids, which has a row per entry: to compare one is to read one line of the
processor's cache."""
SIZE_MASK = (1 << 32) - 1
MAX_ENTRY_EVENTS = 1024
"""Events of one publication, which stay together: more are refused here and everywhere."""
MAX_BATCH_EVENTS = 1 << 20
"""Events delivered in one round, or given early in one; the rest comes in the next. An entry of a
few bytes may have many events, all of them empty."""
LAST_OF_ALL = 2**63 - 1
MAX_NUMBER = 1 << 53
"""Events of a publisher have numbers up to this."""
COUNT, FRESH, USED, LIVE, PASSED, LAST_TIME, LAST_SOURCE, NEED_BYTES, REFUSED, FULL, NEWEST = range(
    11
)
"""Entries in order, new ones behind them, bytes of the arena in use, those of entries, entries up
to the last delivered, its timestamp and source; then what `absorb` needs or has not taken, and the
largest timestamp it has taken."""
STATE = 11

Ints = NDArray[np.int64]
Places = NDArray[np.int32]
"""Of entries among the columns."""
Bytes = NDArray[np.uint8]


def room_for(count: int) -> int:
    """How long to make an array for so many things: one of eight lengths between a power of two and
    the next. Pieces of memory of all sizes, thousands of times per second, keep the allocator
    looking for longer than they are used."""
    step = 1 << max(0, count.bit_length() - 4)
    return max(1, (count + step - 1) // step * step)
