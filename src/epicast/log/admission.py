"""Refuse publications that no history would store, before a proxy numbers them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol as Interface

import numpy as np

from epicast.core import EventBatch, EventKind
from epicast.log.errors import PredicateError
from epicast.log.policy import GcPolicy
from epicast.log.predicate import split_gc_payload


class Admitting(Interface):
    """A stream, as far as its events are checked."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def max_key_bytes(self) -> int: ...


class Admission:
    """Called for every publication: looks at columns, and at single events only if they are GC
    events."""

    def __init__(self, policies: Mapping[int, GcPolicy]) -> None:
        self._policies = policies

    def __call__(self, info: Admitting, batch: EventBatch) -> str:
        """Return what is wrong with a publication, or an empty string."""
        problem = _long_key(info, batch)
        return problem if problem or batch.only_data else self._bad_kind(info, batch)

    def _bad_kind(self, info: Admitting, batch: EventBatch) -> str:
        kinds = batch.kinds
        payloads = batch.payloads()
        for row in np.flatnonzero(kinds).tolist():
            if kinds.item(row) != EventKind.GC:
                return f"event {row + 1} is of kind {kinds.item(row)}; publish DATA or GC events"
            try:
                predicate, _ = split_gc_payload(payloads[row])
                self._policies[info.id].check(predicate)
            except PredicateError as error:
                return f"event {row + 1}: {error}"
        return ""


def _long_key(info: Admitting, batch: EventBatch) -> str:
    if batch.payload_bytes <= info.max_key_bytes:
        return ""  # also if there are no rows at all
    longest = batch.longest.key
    if longest <= info.max_key_bytes:
        return ""
    return (
        f"a key of {longest} bytes; stream {info.name!r} takes up to {info.max_key_bytes}: shorten "
        f"the key, or raise max_key of the stream in geoplex.toml"
    )
