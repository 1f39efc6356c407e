"""Findings for people."""

from __future__ import annotations

import re
from collections.abc import Sequence

from epicast_checker.findings import Report

_STREAM = ("stream", "sent", "acked", "lost", "numbered_twice", "misordered", "ack_stalled_s")
_SUBSCRIBER = (
    "subscriber", "stream", "events", "tombstones", "collected", "never_delivered", "holes",
    "duplicated", "reordered", "forged", "buried", "undecided", "resets", "stalled_s",
)  # fmt: skip


def tables(report: Report) -> str:
    verdict = "no promise was broken" if not report.faults else f"{report.faults} faults"
    rates = f"{report.events} events of {report.logs} logs in {report.seconds:.1f} s"
    parts = [
        _table(_STREAM, [[getattr(each, name) for name in _STREAM] for each in report.streams]),
        _table(
            _SUBSCRIBER,
            [[getattr(each, name) for name in _SUBSCRIBER] for each in report.subscribers],
        ),
        *_remarks(report),
        f"{verdict}: {rates}",
    ]
    return "\n\n".join(part for part in parts if part)


def _remarks(report: Report) -> list[str]:
    found = []
    for stream in report.streams:
        if stream.ambiguous or stream.acked_unsent:
            found.append(
                f"{stream.stream}: the publishers' logs are at fault: {stream.ambiguous} events "
                f"cannot be told apart, {stream.acked_unsent} were acknowledged and never sent"
            )
    for each in report.subscribers:
        if each.unannounced:
            found.append(
                f"{each.subscriber}: {each.unannounced} changes of epoch in {each.stream} without "
                "a reset"
            )
        if not each.closed:
            found.append(
                f"{each.subscriber} was not there until the end of {each.stream}: owed is what it "
                "had got to"
            )
    return found


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return ""
    cells = [
        [re.sub("_s$", " (s)", head).replace("_", " ") for head in heads],
        *([str(cell) for cell in row] for row in rows),
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    words = [isinstance(cell, str) for cell in rows[0]]
    lines = [
        "  ".join(
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(row, widths, words, strict=True)
        ).rstrip()
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
