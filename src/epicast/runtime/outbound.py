"""From `fx.send` to the queues: each message is encoded once, however many it goes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from epicast.core import DATAGRAM, AnyMessage, Channel, Group, NodeId, WireError
from epicast.core.effects import Destination
from epicast.runtime.datagrams import DatagramPort
from epicast.runtime.limits import Limits
from epicast.runtime.links import LinkTable
from epicast.runtime.recorder import Recorder
from epicast.wire import FrameEncoder

Service = Callable[[AnyMessage], None]
"""Takes what is sent to a peer that is no node on the network; must not wait for anything."""


class Outbound:
    def __init__(
        self,
        limits: Limits,
        links: LinkTable,
        datagrams: DatagramPort,
        recorder: Recorder,
        services: Mapping[NodeId, Service],
    ) -> None:
        """`services` are peers inside this process."""
        self._services = services
        self._encoder = FrameEncoder(limits.max_frame_bytes)
        self._links = links
        self._datagrams = datagrams
        self._recorder = recorder

    def send(self, to: Destination, message: AnyMessage, channel: Channel) -> None:
        if self._services and isinstance(to, int) and to in self._services:
            self._services[to](message)
            return
        try:
            buffers = self._encoder.encode(message)
        except WireError as error:
            self._recorder.drop(f"cannot be sent: {error.reason}", to if type(to) is int else 0)
            return
        size = sum(map(len, buffers))
        if isinstance(to, Group):
            self._recorder.sent(0, message, size)
            self._datagrams.send_to_group(to, b"".join(buffers))
            return
        targets = (to,) if isinstance(to, int) else to
        if channel == DATAGRAM and self._datagrams.usable:
            whole = b"".join(buffers)
            for target in targets:
                self._recorder.sent(target, message, size)
                self._datagrams.send(target, whole)
            return
        frame = (size, buffers)
        for target in targets:
            self._recorder.sent(target, message, size)
            self._links.send(target, frame, channel)
