"""Verdicts on claims, most of which say several things at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

OURS = "the bounds are ours"
_WORDS = {True: "yes", False: "no", None: "absent, nothing was run for it"}


def in_parts(parts: Mapping[str, bool | None]) -> tuple[bool, str]:
    """Whether all of it was looked at and holds, and which parts do. None is a part that was not
    looked at."""
    listed = "; ".join(f"{part}: {_WORDS[so]}" for part, so in parts.items())
    whole = bool(parts) and all(parts.values())
    return whole, f"in part: {listed}" if any(parts.values()) and not whole else listed


def crossing(curve: Sequence[float], wanted: float) -> float:
    """Where a curve by round first reaches a value, between rounds by a straight line; its length
    if it never does."""
    if curve and curve[0] >= wanted:
        return 0.0
    for number, (low, high) in enumerate(pairwise(curve)):
        if low < wanted <= high:
            return number + (wanted - low) / (high - low)
    return float(len(curve))
