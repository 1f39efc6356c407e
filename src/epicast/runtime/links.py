"""All connections of a node: one per peer, made on demand, kept while someone wants it.

The end of a connection is reported only to a protocol that asked for it, and ends its interest.
What was queued is dropped with it: nothing sent before a down may arrive after the next up. An idle
connection is closed in good order instead: our side is shut, and what the peer sent before it
noticed is still read, before anything that comes on a new connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random

from epicast.core import Channel, NodeId, Peer
from epicast.runtime.addresses import AddressBook
from epicast.runtime.connection import Connection
from epicast.runtime.dialing import Dialer
from epicast.runtime.inbox import Inbox
from epicast.runtime.intake import Intake
from epicast.runtime.limits import Limits
from epicast.runtime.link import Frame, Link
from epicast.runtime.recorder import Recorder
from epicast.runtime.send_budget import SendBudget

log = logging.getLogger("epicast.runtime")


class LinkTable:
    def __init__(
        self,
        node: NodeId,
        limits: Limits,
        book: AddressBook,
        inbox: Inbox,
        recorder: Recorder,
        rng: Random,
        wake: Callable[[], None],
        budget: SendBudget,
    ) -> None:
        self.links: dict[NodeId, Link] = {}
        self.ready: dict[NodeId, None] = {}
        """Peers whose queue has room again, to be told to the protocol."""
        self.intake = Intake(inbox, limits, recorder, wake)
        self.stopping = False
        self.make_connection: Callable[[NodeId], Connection]
        """For dialing a peer; set by who knows how a connection introduces itself."""
        self._node = node
        self._limits = limits
        self._book = book
        self._inbox = inbox
        self._recorder = recorder
        self._clock = recorder.clock
        self._wake = wake
        self._dialer = Dialer(limits, rng, recorder)
        self._dials: set[asyncio.Task[None]] = set()
        self._arrived: set[asyncio.Task[None]] = set()  # dials that succeeded and are about to end
        self._dirty: dict[Link, None] = {}
        self._budget = budget
        self._retry: asyncio.TimerHandle | None = None

    # -- what the protocol wants -----------------------------------------------------------------

    def connect(self, peer: Peer) -> None:
        self._book.learn(peer)
        if self._inbox.has_report(peer.id):
            return  # which is the answer, then
        link = self.open(peer.id)
        if link is None:
            self._inbox.add_down(peer.id)
            self._wake()
            return
        link.interested = True
        if link.connection is not None:
            self._inbox.add_up(peer.id)
            self._wake()
        else:
            self._dial(link, patient=False)

    def disconnect(self, peer: NodeId) -> None:
        self._inbox.withdraw(peer)
        link = self.links.get(peer)
        if link is None:
            return
        link.interested = False
        link.used_at = self._clock()
        if link.dial is not None and not link.queued_frames:
            link.dial.cancel()
            link.dial = None
        self._forget_if_useless(link)

    def end_search(self, peer: NodeId, *, succeeded: bool) -> None:
        """Another node was found at the address of a peer: end the interest in that peer. If the
        search `succeeded`, its connection is in use for the other node."""
        self._inbox.withdraw(peer)
        link = self.links.get(peer)
        if link is None:
            return
        link.interested = False
        dial, link.dial = link.dial, None
        if dial is not None and succeeded:
            self._dials.discard(dial)
            self._arrived.add(dial)
        elif dial is not None:
            dial.cancel()
        self._lose(link, "another node answers")

    def send(self, peer: NodeId, frame: Frame, channel: Channel) -> None:
        link = self.links.get(peer) or self.open(peer)
        if link is None:
            return
        if not link.put(frame, channel):
            # A connection cannot lose one message and go on.
            self._recorder.drop("queue full", peer, frame[0])
            self.drop(link, "queue full")
        elif link.connection is not None:
            self._dirty[link] = None
        else:
            self._dial(link, patient=True)

    def room(self, peer: NodeId) -> int:
        link = self.links.get(peer)
        if link is not None:
            return link.room()
        return self._limits.data_queue_bytes if self._book.get(peer) is not None else 0

    def flush(self) -> None:
        """Write what this step queued."""
        if self._dirty:
            dirty, self._dirty = self._dirty, {}
            for link in dirty:
                self.flush_link(link)

    def flush_link(self, link: Link) -> None:
        if self._budget.limited:
            frames, written = link.flush(self._budget.take_frame)
            if link.queued_frames and link.connection is not None and not link.connection.paused:
                self._flush_later(link)
        else:
            frames, written = link.flush()
        if frames:
            self._recorder.frames_sent += frames
            self._recorder.bytes_sent += written
            link.used_at = self._clock()
        if link.take_ready():
            self.ready[link.id] = None
            self._wake()

    def _flush_later(self, link: Link) -> None:
        """There was more to send than may be sent now."""
        self._dirty[link] = None
        if self._retry is None:
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(self._budget.RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self.flush()

    # -- how links come and go -------------------------------------------------------------------

    def open(self, peer: NodeId) -> Link | None:
        """The link of a peer, if it can be sent to."""
        link = self.links.get(peer)
        if link is not None:
            return link
        entry = self._book.get(peer)
        if entry is None or peer == self._node:
            self._recorder.drop("address unknown", peer)
            return None
        if self.stopping or len(self.links) >= self._limits.max_connections:
            self._recorder.drop("too many connections", peer)
            return None
        link = self.links[peer] = Link(entry, self._limits, self._clock())
        return link

    def adopt(self, connection: Connection) -> bool:
        """Use this connection from now on; False if there is no room for another peer."""
        peer = connection.remote.node.id
        link = self.open(peer)
        if link is not None and link.connection is not None:
            self.drop(link, "replaced by a new one")
            link = self.open(peer)
        if link is None:
            return False
        link.connection, connection.link = connection, link
        link.entry.incarnation = connection.remote.incarnation
        link.entry.failures = link.entry.not_before = 0
        link.used_at = self._clock()
        self._recorder.connections_made += 1
        dial, link.dial = link.dial, None
        if connection.outcome is not None and not connection.outcome.done():
            connection.outcome.set_result(True)
            if dial is not None:
                self._dials.discard(dial)
                self._arrived.add(dial)
        elif dial is not None:
            dial.cancel()
        if link.closing is not None:
            self.intake.wait_for_predecessor(connection)
        if link.interested:
            self._inbox.add_up(peer)
            self._wake()
        self.flush_link(link)
        return True

    def drop(self, link: Link, reason: str) -> None:
        """End what there is of a connection, and of the protocol's interest in it."""
        if link.connection is not None:
            log.info("node %d drops its connection with %s: %s",
                     self._node, link.entry.peer, reason)  # fmt: skip
            self.release(link.connection)
            return
        if link.dial is not None:
            link.dial.cancel()
            link.dial = None
        self._lose(link, "connection lost")

    def release(self, connection: Connection) -> None:
        """Have nothing more to do with a connection, closed or not."""
        connection.shut()
        link, connection.link = connection.link, None
        if link is None:
            return
        if link.closing is connection:
            link.closing = None
            self.intake.succeed(link)
            if link.connection is None and (link.interested or link.queued_frames):
                self._dial(link, patient=not link.interested)
            self._forget_if_useless(link)
        elif link.connection is connection:
            link.connection = None
            link.early = []
            self._lose(link, "connection lost")

    def end_of_input(self, connection: Connection) -> None:
        """The peer sends no more. It may have closed an idle connection, and still read."""
        link = connection.link
        if link is None or link.connection is not connection:
            return
        if link.closing is not None:
            self.release(link.closing)
        self._write_rest(link, connection)
        link.connection, link.closing = None, connection
        connection.abort_after(self._limits.connect_timeout_ns)
        self._report_down(link)

    def close_idle(self) -> None:
        now = self._clock()
        for link in list(self.links.values()):
            idle = now - link.used_at >= self._limits.idle_close_ns
            if idle and not (link.interested or link.queued_frames or link.closing):
                self._close_in_order(link)

    def _close_in_order(self, link: Link) -> None:
        connection = link.connection
        if connection is None or connection.transport.is_closing():
            return
        if link.closing is not None:
            self.release(link.closing)
        self._write_rest(link, connection)
        link.connection, link.closing = None, connection
        connection.abort_after(self._limits.connect_timeout_ns)
        connection.finish()

    def _write_rest(self, link: Link, connection: Connection) -> None:
        frames = link.take_all()
        if frames:
            connection.write([buffer for _, buffers in frames for buffer in buffers])
            self._recorder.frames_sent += len(frames)
            self._recorder.bytes_sent += sum(size for size, _ in frames)

    def _dial(self, link: Link, *, patient: bool) -> None:
        """Connect: at once or, for a message's sake, not before that makes sense again."""
        if link.dial is not None or link.closing is not None or self.stopping:
            return
        attempts = self._dialer.dial(
            link.entry, lambda: self.make_connection(link.id), patient=patient
        )
        link.dial = asyncio.get_running_loop().create_task(attempts)
        link.dial.add_done_callback(lambda task: self._dialed(link, task))
        self._dials.add(link.dial)

    def _dialed(self, link: Link, task: asyncio.Task[None]) -> None:
        self._dials.discard(task)
        self._arrived.discard(task)
        if link.dial is task:  # and not one that was called off
            link.dial = None
            self._lose(link, "unreachable")

    def _lose(self, link: Link, reason: str) -> None:
        for size, _ in link.take_all():
            self._recorder.drop(reason, link.id, size)
        self._report_down(link)
        self._forget_if_useless(link)

    def _report_down(self, link: Link) -> None:
        if link.interested:
            link.interested = False
            self._inbox.add_down(link.id)
            self._wake()

    def _forget_if_useless(self, link: Link) -> None:
        if link.useless and self.links.get(link.id) is link:
            del self.links[link.id]
            self._dirty.pop(link, None)

    # -- the end ---------------------------------------------------------------------------------

    async def call_off_dials(self) -> None:
        self.stopping = True
        for dial in self._dials:
            dial.cancel()
        if self._dials or self._arrived:
            await asyncio.wait(self._dials | self._arrived)

    def close_all(self) -> None:
        """Write what is queued and close in good order, which takes a while."""
        self.stopping = True
        for link in list(self.links.values()):
            self._close_in_order(link)

    def abort_all(self) -> None:
        self.stopping = True
        for link in list(self.links.values()):
            for connection in (link.connection, link.closing):
                if connection is not None:
                    self.release(connection)

    @property
    def open_connections(self) -> int:
        return sum(
            (link.connection is not None) + (link.closing is not None)
            for link in self.links.values()
        )
