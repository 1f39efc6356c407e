"""What a driver counts, and the rows it writes to a trace."""

from __future__ import annotations

import time
from typing import Any

from epicast.core import AnyMessage, EventBatch, Layered, NodeId, Trace, TraceKind


class Recorder:
    """Counters and clock of one driver. Times of trace rows are wall-clock, so that rows of
    several nodes compare."""

    clock = staticmethod(time.monotonic_ns)

    __slots__ = (
        "bytes_received", "bytes_sent", "connections_made", "datagrams_received",
        "datagrams_sent", "delivered_events", "dial_attempts", "drops", "frames_received",
        "frames_sent", "node", "now", "published_events", "reconnects", "steps", "throttled",
        "trace", "wall_offset", "wire_errors",
    )  # fmt: skip

    def __init__(self, node: NodeId, trace: Trace | None) -> None:
        self.node = node
        self.trace = trace
        self.now = 0
        self.wall_offset = 0
        self.steps = 0
        self.frames_sent = 0
        self.bytes_sent = 0
        self.frames_received = 0
        self.bytes_received = 0
        self.datagrams_sent = 0
        self.datagrams_received = 0
        self.published_events = 0
        self.delivered_events = 0
        self.connections_made = 0
        self.dial_attempts = 0
        self.reconnects = 0
        """Attempts to connect that were not the first."""
        self.throttled = 0
        """How often a connection that brought too much was left unread for a while."""
        self.drops: dict[str, int] = {}
        self.wire_errors: dict[str, int] = {}

    def start(self) -> None:
        self.now = self.clock()
        self.wall_offset = time.time_ns() - self.now

    def drop(self, reason: str, peer: NodeId = 0, nbytes: int = 0, **columns: int) -> None:
        self.drops[reason] = self.drops.get(reason, 0) + 1
        self.row(TraceKind.DROP, peer=peer, nbytes=nbytes, detail=reason, **columns)

    def wire_error(self, reason: str) -> None:
        self.wire_errors[reason] = self.wire_errors.get(reason, 0) + 1

    def sent(self, peer: NodeId, message: AnyMessage, size: int) -> None:
        if self.trace is not None:
            self.row(TraceKind.SEND, peer=peer, nbytes=size, detail=message_name(message))

    def batch(self, kind: TraceKind, batch: EventBatch, detail: str = "") -> None:
        if self.trace is not None:
            self.row(
                kind, stream=batch.stream, first=batch.first, last=batch.last,
                nbytes=batch.payload_bytes, detail=detail,
            )  # fmt: skip

    def received(self, peer: NodeId, message: AnyMessage) -> None:
        """Only where there is a trace: the size of a message has to be worked out."""
        size = message.wire_size()
        self.row(TraceKind.RECEIVE, peer=peer, nbytes=size, detail=message_name(message))

    def row(self, kind: TraceKind, **columns: Any) -> None:
        if self.trace is not None:
            self.trace.add(self.now + self.wall_offset, self.node, kind, **columns)

    def statistics(self) -> dict[str, int]:
        counts = {
            name: getattr(self, name)
            for name in self.__slots__
            if isinstance(getattr(self, name), int) and name not in ("node", "now", "wall_offset")
        }
        for reason in sorted(self.drops):
            counts[f"drop.{reason}"] = self.drops[reason]
        for reason in sorted(self.wire_errors):
            counts[f"wire_error.{reason}"] = self.wire_errors[reason]
        return counts


def message_name(message: AnyMessage) -> str:
    while isinstance(message, Layered):
        message = message.message
    return type(message).__name__
