"""A node on the network: the life of one protocol between `listen` and `stop`.

A protocol or application callback that raises has broken an invariant that nobody can repair from
outside: the driver drops its connections at once, and `wait`, `publish` and `stop` raise.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any

from epicast.core import (
    AnyMessage,
    EventBatch,
    NodeId,
    Peer,
    Protocol,
    Publication,
    Recovered,
    Trace,
    TraceKind,
)
from epicast.core.host import publish_room
from epicast.core.sampling import derive_seed
from epicast.runtime.addresses import AddressBook
from epicast.runtime.commits import Commits
from epicast.runtime.datagrams import DatagramPort
from epicast.runtime.doorkeeper import Doorkeeper, OnDeclined
from epicast.runtime.engine import Engine, OnDelivery, OnTopicDelivery
from epicast.runtime.errors import DriverError, NoRoom
from epicast.runtime.gate import Security
from epicast.runtime.inbox import Inbox
from epicast.runtime.limits import Limits
from epicast.runtime.links import LinkTable
from epicast.runtime.operations import OnAcknowledge, OnNotice, OnRefuse
from epicast.runtime.outbound import Outbound, Service
from epicast.runtime.publishers import Publishers
from epicast.runtime.recorder import Recorder
from epicast.runtime.send_budget import SendBudget
from epicast.runtime.storage import Storage
from epicast.wire import WIRE_REVISION, Hello

log = logging.getLogger("epicast.runtime")

_PORT_ATTEMPTS = 50


class NodeDriver:
    """`listen`, `start`, then `publish` at will, `stop` in the end. One use only."""

    def __init__(
        self,
        node_id: NodeId,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        limits: Limits | None = None,
        trace: Trace | None = None,
        storage: Storage | None = None,
        cluster: str = "epicast",
        seed: int = 0,
        on_delivery: OnDelivery | None = None,
        on_topic_delivery: OnTopicDelivery | None = None,
        on_acknowledge: OnAcknowledge | None = None,
        on_refuse: OnRefuse | None = None,
        on_notice: OnNotice | None = None,
        on_declined: OnDeclined | None = None,
        listens: bool = True,
        services: Mapping[NodeId, Service] | None = None,
        security: Security | None = None,
        trusted: Collection[NodeId] = (),
    ) -> None:
        """A node that does not listen has no address: it connects to others, nobody to it.

        `services` are peers inside this process: what is sent to them is handed to them, and what
        they say comes through `hear`. `seed` is of the jitter between attempts to connect. Without
        `storage` there is nothing to append to, and the incarnation is the wall-clock time of the
        start. `security` encrypts all connections and decides who is let in; datagrams are not used
        then. `trusted` are nodes whose rate is not limited, where security does not decide.
        """
        self.node = Peer(node_id, host, port) if listens else Peer(node_id)
        self._listens = listens
        self.limits = limits or Limits()
        self._cluster = cluster
        self._services = services or {}
        self._seed = seed
        self._storage = storage
        self._security = security
        self._trusted = trusted
        self._on_declined = on_declined
        self._callbacks = (on_delivery, on_topic_delivery, on_acknowledge, on_refuse, on_notice)
        self._recorder = Recorder(node_id, trace)
        self._book = AddressBook(self.limits.max_addresses)
        self._inbox = Inbox()
        self._publishers = Publishers(self.limits.max_waiting_publishers)
        budget = SendBudget(self.limits, self._recorder.clock)
        self._datagrams = DatagramPort(
            self.limits, self._book, self._inbox, self._recorder, self._wake, budget,
            usable=security is None,
        )  # fmt: skip
        self._links = LinkTable(
            node_id, self.limits, self._book, self._inbox, self._recorder,
            Random(derive_seed(seed, "driver", node_id)), self._wake, budget,
        )  # fmt: skip
        self._commits = Commits(storage, self.limits, self._recorder, self._wake, self._fail)
        self._recovered = Recovered()
        self._doorkeeper: Doorkeeper | None = None
        self._engine: Engine | None = None
        self._protocol: Protocol[Any] | None = None
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = False
        self._scheduled = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._ended: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._error_was_raised = False

    # -- life ------------------------------------------------------------------------------------

    async def listen(self) -> Peer:
        """Bind TCP and UDP to one port number; returns who this node is from now on."""
        if self._ended is not None:
            raise DriverError("a driver listens only once: make a new one for each start")
        if self._listens and self._security is not None and self._security.tls.accepting is None:
            raise DriverError("a node that listens needs a certificate to be known by")
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        if self._storage is not None:
            try:
                self._recovered = await self._storage.recover()
            except BaseException:
                self._end()  # or `stop` would wait for something that never began
                raise
        else:
            self._recovered = Recovered(time.time_ns())
        if self._listens:
            self._server, port = await self._bind()
            self.node = Peer(self.node.id, self.node.host, port)
        hello = Hello(self.node, self._recovered.incarnation, self._cluster, WIRE_REVISION)
        self._datagrams.introduce(hello)
        self._doorkeeper = Doorkeeper(
            hello, self.limits, self._book, self._links, self._recorder, self._security,
            self._trusted, self._on_declined,
        )  # fmt: skip
        return self.node

    async def _bind(self) -> tuple[asyncio.Server, int]:
        """One number for both; if the system chose one that UDP has taken, another."""
        loop = asyncio.get_running_loop()
        host, wanted = self.node.host, self.node.port
        problem: OSError | None = None
        for _ in range(1 if wanted else _PORT_ATTEMPTS):
            try:
                server = await loop.create_server(self._accept, host, wanted, start_serving=False)
            except OSError as error:
                problem = error
                continue
            listener = server.sockets[0]
            address, port = listener.getsockname()[:2]
            if not self._datagrams.usable:
                return server, port
            try:
                await self._datagrams.open(listener.family, address, port)
                return server, port
            except OSError as error:
                problem = error
                server.close()
                await server.wait_closed()
        self._end()
        raise DriverError(
            f"cannot listen on {host}:{wanted or 'any port'} with both TCP and UDP: {problem}"
        ) from problem

    def _accept(self) -> asyncio.BaseProtocol:
        assert self._doorkeeper is not None
        return self._doorkeeper.accept()

    async def start(self, protocol: Protocol[Any], contacts: Sequence[Peer] = ()) -> None:
        """Run a protocol, made for the peer that `listen` returned, and accept connections."""
        if self._doorkeeper is None or self._engine is not None or self._stopped:
            raise DriverError("start comes once, after listen and before stop")
        self._recorder.start()
        outbound = Outbound(
            self.limits, self._links, self._datagrams, self._recorder, self._services
        )
        self._engine = Engine(
            self._book, self._inbox, self._publishers, self._recorder, self._links,
            self._datagrams, outbound, self._commits, self._wake, *self._callbacks,
        )  # fmt: skip
        for contact in contacts:
            self._book.learn(contact)
        self._recorder.row(TraceKind.START)
        if self._server is not None:
            await self._server.start_serving()
            self._datagrams.receiving = True
        self._protocol = protocol
        self._watch_idle()
        try:
            self._engine.start(protocol, contacts, self._recovered)
        except Exception as error:
            self._fail(error)
            await self.stop()

    async def stop(self) -> None:
        """Let the protocol say goodbye, send what is queued, close everything."""
        if self._doorkeeper is None or self._stopped:
            if self._ended is not None:
                await asyncio.shield(self._ended)
            return
        self._stopped = True
        server, self._server = self._server, None
        if server is not None:
            await _close(server)
        protocol, self._protocol = self._protocol, None
        if protocol is not None and self._engine is not None:
            await self._say_goodbye(protocol, self._engine)
        self._cancel_timers()
        self._publishers.reject_all(DriverError("the driver was stopped"))
        try:
            await self._doorkeeper.close()
        finally:
            if server is not None:
                await self._datagrams.close()
                await server.wait_closed()
            self._recorder.row(TraceKind.STOP)
            self._end()
        self._raise_error()

    async def abort(self) -> None:
        """End at once and say goodbye to nobody, as a crash would: what waits is lost."""
        self._protocol = None
        self._inbox.clear()
        if self._doorkeeper is not None:
            self._doorkeeper.abort()
        await self.stop()

    async def wait(self) -> None:
        """Until the driver has stopped; raises what made it fail."""
        if self._ended is None:
            raise DriverError("the driver was not started")
        await asyncio.shield(self._ended)
        self._raise_error()

    async def _say_goodbye(self, protocol: Protocol[Any], engine: Engine) -> None:
        try:
            if self._error is None:
                engine.step(protocol)
                engine.stop(protocol)
            await self._commits.finish()
            if self._error is None:
                engine.finish_appends()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._error is not None:
            return
        log.error("node %d fails", self.node.id, exc_info=error)
        self._error = error
        self._recorder.row(TraceKind.CRASH)
        self._cancel_timers()
        self._inbox.clear()
        self._datagrams.receiving = False
        self._publishers.reject_all(DriverError(f"the node failed: {error!r}"))
        if self._doorkeeper is not None:
            self._doorkeeper.abort()
        self._end()

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _raise_error(self) -> None:
        if self._error is not None and not self._error_was_raised:
            self._error_was_raised = True
            raise self._error

    # -- publishing ------------------------------------------------------------------------------

    async def publish(
        self,
        batch: EventBatch,
        publisher: int | None = None,
        first: int | None = None,
        topic: int = 0,
        level: str = "",
    ) -> None:
        """Hand a batch to the protocol, waiting while it has no room."""
        waiting = self.submit(batch, publisher, first, topic, level)
        if waiting is not None:
            await waiting

    def submit(
        self,
        batch: EventBatch,
        publisher: int | None = None,
        first: int | None = None,
        topic: int = 0,
        level: str = "",
    ) -> asyncio.Future[None] | None:
        """The same for who must know at once that it is queued: nothing, or what to wait for."""
        protocol, publication = self._publication(batch, publisher, first, topic, level)
        if self._publishers.offer(publication, publish_room(protocol, topic)):
            self._wake()
            return None
        return self._publishers.wait(publication)

    def publish_nowait(
        self,
        batch: EventBatch,
        publisher: int | None = None,
        first: int | None = None,
        topic: int = 0,
        level: str = "",
    ) -> None:
        """The same, or `NoRoom`."""
        protocol, publication = self._publication(batch, publisher, first, topic, level)
        if not self._publishers.offer(publication, publish_room(protocol, topic)):
            raise NoRoom("the protocol takes no publications at the moment: await publish instead")
        self._wake()

    def _publication(
        self, batch: EventBatch, publisher: int | None, first: int | None, topic: int, level: str
    ) -> tuple[Protocol[Any], Publication]:
        if self._error is not None:
            raise DriverError(f"the node failed: {self._error!r}") from self._error
        if self._protocol is None:
            raise DriverError("the driver is not running: publish between start and stop")
        return self._protocol, Publication(
            self.node.id if publisher is None else publisher,
            batch.first if first is None else first,
            batch,
            topic,
            level,
        )

    # -- the loop --------------------------------------------------------------------------------

    def hear(self, source: NodeId, message: AnyMessage) -> None:
        """A service in this process says something; to be called in any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._take_in, source, message)

    def _take_in(self, source: NodeId, message: AnyMessage) -> None:
        if self._protocol is not None and self._error is None:
            self._inbox.add_messages(source, [message])
            self._wake()

    def wake(self) -> None:
        """Have a step run soon: the protocol was changed from outside, as by `Host.add`."""
        self._wake()

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        self._scheduled = False
        if self._protocol is None or self._engine is None or self._error is not None:
            return
        try:
            self._engine.step(self._protocol)
        except Exception as error:
            self._fail(error)

    def _watch_idle(self) -> None:
        self._links.close_idle()
        period = self.limits.idle_close_ns / 4e9
        self._idle_timer = asyncio.get_running_loop().call_later(period, self._watch_idle)

    def _cancel_timers(self) -> None:
        if self._engine is not None:
            self._engine.cancel_timer()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    # -- looking inside --------------------------------------------------------------------------

    def identity_of(self, peer: NodeId) -> str | None:
        """Who a peer has proved to be; None if it has not, or nobody asked."""
        entry = self._book.get(peer)
        return None if entry is None else entry.identity

    def is_agent(self, peer: NodeId) -> bool:
        """Return whether a peer is an agent. Its certificate says so; without security, any node
        that listens is one."""
        entry = self._book.get(peer)
        if entry is None:
            return False
        return bool(entry.peer.port) if self._security is None else entry.is_agent

    def statistics(self) -> dict[str, int]:
        """Counters since the start, and what is queued now."""
        links = self._links.links.values()
        return self._recorder.statistics() | {
            "connections": sum(link.connection is not None for link in links),
            "addresses": len(self._book),
            "queued_frames": sum(link.queued_frames for link in links),
            "queued_control_bytes": sum(link.control_bytes for link in links),
            "queued_data_bytes": sum(link.data_bytes for link in links),
            "waiting_publishers": self._publishers.waiting,
        }


async def _close(server: asyncio.Server) -> None:
    """Let nobody in any more.

    asyncio's own loops trip over a server that is closed while a connection it accepted is still
    being set up, so there it first stops listening and the connection gets its turn.
    """
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):
        for listener in server.sockets:
            loop.remove_reader(listener.fileno())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    server.close()
