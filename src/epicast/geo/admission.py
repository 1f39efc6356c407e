"""What a proxy refuses to number: it would be refused by every history, in every region."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from epicast.core import EventBatch, EventKind
from epicast.log import GcPolicy, PredicateError, split_gc_payload
from epicast.protocols.sprinkler import StreamInfo


class Admission:
    """Called for every publication: looks at columns, and at single events only if they are GC
    events."""

    def __init__(self, policies: Mapping[int, GcPolicy]) -> None:
        self._policies = policies

    def __call__(self, info: StreamInfo, batch: EventBatch) -> str:
        """What is wrong; empty if nothing is."""
        problem = _long_key(info, batch)
        return problem if problem or batch.only_data else self._bad_kind(info, batch)

    def _bad_kind(self, info: StreamInfo, batch: EventBatch) -> str:
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


def _long_key(info: StreamInfo, batch: EventBatch) -> str:
    if batch.payload_bytes <= info.max_key_bytes:
        return ""  # also if there are no rows at all
    longest = batch.longest.key
    if longest <= info.max_key_bytes:
        return ""
    return (
        f"a key of {longest} bytes; stream {info.name!r} takes up to {info.max_key_bytes}: shorten "
        f"the key, or raise max_key of the stream in geoplex.toml"
    )
