"""What `latest_per_key` does with a batch, in one call: most of the time that is all there is."""

from __future__ import annotations

from typing import Any

from epicast.log.kernels.compiling import compiled
from epicast.log.kernels.keys import exchange
from epicast.log.kernels.live import insert, insert_range, remove


@compiled
def take_latest(
    buffer: Any, key_at: Any, key_bytes: Any, seqs: Any, previous: Any, hashes: Any,
    slots: Any, arena: Any, used: Any, seed: Any,
    origin: Any, places: Any, counts: Any, bitmaps: Any, lists: Any,
) -> None:  # fmt: skip
    """Add the rows to the live set, and take out what they replace under their keys."""
    if seqs[-1] - seqs[0] + 1 == len(seqs):
        insert_range(seqs[0], seqs[-1], origin, places, counts, bitmaps)
    else:
        insert(seqs, origin, places, counts, bitmaps)
    exchange(
        buffer, key_at, key_bytes, seqs, previous, hashes, slots, arena, used, seed
    )  # fmt: skip
    remove(previous[: len(seqs)], origin, places, counts, bitmaps, lists)
