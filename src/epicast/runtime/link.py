"""The queues towards one peer, and the connection they go through."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from epicast.core import CONTROL, AnyMessage, Buffer, Channel, NodeId
from epicast.runtime.addresses import Entry
from epicast.runtime.connection import Connection
from epicast.runtime.limits import Limits

Frame = tuple[int, list[Buffer]]
"""Size, and the buffers to write."""


class Link:
    """CONTROL is written before DATA, and little is handed to the transport at a time."""

    __slots__ = (
        "_control", "_data", "_limits", "_ready_below", "closing", "connection", "control_bytes",
        "data_bytes", "dial", "early", "entry", "id", "interested", "used_at",
    )  # fmt: skip

    def __init__(self, entry: Entry, limits: Limits, now: int) -> None:
        self.id: NodeId = entry.peer.id
        self.entry = entry
        self.connection: Connection | None = None
        """The connection both sides agreed on."""
        self.closing: Connection | None = None
        """One that takes nothing more from us, but may still bring what the peer sent before."""
        self.early: list[AnyMessage] = []
        """What came on `connection` while `closing` was not at its end yet."""
        self.dial: asyncio.Task[None] | None = None
        self.interested = False
        """The protocol has asked for a connection and not been told that it is gone."""
        self.used_at = now
        self.control_bytes = 0
        self.data_bytes = 0
        self._limits = limits
        self._control: deque[Frame] = deque()
        self._data: deque[Frame] = deque()
        self._ready_below = -1

    @property
    def useless(self) -> bool:
        return not (
            self.connection or self.closing or self.dial or self.interested or self.queued_frames
        )

    @property
    def queued_frames(self) -> int:
        return len(self._control) + len(self._data)

    def put(self, frame: Frame, channel: Channel) -> bool:
        """Queue a frame; False if there is no room. An empty queue takes a frame of any size."""
        limits, size = self._limits, frame[0]
        if channel == CONTROL:
            total = self.control_bytes + size
            if total > limits.control_queue_bytes and self._control:
                return False
            self.control_bytes = total
            self._control.append(frame)
            return True
        total = self.data_bytes + size
        if total > limits.data_queue_bytes and self._data:
            return False
        self.data_bytes = total
        self._data.append(frame)
        if total * 2 > limits.data_queue_bytes:
            self._ready_below = limits.data_queue_bytes // 4
        return True

    def room(self) -> int:
        """What is left of the DATA queue; who is told less than all hears when there is more."""
        queued = self.data_bytes
        if queued:
            self._ready_below = min(self._limits.data_queue_bytes // 4, queued // 2)
        return max(0, self._limits.data_queue_bytes - queued)

    def take_ready(self) -> bool:
        """Whether someone is to be told, now, that there is room again."""
        if self.data_bytes <= self._ready_below:
            self._ready_below = -1
            return True
        return False

    def flush(self, may_send: Callable[[int], bool] | None = None) -> tuple[int, int]:
        """Write while the transport takes it, and frames of their size `may_send`; how many frames
        and bytes it took."""
        connection = self.connection
        frames = written = 0
        if connection is None:
            return 0, 0
        chunk = self._limits.transport_buffer_bytes
        control, data = self._control, self._data
        while (control or data) and not connection.paused:
            buffers: list[Buffer] = []
            size = 0
            while size < chunk:
                if may_send is not None and (control or data):
                    first = control or data
                    if not may_send(first[0][0]):
                        break
                if control:
                    frame_size, frame = control.popleft()
                    self.control_bytes -= frame_size
                elif data:
                    frame_size, frame = data.popleft()
                    self.data_bytes -= frame_size
                else:
                    break
                buffers += frame
                size += frame_size
                frames += 1
            if not buffers:
                break
            connection.write(buffers)
            written += size
        return frames, written

    def take_all(self) -> list[Frame]:
        """Everything queued, in the order it would have been written."""
        frames = [*self._control, *self._data]
        self._control.clear()
        self._data.clear()
        self.control_bytes = self.data_bytes = 0
        self._ready_below = -1
        return frames
