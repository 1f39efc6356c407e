"""Balls that nobody honest sends, and what becomes of a node that gets them."""

from __future__ import annotations

import json
import struct
import sys
from random import Random

from epicast.protocols.epto import Missing
from epicast.protocols.epto.messages import Ball
from tests.protocols.epto.test_protocol import (
    HOUR,
    NOTHING,
    OTHER,
    SECOND,
    THIRD,
    ball,
    delivered,
    missing,
    node,
    publish,
)

EXTREMES = (
    0, 1, -1, 5, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 53, (1 << 53) + 1, 1 << 62, (1 << 63) - 1,
    -(1 << 63), HOUR, HOUR + SECOND, 2 * HOUR,
)  # fmt: skip
FIELDS = ("wall", "published", "published_at", "latency", "epoch", "size", "first_at")


def entry(
    time: int, source: int, first: int, rows: int, content: bytes = bytes(8), **fields: object
) -> Ball:
    """A ball of one entry, whatever it says of itself."""
    columns = struct.pack("<qqqqB", time, source, first, rows << 32 | len(content), 0) + content
    return Ball(1, columns, minima=b"", **(NOTHING | fields))  # type: ignore[arg-type]


def drawn(rng: Random) -> Ball:
    """Mostly broken: one with extreme numbers somewhere, or one damaged on the way."""
    kind = rng.randrange(4)
    if kind == 0:
        return ball(**{name: rng.choice(EXTREMES) for name in rng.sample(FIELDS, 2)})
    if kind == 1:
        content = struct.pack("<II", rng.choice((0, 3, (1 << 32) - 1)), rng.choice((0, 2)))
        content += bytes(rng.choice((0, 2, 8, 16, 40)))
        rows = rng.choice((0, 1, 2, 1024, 1025, (1 << 31) - 1))
        time = rng.choice((*EXTREMES, HOUR - 7))
        return entry(time, rng.choice((OTHER, 9, -3)), rng.choice(EXTREMES), rows, content)
    times = sorted(rng.randrange(HOUR - 50, HOUR + 10) for _ in range(rng.randint(1, 4)))
    good = ball(*((time, 50 + at, 1 + rng.randrange(5), 1) for at, time in enumerate(times)))
    columns = bytearray(good.columns)
    for _ in range(rng.choice((0, 1, 1, 3))):
        columns[rng.randrange(len(columns))] = rng.choice((0, 1, 127, 128, 255))
    if rng.random() < 0.2:
        columns = columns[: rng.randrange(len(columns))]
    return Ball(good.entries, bytes(columns), minima=b"", **NOTHING)  # type: ignore[arg-type]


def outcome(seed: int) -> list[object]:
    """All that a node did, and what it counts, after so many balls."""
    rng = Random(seed)
    single = node(clock=rng.choice(("global", "logical")))
    found: list[object] = []
    for _ in range(40):
        single.receive(rng.choice((OTHER, THIRD, 9)), drawn(rng))
        found += [single.drops(), [gap_of(gap) for gap in missing(single)]]
        if rng.random() < 0.3:
            single.fire("round")
            found += [single.drops(), delivered(single), [gap_of(gap) for gap in missing(single)]]
    publish(single, 1, b"mine")
    for _ in range(8):
        single.fire("round")
        found.append(delivered(single))
    return [*found, sorted(single.protocol.statistics().items())]


def gap_of(gap: Missing) -> tuple[int, int, int]:
    return gap.source, gap.first, gap.last


if __name__ == "__main__":
    print(json.dumps([outcome(seed) for seed in range(int(sys.argv[1]))]))
