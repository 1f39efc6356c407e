"""What connections bring, on its way to the protocol.

Peers are always read, but not faster than the protocol handles what they send: a connection that
brought a lot is read on after the next step. That bounds the memory, and keeps the block it
receives into warm: the step lets go of the messages, so the block can be used again.
"""

from __future__ import annotations

from collections.abc import Callable

from epicast.core import AnyMessage
from epicast.runtime.connection import Connection
from epicast.runtime.inbox import Inbox
from epicast.runtime.limits import Limits
from epicast.runtime.link import Link
from epicast.runtime.recorder import Recorder


class Intake:
    def __init__(
        self, inbox: Inbox, limits: Limits, recorder: Recorder, wake: Callable[[], None]
    ) -> None:
        self._inbox = inbox
        self._limit = limits.inbound_bytes
        self._recorder = recorder
        self._wake = wake
        self._active: list[Connection] = []  # that brought something since the last step

    def take(
        self, link: Link, connection: Connection, messages: list[AnyMessage], size: int
    ) -> None:
        self._recorder.frames_received += len(messages)
        self._recorder.bytes_received += size
        if link.closing is not None and link.closing is not connection:
            link.early += messages  # the predecessor is not at its end yet
            return
        if messages:
            self._inbox.add_messages(link.id, messages)
            self._wake()
            if not connection.unhandled_bytes:
                self._active.append(connection)
            connection.unhandled_bytes += size
            if connection.unhandled_bytes > self._limit and not connection.transport.is_closing():
                connection.transport.pause_reading()
            if connection.meter is not None:
                self._charge(connection, len(messages), size)

    def _charge(self, connection: Connection, messages: int, size: int) -> None:
        assert connection.meter is not None
        wait = connection.meter.take(self._recorder.clock(), messages, size)
        if wait and not connection.transport.is_closing():
            self._recorder.throttled += 1
            connection.throttle(wait, self._read_on)

    def next_turn(self) -> None:
        """All that was taken has been handled."""
        active, self._active = self._active, []
        for connection in active:
            was_held = connection.unhandled_bytes > self._limit
            connection.unhandled_bytes = 0
            if was_held:
                self._read_on(connection)

    def wait_for_predecessor(self, connection: Connection) -> None:
        """A new connection is not read before the one it succeeds is at its end."""
        connection.transport.pause_reading()

    def succeed(self, link: Link) -> None:
        """The predecessor of the link's connection is at its end."""
        if link.early:
            self._inbox.add_messages(link.id, link.early)
            link.early = []
            self._wake()
        if link.connection is not None:
            self._read_on(link.connection)

    def _read_on(self, connection: Connection) -> None:
        link = connection.link
        waits = link is not None and link.closing is not None and link.closing is not connection
        waits = waits or connection.throttled or connection.unhandled_bytes > self._limit
        if not waits and not connection.transport.is_closing():
            connection.transport.resume_reading()
