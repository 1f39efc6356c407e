"""Which rows a predicate matches, column by column."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from epicast.log.predicate.ast import (
    And,
    KeyIn,
    KeyPrefix,
    Not,
    Or,
    Predicate,
    PublishedBefore,
    SeqBelow,
    SizeBelow,
)
from epicast.log.rows import Rows, as_bytes

Mask = NDArray[np.bool_]


def matches(predicate: Predicate, rows: Rows) -> Mask:
    match predicate:
        case KeyIn(keys):
            return _is_one_of(keys, rows)
        case KeyPrefix(prefix):
            return _has_prefix(prefix, rows)
        case SeqBelow(bound):
            return rows.seqs < np.uint64(bound)
        case PublishedBefore(time):
            return rows.times < time
        case SizeBelow(bound):
            return rows.sizes < bound
        case Not(child):
            return ~matches(child, rows)
        case And(children):
            every: Mask = np.all([matches(child, rows) for child in children], axis=0)
            return every
        case Or(children):
            some: Mask = np.any([matches(child, rows) for child in children], axis=0)
            return some


def _has_prefix(prefix: bytes, rows: Rows) -> Mask:
    from epicast.log.kernels.predicates import has_prefix

    answers = np.empty(rows.count, dtype=np.bool_)
    has_prefix(rows.buffer, rows.key_at, rows.key_bytes, as_bytes(prefix), answers)
    return answers


def _is_one_of(keys: tuple[bytes, ...], rows: Rows) -> Mask:
    from epicast.log.kernels.predicates import is_one_of

    wanted, hashes = _sorted_by_hash(keys)
    answers = np.empty(rows.count, dtype=np.bool_)
    is_one_of(
        rows.buffer, rows.key_at, rows.key_bytes, wanted.buffer, wanted.key_at, wanted.key_bytes,
        hashes, answers,
    )  # fmt: skip
    return answers


@lru_cache(maxsize=64)  # the same keys are tested in segment after segment
def _sorted_by_hash(keys: tuple[bytes, ...]) -> tuple[Rows, NDArray[np.uint64]]:
    from epicast.log.kernels.predicates import hash_keys

    wanted = Rows.of_keys(keys)
    hashes = np.empty(len(keys), dtype=np.uint64)
    hash_keys(wanted.buffer, wanted.key_at, wanted.key_bytes, hashes)
    order = np.argsort(hashes)
    wanted.key_at, wanted.key_bytes = wanted.key_at[order], wanted.key_bytes[order]
    return wanted, hashes[order]
