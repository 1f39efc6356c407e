"""Epochs of streams: new ones, by the clock, so that none that was used before is used again; and
the same events under another one."""

from __future__ import annotations

from copy import copy

from epicast.core.batch import EventBatch

_SINCE_NS = 1_262_304_000 * 1_000_000_000
"""Counted from the beginning of 2010 in quarters of a second: until 2044 they fit into the 32 bits
they have in a batch."""
EPOCH_NS = 250_000_000
_YEAR = 365 * 86_400 * 4
_PLACES = 256
_MOST = 2**32 - 1


def new_epoch(wall_ns: int) -> int:
    """One that no earlier process has used, as long as clocks do not go back."""
    return max(1, (wall_ns - _SINCE_NS) // EPOCH_NS)


def forced_epoch(wall_ns: int, later_than: int, place: int) -> int:
    """One for a stream that is taken from its owner. It is later than what the owner begins by
    itself if it comes back within a year and does not know yet; and regions, each with a place of
    its own, never take the same, so that two that were both told to cannot be mixed up."""
    least = max(later_than, new_epoch(wall_ns) + _YEAR)
    return min((least // _PLACES + 1) * _PLACES + place % _PLACES, _MOST)


def left_of_epoch_ns(wall_ns: int) -> int:
    """Until the next one begins."""
    return EPOCH_NS - (wall_ns - _SINCE_NS) % EPOCH_NS


def in_epoch(batch: EventBatch, epoch: int) -> EventBatch:
    """Nothing is copied but the encoded form, which names the epoch."""
    again = copy(batch)
    again.epoch = epoch
    again._encoded = None
    return again
