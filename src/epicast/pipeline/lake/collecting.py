"""What a stream has collected, said over columns of bronze: the same as its own history says.

An epoch of a stream is a history of its own. Its GC events are few and are looked at one by one;
what they make of the events is found column by column in tasks. The rules are those of
`epicast.log.collector`; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epicast.log.deferred import Deferred
from epicast.log.gc_events import GcEvent, rows_of
from epicast.log.policy import GcPolicy
from epicast.log.predicate import Predicate, SeqBelow, key_in, matches, plan, split_gc_payload
from epicast.log.predicate.ast import And, Not, Or, PublishedBefore
from epicast.log.rows import Rows, as_bytes
from epicast.pipeline.lake.schema import EVENT, GC

if TYPE_CHECKING:
    import pyarrow as pa

Mask = NDArray[np.bool_]
_MICROSECOND = 1000
_NOBODY = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True)
class Rules:
    """What the events of one epoch collect."""

    epoch: int
    policy: GcPolicy
    floor: int
    """Everything up to this number is gone."""
    gc_events: tuple[GcEvent, ...] = ()
    gone_gc_events: NDArray[np.uint64] = field(default_factory=lambda: _NOBODY)
    """GC events that another one made superfluous."""
    key_gc_events: NDArray[np.uint64] = field(default_factory=lambda: _NOBODY)
    """GC events that stand for their key as an event would: the next one of the key collects it."""

    @property
    def needs_all_events(self) -> bool:
        """Whether an event may be collected while an older one with its key is not, so that the
        newest of each key is not enough to go on from."""
        if self.policy.latest_per_key:
            return False
        return not all(plan(event.predicate).is_closed for event in self.gc_events)


def rules_of(
    epoch: int, policy: GcPolicy, gc_events: Iterable[GcEvent], end: int, floor: int = 0
) -> Rules:
    """`end` is how far the epoch is; `floor`, up to where a reset has voided it."""
    events = tuple(sorted(gc_events, key=lambda event: event.seq))
    if policy.last_n is not None:
        floor = max(floor, end - policy.last_n)
    for event in events:
        if isinstance(event.predicate, SeqBelow):
            floor = max(floor, min(event.seq, event.predicate.bound) - 1)
    own = [event.seq for event in events if event.key and event.predicate == key_in([event.key])]
    return Rules(
        epoch,
        policy,
        floor,
        events,
        _superfluous(events),
        np.array(own if policy.latest_per_key else [], dtype=np.uint64),
    )


def gc_events_of(rows: pa.Table) -> list[GcEvent]:
    """The GC events among rows of bronze."""
    import pyarrow.compute as pc

    rows = rows.filter(pc.equal(rows["kind"], GC))
    found = []
    for seq, time, key, payload in zip(
        rows["seq"].to_pylist(),
        nanoseconds(rows["time"]).tolist(),
        rows["key"].to_pylist(),
        rows["payload"].to_pylist(),
        strict=True,
    ):
        predicate, _ = split_gc_payload(payload)
        found.append(GcEvent(seq, predicate, key or b"", time, len(payload)))
    return found


class Collecting:
    """Rules at work on columns, in a task."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._search = Deferred(rules.policy)
        for event in rules.gc_events:
            self._search.add(event)
        self._exact = not any(_splits_microseconds(event.predicate) for event in rules.gc_events)

    def keep_matched_by_none(self, events: pa.Table) -> pa.Table:
        """The data events that neither the floor nor a GC event collects."""
        return events.filter(_as_arrow(~self._collected_events(events)))

    def collected(self, rows: pa.Table) -> Mask:
        """Of events and GC events, all there are with the keys they have: which are collected."""
        kinds = rows["kind"].to_numpy(zero_copy_only=False)
        seqs = rows["seq"].to_numpy().astype(np.uint64)
        gone: Mask = seqs <= np.uint64(self.rules.floor)
        data = kinds == EVENT
        gone[data] |= self._collected_events(rows.filter(_as_arrow(data)))
        declared = kinds == GC
        gone |= declared & np.isin(seqs, self.rules.gone_gc_events)
        if self.rules.policy.latest_per_key:
            stand_in = data | (declared & np.isin(seqs, self.rules.key_gc_events))
            gone[stand_in] |= _superseded(rows.filter(_as_arrow(stand_in)))
        return gone

    def _collected_events(self, events: pa.Table) -> Mask:
        rows = _log_rows(events)
        gone: Mask = rows.seqs <= np.uint64(self.rules.floor)
        if self._search:
            found = self._search.collected(rows)
            if not self._exact:
                # Bronze has microseconds, predicates nanoseconds: only what is surely collected.
                rows.times = rows.times + (_MICROSECOND - 1)
                found = np.intersect1d(found, self._search.collected(rows))
            gone |= np.isin(rows.seqs, found)
        return gone


def newest_per_key(events: pa.Table) -> pa.Table:
    """Of the events of one stream that have a key, the newest with each."""
    import pyarrow.compute as pc

    events = events.filter(pc.greater(pc.binary_length(events["key"]), 0))
    return events.filter(_as_arrow(~_superseded(events)))


def nanoseconds(times: pa.ChunkedArray) -> NDArray[np.int64]:
    import pyarrow as pa

    found: NDArray[np.int64] = times.cast(pa.int64()).fill_null(0).to_numpy()
    return found * _MICROSECOND


def _superseded(rows: pa.Table) -> Mask:
    """Which have a key that a later one has, too."""
    import pyarrow.compute as pc

    newest = rows.select(["key", "seq"]).group_by("key").aggregate([("seq", "max")])
    keyless = pc.fill_null(pc.equal(pc.binary_length(rows["key"]), 0), True)
    kept = pc.or_(keyless, pc.is_in(rows["seq"], newest["seq_max"].combine_chunks()))
    mask: Mask = ~kept.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask


def _superfluous(events: Sequence[GcEvent]) -> NDArray[np.uint64]:
    """Those that a later one with the same predicate matches."""
    same: dict[Predicate, list[GcEvent]] = {}
    for event in events:
        same.setdefault(event.predicate, []).append(event)
    gone = [_NOBODY]
    for predicate, group in same.items():
        if len(group) > 1:
            older = rows_of(group[:-1])
            matched = matches(predicate, older)
            older.times = older.times + (_MICROSECOND - 1)
            gone.append(older.seqs[matched & matches(predicate, older)])
    return np.concatenate(gone)


def _splits_microseconds(node: Predicate) -> bool:
    match node:
        case PublishedBefore(time):
            return time % _MICROSECOND != 0
        case Not(child):
            return _splits_microseconds(child)
        case And(children) | Or(children):
            return any(map(_splits_microseconds, children))
    return False


def _log_rows(events: pa.Table) -> Rows:
    """Data events as the columns that predicates work on."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = Rows.empty()
    rows.count = events.num_rows
    if not rows.count:
        return rows
    keys: Any = events["key"].combine_chunks().cast(pa.large_binary()).fill_null(b"")
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(keys) + 1, 8 * keys.offset)
    rows.buffer = as_bytes(data if data is not None else b"")
    rows.key_at, rows.key_bytes = bounds[:-1].copy(), np.diff(bounds)
    rows.longest_key = int(rows.key_bytes.max())
    rows.seqs = events["seq"].to_numpy().astype(np.uint64)
    rows.sizes = pc.fill_null(pc.binary_length(events["payload"]), 0).to_numpy().astype(np.int64)
    rows.times = nanoseconds(events["time"])
    rows.kinds = np.zeros(rows.count, dtype=np.uint8)
    return rows


def _as_arrow(mask: Mask) -> pa.Array:
    import pyarrow as pa

    return pa.array(mask)
