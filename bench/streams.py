"""Streams of small keyed events, made fast enough not to be what is measured."""

import numpy as np

from epicast.core import EventBatch
from epicast.log.layout import BATCH_HEADER, BATCH_VERSION, ONE_TIME

STREAM = 7
KEY_BYTES = 10


class KeyedStream:
    """Batches of events that are a 10-byte key and nothing else; keys are drawn by `choose`.

    The keys of `variety` batches are drawn in advance and used in turn.
    """

    def __init__(self, keys: int, rows: int = 1000, variety: int = 1000, seed: int = 1) -> None:
        self.rows = rows
        self._rng = np.random.default_rng(seed)
        self._keys = self._rng.integers(0, 256, (keys, KEY_BYTES), dtype=np.uint8)
        self._contents = [self._draw(keys) for _ in range(variety)]
        ends = np.arange(1, rows + 1, dtype="<u4") * KEY_BYTES
        self._offsets = np.concatenate([np.zeros(1, "<u4"), np.repeat(ends, 2)]).tobytes()
        self._turn = 0

    def _draw(self, keys: int) -> bytearray:
        chosen = self._rng.integers(0, keys, self.rows)
        return bytearray(np.ascontiguousarray(self._keys[chosen]).tobytes())

    def batch(self, first: int, own_key: bytes = b"") -> EventBatch:
        """The next batch; `own_key`, if given, is the key of its first event."""
        content = self._contents[self._turn % len(self._contents)]
        self._turn += 1
        if own_key:
            content = bytearray(content)
            content[:KEY_BYTES] = own_key
        last = first + self.rows - 1
        header = BATCH_HEADER.pack(
            BATCH_VERSION, ONE_TIME, 0, self.rows, STREAM, 0, 0, first, last, 0, len(content)
        )
        time = (1000 * first).to_bytes(8, "little")
        return EventBatch.decode(b"".join([header, time, self._offsets, content]))

    def batches(self, first: int, events: int) -> list[EventBatch]:
        return [self.batch(first + at) for at in range(0, events, self.rows)]
