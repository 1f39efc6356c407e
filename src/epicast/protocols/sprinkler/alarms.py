"""What somebody should look at: a region that is not heard of, a stream that stands still, a disk
that does not store.

A `Watch` is told what a node hears and stores anyway, and says on request what has been wrong for
longer than patience allows. It sends nothing, decides nothing and sets no timer; so an alarm is a
function of what the protocol knows and the time. Nobody attached is no alarm.

Another part of a node that can be stuck, such as a chain of replicas, has kinds of its own and
gives its alarms in the same form: `Proxy.alarms` puts them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol as Interface

from msgspec import Struct

from epicast.core import NodeId
from epicast.protocols.sprinkler.messages import Counter

Place = tuple[int, int]
"""Epoch and sequence number."""


class Followed(Interface):
    """A stream as a node has it."""

    @property
    def epoch(self) -> int: ...
    @property
    def end(self) -> int: ...


class AlarmKind(StrEnum):
    UNREACHABLE = "unreachable"
    """Nothing was heard of another node, whether a connection to it stands or not."""
    STALLED = "stalled"
    """A stream stands still here although somebody is further."""
    DIVERGED = "diverged"
    """Somebody has more of a stream than its owner: the owner has lost events, or was restored from
    a backup, and its epoch was not raised."""
    STORAGE = "storage"
    """What was to be stored last was not."""
    REPLICA = "replica"
    """Another replica of this region's chain was not heard of."""
    LOST = "lost"
    """Events that were here are not in the stream any more: another region took it by force."""
    OUTSIDE = "outside"
    """This replica is not in the chain: it has not caught up, or nobody is there to join."""
    COORDINATION = "coordination"
    """The coordination service does not answer: nobody who fails now can be replaced."""


class Alarm(Struct, frozen=True, kw_only=True):
    kind: AlarmKind
    since: int
    """The node's own time, in nanoseconds."""
    stream: int = 0
    peer: NodeId = 0
    """Who is not heard of, or is further."""
    behind: int = 0
    """How many numbers are missing, as far as is known."""
    detail: str = ""


class _Lag(Struct):
    since: int
    place: Place
    """Where the stream was then: when it has moved, another lag begins."""


class Watch:
    def __init__(self, patience_ns: int, streams: Mapping[int, Followed]) -> None:
        """`streams` are those kept here, as they are at any time."""
        self._patience_ns = patience_ns
        self._streams = streams
        self._owned: frozenset[int] = frozenset()
        self._heard_at: dict[NodeId, int] = {}
        self._counters: dict[int, dict[NodeId, Place]] = {}
        self._lags: dict[int, _Lag] = {}
        self._failures: dict[int, tuple[int, str]] = {}

    def start(self, now: int, peers: Iterable[NodeId], owned: Iterable[int] = ()) -> None:
        """From now on these should be heard of, and nobody has more of `owned` streams."""
        self._owned = frozenset(owned)
        self._heard_at = dict.fromkeys(peers, now)

    def own(self, stream: int, owned: bool) -> None:
        """A stream has changed hands: what was heard of it is not to be judged by the new rule."""
        self._owned = self._owned | {stream} if owned else self._owned - {stream}
        self._counters.pop(stream, None)
        self._lags.pop(stream, None)

    def furthest(self, stream: int) -> Place:
        """How far anybody has said to be."""
        return max(self._counters.get(stream, {}).values(), default=(0, 0))

    def has_heard_of(self, stream: int) -> bool:
        return bool(self._counters.get(stream))

    def heard(self, now: int, peer: NodeId, counters: Sequence[Counter]) -> None:
        """`peer` has said how far it is."""
        if peer not in self._heard_at:
            return
        self._heard_at[peer] = now
        for counter in counters:
            stream = counter.stream
            if stream not in self._streams:
                continue
            here = self._place_of(stream)
            known = self._counters.setdefault(stream, {})
            known[peer] = (counter.epoch, counter.seq)
            if not _missing(here, max(known.values())):
                self._lags.pop(stream, None)
                continue
            lag = self._lags.get(stream)
            if lag is None or lag.place != here:
                self._lags[stream] = _Lag(now, here)

    def stored(self, stream: int) -> None:
        self._failures.pop(stream, None)

    def not_stored(self, now: int, stream: int, reason: str) -> None:
        since, _ = self._failures.get(stream, (now, ""))
        self._failures[stream] = (since, reason)

    def alarms(self, now: int) -> list[Alarm]:
        too_old = now - self._patience_ns
        found = [
            Alarm(kind=AlarmKind.UNREACHABLE, since=heard_at, peer=peer)
            for peer, heard_at in sorted(self._heard_at.items())
            if heard_at <= too_old
        ]
        for stream, lag in sorted(self._lags.items()):
            stands = stream in self._streams and self._place_of(stream) == lag.place
            if stands and lag.since <= too_old:
                found.append(self._lag_alarm(stream, lag))
        for stream, (since, reason) in sorted(self._failures.items()):
            found.append(Alarm(kind=AlarmKind.STORAGE, since=since, stream=stream, detail=reason))
        return found

    def _place_of(self, stream: int) -> Place:
        found = self._streams[stream]
        return found.epoch, found.end

    def _lag_alarm(self, stream: int, lag: _Lag) -> Alarm:
        furthest, peer = max((place, peer) for peer, place in self._counters[stream].items())
        kind = AlarmKind.DIVERGED if stream in self._owned else AlarmKind.STALLED
        behind = _missing(lag.place, furthest)
        return Alarm(kind=kind, since=lag.since, stream=stream, peer=peer, behind=behind)


def _missing(here: Place, there: Place) -> int:
    """How many numbers somebody else has more; of a later epoch nothing is here."""
    if there[0] == here[0]:
        return max(0, there[1] - here[1])
    return there[1] if there[0] > here[0] else 0
