"""Alarms in words: for people, and for whoever watches with `epicast status --check`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from epicast.protocols.sprinkler import Alarm, AlarmKind


class AlarmStatus(Struct, frozen=True, kw_only=True):
    kind: str
    """One of `AlarmKind`; a later version may know more."""
    text: str
    """What is wrong, in a sentence."""
    for_s: float
    """How long it has been so."""
    stream: str = ""
    other: str = ""
    """The region, or replica, that is not heard of or is further."""
    behind: int = 0


def described(
    alarms: Iterable[Alarm],
    now: int,
    name_of: Callable[[Alarm], str],
    streams: Mapping[int, str],
) -> list[AlarmStatus]:
    """`name_of`: of the other node an alarm is about; empty if it has none."""
    found = []
    for alarm in alarms:
        other = name_of(alarm)
        stream = streams.get(alarm.stream, str(alarm.stream) if alarm.stream else "")
        for_s = round(max(0, now - alarm.since) / 1e9, 3)
        found.append(
            AlarmStatus(
                kind=alarm.kind,
                text=f"{_sentence(alarm, other or 'the proxy', stream)} (for {_about(for_s)})",
                for_s=for_s,
                stream=stream,
                other=other,
                behind=alarm.behind,
            )
        )
    return found


def _sentence(alarm: Alarm, other: str, stream: str) -> str:
    match alarm.kind:
        case AlarmKind.UNREACHABLE:
            return f"nothing is heard of {other}"
        case AlarmKind.STALLED:
            return f"{stream} stands still, {alarm.behind} events behind {other}"
        case AlarmKind.DIVERGED:
            return (
                f"{other} has {alarm.behind} events of {stream} that its owner does not have: "
                "raise the stream's epoch, see `epicast restore`"
            )
        case AlarmKind.STORAGE:
            return f"{stream} cannot be stored: {alarm.detail}"
        case AlarmKind.REPLICA:
            return f"replica {other} is not heard of"
        case AlarmKind.LOST:
            return (
                f"{alarm.behind} events of {stream} that were here, {alarm.detail}, are not in it "
                f"any more: {other} has taken it by force"
            )
        case AlarmKind.OUTSIDE:
            return "this replica is not in its chain"
        case AlarmKind.COORDINATION:
            return "the coordination service does not answer: who fails now cannot be replaced"


def maintenance_alarm(stream: str, reason: str, for_ns: int) -> AlarmStatus:
    """Retention or compaction of a history does not work."""
    for_s = round(max(0, for_ns) / 1e9, 3)
    return AlarmStatus(
        kind=AlarmKind.STORAGE,
        text=f"the history of {stream} cannot be maintained: {reason} (for {_about(for_s)})",
        for_s=for_s,
        stream=stream,
    )


def _about(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
