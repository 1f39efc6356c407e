"""How a running proxy or sidecar is: what it says about itself, and how to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Literal

import msgspec
from msgspec import Struct

from epicast.core import (
    Config,
    Effects,
    EpicastError,
    NodeId,
    Peer,
    Protocol,
    Recovered,
    handles,
)
from epicast.geo.alarms import AlarmStatus
from epicast.geo.asking import first_notice
from epicast.protocols.sprinkler.messages import StatusReply, StatusRequest
from epicast.runtime.messages import Declined
from epicast.runtime.tls import Tls


class StatusUnknown(EpicastError):
    """Nobody there, or nobody who has a status."""


class StreamStatus(Struct, frozen=True, kw_only=True):
    name: str
    owner: str
    """The region that numbers its events."""
    ack: str
    description: str
    epoch: int
    head: int
    """Everything up to here is stored in this region."""
    source: str
    """The region it comes from at the moment: this one if owned, empty if none."""
    term: int = 0
    """How often it was moved, as far as is known here."""
    furthest: tuple[int, int] = (0, 0)
    """Epoch and number up to which anybody has said to have it, as far as was heard here."""
    start: int
    """The oldest number there is."""
    live_events: int
    collected_events: int
    stored_events: int
    live_bytes: int
    stored_bytes: int
    segments: int

    @property
    def gc_saving(self) -> float:
        """The share of all events that need not be kept."""
        total = self.live_events + self.collected_events
        return self.collected_events / total if total else 0.0


class ProxyStatus(Struct, frozen=True, kw_only=True):
    geoplex: str
    region: str
    node: NodeId
    version: str
    pid: int
    uptime_s: float
    resident_bytes: int
    regions: Mapping[str, str]
    """Where each region's proxy, or each replica of it, is, as this one reaches it."""
    streams: Sequence[StreamStatus]
    subscriptions: int
    attached: int
    """Agents and clients."""
    proxies: int
    """Other proxies it is connected to."""
    protocol: Mapping[str, int | float]
    driver: Mapping[str, int]
    alarms: Sequence[AlarmStatus] = ()
    """What somebody should look at."""
    role: Literal["proxy"] = "proxy"


class FollowedStream(Struct, frozen=True, kw_only=True):
    """A stream as a sidecar has it."""

    name: str
    epoch: int
    head: int


class AgentStatus(Struct, frozen=True, kw_only=True):
    geoplex: str
    region: str
    node: NodeId
    version: str
    pid: int
    uptime_s: float
    resident_bytes: int
    address: str
    proxy: str
    """Where its region's proxy is."""
    attached: bool
    """Whether it is connected to that."""
    clients: int
    streams: Sequence[FollowedStream]
    protocol: Mapping[str, int | float]
    driver: Mapping[str, int]
    alarms: Sequence[AlarmStatus] = ()
    role: Literal["agent"] = "agent"


class _Role(Struct):
    role: str = "proxy"


def encode_status(status: ProxyStatus | AgentStatus) -> bytes:
    return msgspec.json.encode(status)


def decode_status(document: bytes) -> ProxyStatus | AgentStatus:
    if msgspec.json.decode(document, type=_Role).role == "agent":
        return msgspec.json.decode(document, type=AgentStatus)
    return msgspec.json.decode(document, type=ProxyStatus)


async def ask_status(
    host: str, port: int, timeout: float = 5.0, *, tls: Tls | None = None, token: str = ""
) -> ProxyStatus:
    """Ask the proxy at an address; `StatusUnknown` if there is none, or no answer."""
    status = await ask_any_status(host, port, timeout, tls=tls, token=token)
    if isinstance(status, AgentStatus):
        raise StatusUnknown(f"{host}:{port} is an agent; its region's proxy is at {status.proxy}")
    return status


async def ask_any_status(
    host: str, port: int, timeout: float = 5.0, *, tls: Tls | None = None, token: str = ""
) -> ProxyStatus | AgentStatus:
    """Ask the proxy or sidecar at an address; `StatusUnknown` if there is none, or no answer."""
    reply = await first_notice(host, port, timeout, _ask, tls=tls, token=token)
    if isinstance(reply, Declined):
        reply = StatusReply(b"", reply.reason)
    if reply is not None and reply.refusal:
        raise StatusUnknown(f"{host}:{port} does not say how it is: {reply.refusal}")
    if reply is None or not reply.document:
        raise StatusUnknown(
            f"{host}:{port} does not say how it is: ask a proxy, such as those `epicast up` names"
        )
    return decode_status(reply.document)


def _ask(node: Peer) -> _Question:
    return _Question(node, Config(), Random(0))


class _Question(Protocol[Config]):
    """Asks once, and hands the answer to the application. A failure is an empty answer."""

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        fx.connect(contacts[0])

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        fx.send(peer, StatusRequest())

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        fx.notice(0, StatusReply(b""))

    @handles(StatusReply)
    def _handle_reply(self, now: int, source: NodeId, message: StatusReply, fx: Effects) -> None:
        fx.notice(0, message)
