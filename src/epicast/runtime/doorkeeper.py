"""How two nodes come to agree on one connection.

The node with the lower id decides. It says `Accepted` on the connection it takes and closes others;
the other node sends nothing before it hears that. Two connections opened at the same time, one from
each side, therefore end as one, and neither protocol notices.

Every connection stands at the door until it is agreed on, for a bounded time. Where there is a
gate, it is asked who the peer is before anything is remembered of it; who is not let in is told
why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from msgspec.structs import replace

from epicast.core import AnyMessage, NodeId, Peer, WireError
from epicast.deployment.access import Verdict
from epicast.runtime.addresses import AddressBook
from epicast.runtime.complaints import Complaints
from epicast.runtime.connection import Connection
from epicast.runtime.crowd import Crowd
from epicast.runtime.gate import Security
from epicast.runtime.limits import Limits
from epicast.runtime.links import LinkTable
from epicast.runtime.messages import Accepted, DeclineCode, Declined
from epicast.runtime.meter import Meter
from epicast.runtime.recorder import Recorder
from epicast.runtime.secure_connection import SCRATCH_BYTES, SecureConnection
from epicast.wire import FrameEncoder, Handshake, Hello

log = logging.getLogger("epicast.runtime")
_ANYWHERE = ("", "0.0.0.0", "::")

OnDeclined = Callable[[NodeId, Declined], None]
"""A peer that was dialled does not let this node in."""
OnReplaced = Callable[[NodeId, Peer], None]
"""At the address of a peer, another node answers: the id of the former, and the latter there."""


class Doorkeeper:
    """Hears of everything that happens on connections: implements `connection.Owner`."""

    def __init__(
        self,
        hello: Hello,
        limits: Limits,
        book: AddressBook,
        links: LinkTable,
        recorder: Recorder,
        security: Security | None = None,
        trusted: Collection[NodeId] = (),
        on_declined: OnDeclined | None = None,
        on_replaced: OnReplaced | None = None,
    ) -> None:
        """`trusted`: nodes whose rate is not limited, where there is no gate to say so."""
        self._hello = hello
        self._dialing_hello = replace(hello, token=security.token) if security else hello
        self._security = security
        self._trusted = trusted
        self._on_declined = on_declined
        self._on_replaced = on_replaced
        self._sought_by_address: set[NodeId] = set()
        self._crowd = Crowd(limits)
        self._scratch = memoryview(bytearray(SCRATCH_BYTES if security else 0))
        self._leaving: dict[Connection, None] = {}
        """Those who were told why they are not let in, until they are gone."""
        self._complaints = Complaints(log)
        self._encoder = FrameEncoder()
        self._limits = limits
        self._book = book
        self._links = links
        self._recorder = recorder
        self._at_the_door: dict[Connection, None] = {}
        self._accepted = self._encoder.encode(Accepted())
        self._all_gone: asyncio.Future[None] | None = None
        self._unknown_types: set[int] = set()
        """Of messages that were passed over: each is worth one line."""
        links.make_connection = self.dial

    def accept(self) -> Connection:
        """For a peer that knocks."""
        return self._connection(Handshake(self._hello), None)

    def seek_by_address(self, peer: NodeId) -> None:
        """Accept any node at the address of this peer, if `on_replaced` was given."""
        if self._on_replaced is not None:
            self._sought_by_address.add(peer)

    def dial(self, peer: NodeId) -> Connection:
        """For knocking at a peer's door."""
        entry = self._book.get(peer)
        if entry is not None and peer in self._sought_by_address:
            connection = self._connection(Handshake(self._dialing_hello), entry.peer.host)
            connection.sought = entry.peer
            return connection
        host = entry.peer.host if entry is not None else ""
        return self._connection(Handshake(self._dialing_hello, expected=peer), host)

    def _connection(self, handshake: Handshake, host: str | None) -> Connection:
        if self._security is None:
            return Connection(self, self._limits, handshake, dialed=host is not None)
        tls = self._security.tls
        context = tls.accepting if host is None else tls.dialing
        assert context is not None, "a node that listens has a certificate"
        name = None if host is None else tls.server_name or host
        return SecureConnection(
            self, self._limits, handshake, context=context, server_name=name, scratch=self._scratch
        )

    # -- what connections report -----------------------------------------------------------------

    def on_open(self, connection: Connection) -> None:
        if self._links.stopping:
            connection.transport.abort()
            return
        if not connection.dialed:
            host, peers = connection.peer_host, len(self._links.links)
            objection = self._crowd.objection(host, peers, len(self._at_the_door))
            connection.counted_host = host
            self._crowd.enter(host)
            if objection:
                self._recorder.drop("too many connections")
                text = "node %d has no room for a connection from %s: %s"
                self._complain(text, self._hello.node.id, host, objection)
                self._decline(connection, DeclineCode.BUSY, f"{objection}: try again later")
                return
        self._at_the_door[connection] = None
        connection.abort_after(self._limits.connect_timeout_ns)

    def on_introduced(self, connection: Connection) -> None:
        if connection not in self._at_the_door:
            return
        refusal = self._examine(connection)
        if refusal is not None:
            self._recorder.drop("declined", connection.remote.node.id)
            who, where = connection.remote.node, connection.peer_host
            text = "node %d does not let in node %s at %s: %s"
            self._complain(text, self._hello.node.id, who, where, refusal.reason)
            self._decline(connection, refusal.code, refusal.reason)
            return
        hello = connection.remote
        node = hello.node
        if node.host in _ANYWHERE:
            node = Peer(node.id, connection.peer_host, node.port)
        entry = self._book.learn(node)
        if entry is not None and connection.identity is not None:
            entry.identity, entry.is_agent = connection.identity, connection.is_agent
        link = self._links.links.get(node.id)
        if entry is None or hello.incarnation < entry.incarnation:
            self._recorder.drop("earlier incarnation", node.id)
            self._turn_away(connection)
        elif connection.replaces is not None and link is not None and link.connection is not None:
            self._turn_away(connection)  # there is one with that node already
            self._report_replaced(connection)
        elif self._hello.node.id > node.id:
            pass  # the peer decides
        elif link is not None and not _supersedes(connection, link.connection):
            self._turn_away(connection)
        else:
            connection.write(list(self._accepted))
            self._let_in(connection)

    def _examine(self, connection: Connection) -> Declined | None:
        """What stands against a peer that has introduced itself."""
        node, token = connection.remote.node.id, connection.take_token()
        verdict = Verdict(trusted=node in self._trusted)
        if self._security is not None:
            verdict = self._security.gate.examine(node, token, connection.certificate)
            if verdict.refusal:
                return Declined(DeclineCode.IDENTITY, verdict.refusal)
            entry = self._book.get(node)
            if entry is not None and entry.identity not in (None, verdict.identity):
                reason = f"the id {node} is that of somebody else: connect with an id of your own"
                return Declined(DeclineCode.IDENTITY, reason)
            if not verdict.trusted and connection.replaces is not None:
                reason = f"node {connection.replaces.id} was sought, and you are somebody else"
                return Declined(DeclineCode.IDENTITY, reason)
            if not verdict.trusted and not connection.dialed:
                objection = self._crowd.objection_to(verdict.identity)
                if objection:
                    return Declined(DeclineCode.BUSY, f"{objection}: try again later")
                self._crowd.admit(verdict.identity)
                connection.counted_identity = verdict.identity
            connection.identity, connection.is_agent = verdict.identity, verdict.is_agent
        if not verdict.trusted:
            connection.meter = Meter.wanted(self._limits, self._recorder.clock())
        return None

    def _decline(self, connection: Connection, code: DeclineCode, reason: str) -> None:
        """Say why, and close. Who is not encrypted yet hears nothing: the log knows."""
        self._at_the_door.pop(connection, None)
        self._leaving[connection] = None
        connection.write(self._encoder.encode(Declined(code, reason)))
        connection.close_politely(self._limits.connect_timeout_ns)

    def _handle_declined(self, connection: Connection, message: Declined) -> None:
        peer = connection.remote.node
        connection.declined = message
        self._recorder.drop("declined by the peer", peer.id)
        self._turn_away(connection)
        # A node that answers in place of a peer is not heard before it has proved that it may.
        is_heard = connection.replaces is None or connection.identity is not None
        if connection.dialed and is_heard and self._on_declined is not None:
            self._on_declined(peer.id, message)
        else:
            text = "node %d is not let in by %s: %s"
            self._complain(text, self._hello.node.id, peer, message.reason)

    def _complain(self, text: str, *arguments: object) -> None:
        self._complaints.warn(self._recorder.clock(), text, *arguments)

    def on_frames(self, connection: Connection, messages: list[AnyMessage], size: int) -> None:
        if type(messages[0]) is Declined:
            self._handle_declined(connection, messages[0])
            return
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

    def on_unknown(self, connection: Connection, type_ids: list[int]) -> None:
        if connection in self._at_the_door:
            error = WireError("malformed", "frames on a connection that is not agreed on")
            self.on_wire_error(connection, error)
            return
        for type_id in type_ids:
            self._recorder.wire_error("unknown_type")
            if type_id not in self._unknown_types:
                self._unknown_types.add(type_id)
                self._complain(
                    "node %d passes over messages of type %d from %s, which speaks revision %d; "
                    "this node speaks %d: upgrade it",
                    self._hello.node.id, type_id, connection.remote.node,
                    connection.remote.revision, self._hello.revision,
                )  # fmt: skip

    def on_not_encrypted(self, connection: Connection, reason: str) -> None:
        self._recorder.drop("not encrypted")
        text = "node %d has no encrypted connection with %s: %s"
        self._complain(text, self._hello.node.id, connection.peer_host, reason)
        self._at_the_door.pop(connection, None)
        self._leaving[connection] = None
        connection.close_politely(self._limits.connect_timeout_ns)

    def on_wire_error(self, connection: Connection, error: WireError) -> None:
        self._recorder.wire_error(error.reason)
        peer = connection.remote.node if connection.introduced else connection.peer_host
        text = "node %d closes the connection with %s: %s"
        self._complain(text, self._hello.node.id, peer, error)
        self._turn_away(connection)

    def on_writable(self, connection: Connection) -> None:
        link = connection.link
        if link is not None and link.connection is connection:
            self._links.flush_link(link)

    def on_eof(self, connection: Connection) -> None:
        self._links.end_of_input(connection)

    def on_lost(self, connection: Connection) -> None:
        self._leaving.pop(connection, None)
        self._turn_away(connection)
        if connection.counted_host is not None:
            self._crowd.leave(connection.counted_host)
        if connection.counted_identity is not None:
            self._crowd.dismiss(connection.counted_identity)
        self._tell_if_all_gone()

    def _tell_if_all_gone(self) -> None:
        if self._all_gone is not None and not self._all_gone.done() and not self.crowd:
            self._all_gone.set_result(None)

    def _let_in(self, connection: Connection) -> None:
        connection.cancel_timer()
        del self._at_the_door[connection]
        if not self._links.adopt(connection):
            connection.shut()
        elif connection.replaces is not None:
            self._report_replaced(connection)

    def _report_replaced(self, connection: Connection) -> None:
        former = connection.replaces
        assert former is not None and self._on_replaced is not None
        found = Peer(connection.remote.node.id, former.host, former.port)
        self._links.end_search(former.id, succeeded=connection.link is not None)
        self._sought_by_address.discard(former.id)
        self._sought_by_address.add(found.id)
        self._on_replaced(former.id, found)

    def _turn_away(self, connection: Connection) -> None:
        self._at_the_door.pop(connection, None)
        self._links.release(connection)

    # -- the end ---------------------------------------------------------------------------------

    @property
    def crowd(self) -> int:
        """Connections of any kind."""
        waiting = len(self._at_the_door) + len(self._leaving)
        return waiting + self._links.open_connections

    async def close(self) -> None:
        """Write what is queued, close everything, wait for it; not for longer than is allowed."""
        await self._links.call_off_dials()
        self._links.close_all()
        for connection in [*self._at_the_door, *self._leaving]:
            connection.transport.abort()
        if self.crowd:
            self._all_gone = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._all_gone], timeout=self._limits.stop_timeout_ns / 1e9)
        self.abort()

    def abort(self) -> None:
        """Close everything at once."""
        self._links.abort_all()
        for connection in [*self._at_the_door, *self._leaving]:
            self._turn_away(connection)


def _supersedes(newcomer: Connection, current: Connection | None) -> bool:
    """Whether a connection replaces the one in use.

    A restarted peer, or one that opens a second connection although it opened the first, has lost
    the one we hold. In any other case the two crossed on the way.
    """
    if current is None or newcomer.remote.incarnation > current.remote.incarnation:
        return True
    return not current.dialed and not newcomer.dialed
