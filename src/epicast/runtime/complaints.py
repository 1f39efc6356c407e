"""Warnings that do not fill a log, and in which nobody writes lines of their own."""

from __future__ import annotations

import logging

_LINES_PER_MINUTE = 20
_MINUTE_NS = 60_000_000_000
_LONGEST = 400
"""Characters of one argument."""


class Complaints:
    """Lines of the log about what may go wrong many times a second, such as somebody who is turned
    away, or a disk that is full. Arguments may be what a stranger said: what is no plain character
    is written as an escape sequence."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._minute = -1
        self._lines = 0

    def warn(self, now: int, text: str, *arguments: object) -> None:
        minute = now // _MINUTE_NS
        if minute != self._minute:
            if self._lines > _LINES_PER_MINUTE:
                left_out = self._lines - _LINES_PER_MINUTE
                self._log.warning("%d more of these were not logged", left_out)
            self._minute, self._lines = minute, 0
        self._lines += 1
        if self._lines <= _LINES_PER_MINUTE:
            self._log.warning(text, *map(_harmless, arguments))


def _harmless(argument: object) -> object:
    if isinstance(argument, int):
        return argument
    text = str(argument)
    shortened = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shortened)
