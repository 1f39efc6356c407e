"""Text that others wrote, for a terminal or a log line."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """Escape what does not stand for itself: control characters, which a terminal would obey, and
    those that hide or reorder what is around them. Characters in `keep` stay as they are."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode()
        for each in text
    )
