"""How two nodes come to agree on one connection.

The node with the lower id decides. It says `Accepted` on the connection it takes and closes others;
the other node sends nothing before it hears that. Two connections opened at the same time, one from
each side, therefore end as one, and neither protocol notices.

Every connection stands at the door until it is agreed on, for a bounded time.
"""

from __future__ import annotations

import asyncio
import logging

from epicast.core import AnyMessage, NodeId, Peer, WireError
from epicast.runtime.addresses import AddressBook
from epicast.runtime.connection import Connection
from epicast.runtime.limits import Limits
from epicast.runtime.links import LinkTable
from epicast.runtime.messages import Accepted
from epicast.runtime.recorder import Recorder
from epicast.wire import FrameEncoder, Handshake, Hello

log = logging.getLogger("epicast.runtime")
_ANYWHERE = ("", "0.0.0.0", "::")


class Doorkeeper:
    """Hears of everything that happens on connections: implements `connection.Owner`."""

    def __init__(
        self,
        hello: Hello,
        limits: Limits,
        book: AddressBook,
        links: LinkTable,
        recorder: Recorder,
    ) -> None:
        self._hello = hello
        self._limits = limits
        self._book = book
        self._links = links
        self._recorder = recorder
        self._at_the_door: dict[Connection, None] = {}
        self._accepted = FrameEncoder().encode(Accepted())
        self._all_gone: asyncio.Future[None] | None = None
        links.make_connection = self.dial

    def accept(self) -> Connection:
        """For a peer that knocks."""
        return Connection(self, self._limits, Handshake(self._hello), dialed=False)

    def dial(self, peer: NodeId) -> Connection:
        """For knocking at a peer's door."""
        handshake = Handshake(self._hello, expected=peer)
        return Connection(self, self._limits, handshake, dialed=True)

    # -- what connections report -----------------------------------------------------------------

    def on_open(self, connection: Connection) -> None:
        crowd = len(self._links.links) + len(self._at_the_door)
        if self._links.stopping:
            connection.transport.abort()
        elif not connection.dialed and crowd >= self._limits.max_connections:
            self._recorder.drop("too many connections")
            connection.transport.abort()
        else:
            self._at_the_door[connection] = None
            connection.abort_after(self._limits.connect_timeout_ns)

    def on_introduced(self, connection: Connection) -> None:
        if connection not in self._at_the_door:
            return
        hello = connection.remote
        node = hello.node
        if node.host in _ANYWHERE:
            node = Peer(node.id, connection.peer_host, node.port)
        entry = self._book.learn(node)
        link = self._links.links.get(node.id)
        if entry is None or hello.incarnation < entry.incarnation:
            self._recorder.drop("earlier incarnation", node.id)
            self._turn_away(connection)
        elif self._hello.node.id > node.id:
            pass  # the peer decides
        elif link is not None and not _supersedes(connection, link.connection):
            self._turn_away(connection)
        else:
            connection.write(list(self._accepted))
            self._let_in(connection)

    def on_frames(self, connection: Connection, messages: list[AnyMessage], size: int) -> None:
        if connection in self._at_the_door:
            decides = self._hello.node.id < connection.remote.node.id
            if decides or not isinstance(messages[0], Accepted):
                error = WireError("malformed", "frames on a connection that is not agreed on")
                self.on_wire_error(connection, error)
                return
            self._let_in(connection)
            del messages[0]
        link = connection.link
        if link is not None and not self._links.stopping:
            link.used_at = self._recorder.clock()
            self._links.intake.take(link, connection, messages, size)

    def on_wire_error(self, connection: Connection, error: WireError) -> None:
        self._recorder.wire_error(error.reason)
        peer = connection.remote.node if connection.introduced else connection.peer_host
        log.warning("node %d closes the connection with %s: %s", self._hello.node.id, peer, error)
        self._turn_away(connection)

    def on_writable(self, connection: Connection) -> None:
        link = connection.link
        if link is not None and link.connection is connection:
            self._links.flush_link(link)

    def on_eof(self, connection: Connection) -> None:
        self._links.end_of_input(connection)

    def on_lost(self, connection: Connection) -> None:
        self._turn_away(connection)
        if self._all_gone is not None and not self._all_gone.done() and not self.crowd:
            self._all_gone.set_result(None)

    def _let_in(self, connection: Connection) -> None:
        connection.cancel_timer()
        del self._at_the_door[connection]
        if not self._links.adopt(connection):
            connection.shut()

    def _turn_away(self, connection: Connection) -> None:
        self._at_the_door.pop(connection, None)
        self._links.release(connection)

    # -- the end ---------------------------------------------------------------------------------

    @property
    def crowd(self) -> int:
        """Connections of any kind."""
        return len(self._at_the_door) + self._links.open_connections

    async def close(self) -> None:
        """Write what is queued, close everything, wait for it; not for longer than is allowed."""
        await self._links.call_off_dials()
        self._links.close_all()
        for connection in list(self._at_the_door):
            connection.transport.abort()
        if self.crowd:
            self._all_gone = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._all_gone], timeout=self._limits.stop_timeout_ns / 1e9)
        self.abort()

    def abort(self) -> None:
        """Close everything at once."""
        self._links.abort_all()
        for connection in list(self._at_the_door):
            self._turn_away(connection)


def _supersedes(newcomer: Connection, current: Connection | None) -> bool:
    """Whether a connection replaces the one in use.

    A restarted peer, or one that opens a second connection although it opened the first, has lost
    the one we hold. In any other case the two crossed on the way.
    """
    if current is None or newcomer.remote.incarnation > current.remote.incarnation:
        return True
    return not current.dialed and not newcomer.dialed
