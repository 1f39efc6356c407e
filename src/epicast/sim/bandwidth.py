"""A node's network interface with limited rates: what is sent queues, control before data."""

from __future__ import annotations

from collections import deque
from typing import Any

from msgspec import Struct

from epicast.core import CONTROL, DATA, Channel, ConfigError, NodeId
from epicast.sim.link import Link


class Bandwidth(Struct, frozen=True):
    """Bytes per second each way; the queue bound is per node."""

    up: int
    down: int
    queue_bytes: int = 4 << 20

    def __post_init__(self) -> None:
        if self.up < 1 or self.down < 1 or self.queue_bytes < 1:
            raise ConfigError("bandwidth: up, down and queue must be positive")


class Outgoing(Struct, gc=False):
    receivers: tuple[Any, ...]
    """One, or the members of a group: a packet to a group is sent once."""
    message: Any
    size: int
    channel: Channel
    link: Link | None


class Interface:
    __slots__ = ("_control", "_data", "_waiting", "bandwidth", "current", "down_free_at",
                 "queued_bytes")  # fmt: skip

    def __init__(self, bandwidth: Bandwidth) -> None:
        self.bandwidth = bandwidth
        self.current: Outgoing | None = None
        """What is being sent."""
        self.queued_bytes = 0
        self.down_free_at = 0
        self._control: deque[Outgoing] = deque()
        self._data: deque[Outgoing] = deque()
        self._waiting: dict[NodeId, int] = {}
        """Peers the protocol waits for room towards, and how little must be queued before."""

    # -- sending ---------------------------------------------------------------------------------

    def enqueue(self, item: Outgoing) -> bool:
        """False if the queue is full; an empty one takes anything."""
        limit, queued = self.bandwidth.queue_bytes, self.queued_bytes + item.size
        if self.queued_bytes and queued > limit:
            return False
        self.queued_bytes = queued
        (self._control if item.channel == CONTROL else self._data).append(item)
        if item.channel == DATA and 2 * queued > limit:
            self._waiting.setdefault(item.receivers[0].id, limit // 4)
        return True

    def take(self) -> Outgoing | None:
        """Begin to send what is next, if anything is."""
        queue = self._control or self._data
        self.current = queue.popleft() if queue else None
        return self.current

    def finish(self) -> Outgoing:
        """What was being sent is out."""
        item, self.current = self.current, None
        assert item is not None
        self.queued_bytes -= item.size
        return item

    def send_ns(self, size: int) -> int:
        return size * 1_000_000_000 // self.bandwidth.up

    def drain_ns(self) -> int:
        """Until all that is queued is out, at the latest."""
        return self.send_ns(self.queued_bytes) + len(self._control) + len(self._data) + 1

    @property
    def free_bytes(self) -> int:
        return max(0, self.bandwidth.queue_bytes - self.queued_bytes)

    def room(self, peer: NodeId) -> int:
        """Whoever is told less than all hears when there is more."""
        if self.queued_bytes:
            self._waiting[peer] = min(self.bandwidth.queue_bytes // 4, self.queued_bytes // 2)
        return self.free_bytes

    def ready_peers(self) -> list[NodeId]:
        """Whom to tell, now, that there is room again."""
        if not self._waiting:
            return []
        ready = [peer for peer, limit in self._waiting.items() if self.queued_bytes <= limit]
        for peer in ready:
            del self._waiting[peer]
        return ready

    # -- receiving -------------------------------------------------------------------------------

    def received_at(self, now: int, size: int) -> int:
        """When the last byte of something whose first arrives now is in."""
        start = max(now, self.down_free_at)
        self.down_free_at = start + size * 1_000_000_000 // self.bandwidth.down
        return self.down_free_at

    def has_receive_room(self, now: int, size: int) -> bool:
        waiting = max(0, self.down_free_at - now) * self.bandwidth.down // 1_000_000_000
        return waiting == 0 or waiting + size <= self.bandwidth.queue_bytes

    def is_busy(self, now: int) -> bool:
        return self.queued_bytes > 0 or self.down_free_at > now
