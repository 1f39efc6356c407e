"""How a running proxy is: what it says about itself, and how to ask."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from random import Random

import msgspec
from msgspec import Struct

from epicast.core import (
    MAX_NODE_ID,
    Config,
    Effects,
    EpicastError,
    NodeId,
    Peer,
    Protocol,
    Recovered,
    handles,
)
from epicast.protocols.sprinkler.messages import StatusReply, StatusRequest
from epicast.runtime import NodeDriver, identify
from epicast.runtime.waiting import Bell


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
    """Where each region's proxy is, as this one reaches it."""
    streams: Sequence[StreamStatus]
    subscriptions: int
    attached: int
    """Agents and clients."""
    proxies: int
    """Other proxies it is connected to."""
    protocol: Mapping[str, int | float]
    driver: Mapping[str, int]


def encode_status(status: ProxyStatus) -> bytes:
    return msgspec.json.encode(status)


async def ask_status(host: str, port: int, timeout: float = 5.0) -> ProxyStatus:
    """Ask the proxy at an address; `StatusUnknown` if there is none, or no answer."""
    hello = await identify(host, port, timeout)
    rung = Bell()
    answers: list[bytes] = []

    def answered(_: int, reply: StatusReply) -> None:
        answers.append(reply.document)
        rung.ring()

    driver = NodeDriver(
        1 + secrets.randbelow(MAX_NODE_ID - 1), cluster=hello.cluster, listens=False,
        on_notice=answered,
    )  # fmt: skip
    try:
        node = await driver.listen()
        question = _Question(node, Config(), Random(0))
        await driver.start(question, [Peer(hello.node.id, host, port)])
        if not answers:
            await rung.wait(timeout)
    finally:
        await driver.stop()
    if not answers or not answers[0]:
        raise StatusUnknown(
            f"{host}:{port} does not say how it is: ask a proxy, such as those `epicast up` names"
        )
    return msgspec.json.decode(answers[0], type=ProxyStatus)


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
