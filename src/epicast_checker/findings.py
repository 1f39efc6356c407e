"""What a check finds, as numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class SubscriberFindings:
    """What one subscriber got of one stream."""

    subscriber: str
    stream: str
    events: int = 0
    tombstones: int = 0
    """Numbers that were handed out as tombstones."""
    sessions: int = 0
    resets: int = 0
    closed: bool = False
    """Whether it ended in good order: if not, only what it had got to is owed."""
    holes: int = 0
    """Numbers that were left out between others."""
    duplicated: int = 0
    """Numbers that came again in the same session."""
    reordered: int = 0
    """Numbers that came after a later one."""
    unannounced: int = 0
    """Changes of epoch without a reset."""
    forged: int = 0
    """Events that nobody had sent."""
    buried: int = 0
    """Tombstones in a stream where nothing is collected."""
    never_delivered: int = 0
    """Events that were acknowledged and owed, did not come, and were not collected."""
    collected: int = 0
    """Acknowledged events that did not come because a later one has collected them."""
    undecided: int = 0
    """Acknowledged events that did not come, and nobody can say whether they had to: how they are
    numbered is known of no subscriber."""
    stalled_s: float = 0.0
    """The longest time without anything although more was acknowledged."""

    @property
    def faults(self) -> int:
        return (
            self.holes + self.duplicated + self.reordered + self.unannounced + self.forged
            + self.buried + self.never_delivered
        )  # fmt: skip


@dataclass
class StreamFindings:
    """What became of what was published to one stream."""

    stream: str
    sent: int = 0
    """Events, however often each was sent."""
    acked: int = 0
    lost: int = 0
    """Acknowledged, delivered to nobody although owed, and not collected."""
    numbered_twice: int = 0
    """Events that are in the stream under more than one number."""
    misordered: int = 0
    """Events that are in the stream before an event their publisher had sent earlier."""
    ambiguous: int = 0
    """Events that cannot be told apart: the log is at fault, and nothing is sure."""
    acked_unsent: int = 0
    """Events that were acknowledged and never sent: the log is at fault, too."""
    ack_stalled_s: float = 0.0
    """The longest time without an acknowledgement while something waited for one."""

    @property
    def faults(self) -> int:
        return (
            self.lost + self.numbered_twice + self.misordered + self.ambiguous + self.acked_unsent
        )


@dataclass
class Report:
    streams: list[StreamFindings] = field(default_factory=list)
    subscribers: list[SubscriberFindings] = field(default_factory=list)
    logs: int = 0
    events: int = 0
    """Sent, acknowledged and delivered, together."""
    seconds: float = 0.0

    @property
    def faults(self) -> int:
        of_streams = sum(each.faults for each in self.streams)
        return of_streams + sum(each.faults for each in self.subscribers)

    def document(self) -> dict[str, Any]:
        return {"faults": self.faults, **asdict(self)}
