"""Streams of small keyed events, made fast enough not to be what is measured."""

import numpy as np

from epicast.core import EventBatch

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
        return EventBatch.even(STREAM, first, content, KEY_BYTES, 0, time=1000 * first)

    def batches(self, first: int, events: int) -> list[EventBatch]:
        return [self.batch(first + at) for at in range(0, events, self.rows)]
