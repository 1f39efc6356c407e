"""Which events a proxy refuses, from publishers and from other proxies: no history stores them."""

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
    """Asked about every publication and about what other proxies send: looks at columns, and at
    single events only if they are GC events."""

    def __init__(self, policies: Mapping[int, GcPolicy]) -> None:
        self._policies = policies

    def __call__(self, info: Admitting, batch: EventBatch) -> str:
        """Why a publication cannot be numbered; empty if it can."""
        return _long_key(info, batch) or _bad_event(batch, self._policies[info.id])

    def storable(self, info: Admitting, batch: EventBatch) -> str:
        """Why no history can store events that were numbered elsewhere; empty if they can be. The
        policy is not asked: it may have been another one when the events were published."""
        return _long_key(info, batch) or _bad_event(batch, _ANY_POLICY)


_ANY_POLICY = GcPolicy()


def _bad_event(batch: EventBatch, policy: GcPolicy) -> str:
    if batch.only_data:
        return ""
    kinds, bounds = batch.kinds, batch.offsets
    for row in np.flatnonzero(kinds).tolist():
        if kinds.item(row) != EventKind.GC:
            return f"event {row + 1} is of kind {kinds.item(row)}; publish DATA or GC events"
        payload = batch.data[bounds.item(2 * row + 1) : bounds.item(2 * row + 2)].tobytes()
        try:
            predicate, _ = split_gc_payload(payload)
            policy.check(predicate)
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
