"""Verdicts on claims that say several things at once."""

from __future__ import annotations

from collections.abc import Mapping


def in_parts(parts: Mapping[str, bool]) -> tuple[bool, str]:
    """Whether all of it holds, and which parts do."""
    listed = "; ".join(f"{part}: {'yes' if so else 'no'}" for part, so in parts.items())
    partly = any(parts.values()) and not all(parts.values())
    return all(parts.values()), f"in part: {listed}" if partly else listed
