"""Tests of keys, one answer per row."""

from __future__ import annotations

from typing import Any

import numpy as np

from epicast.log.kernels.access import address_of
from epicast.log.kernels.compiling import compiled
from epicast.log.kernels.keys import hash_key, same_bytes


@compiled
def has_prefix(buffer: Any, key_at: Any, key_bytes: Any, prefix: Any, answers: Any) -> None:
    length = len(prefix)
    start, wanted = address_of(buffer), address_of(prefix)
    for row in range(len(answers)):
        answers[row] = key_bytes[row] >= length and same_bytes(start + key_at[row], wanted, length)


@compiled
def hash_keys(buffer: Any, key_at: Any, key_bytes: Any, hashes: Any) -> None:
    start = address_of(buffer)
    for row in range(len(hashes)):
        hashes[row] = hash_key(start + key_at[row], key_bytes[row], np.uint64(0))


@compiled
def is_one_of(
    buffer: Any, key_at: Any, key_bytes: Any, wanted: Any, wanted_at: Any, wanted_bytes: Any,
    wanted_hashes: Any, answers: Any,
) -> None:  # fmt: skip
    """Whether each key is one of those wanted, which are sorted by their hash."""
    start, there = address_of(buffer), address_of(wanted)
    for row in range(len(answers)):
        at, length = start + key_at[row], key_bytes[row]
        hashed = hash_key(at, length, np.uint64(0))
        index, high = 0, len(wanted_hashes)
        while index < high:
            middle = (index + high) >> 1
            if wanted_hashes[middle] < hashed:
                index = middle + 1
            else:
                high = middle
        answers[row] = False
        while index < len(wanted_hashes) and wanted_hashes[index] == hashed:
            if wanted_bytes[index] == length and same_bytes(at, there + wanted_at[index], length):
                answers[row] = True
                break
            index += 1
