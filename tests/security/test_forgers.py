"""A reader that makes up what only proxies and agents may say, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

import pytest

import epicast
from epicast.core import (
    Config,
    Effects,
    EventBatch,
    Message,
    NodeId,
    Peer,
    Protocol,
    Recovered,
)
from epicast.geo.agent import AgentService
from epicast.geo.proxy import ProxyService
from epicast.geo.status import StatusUnknown, ask_any_status
from epicast.protocols.reinforcement.messages import ViewExchange
from epicast.protocols.sprinkler.messages import Attach, Counter, Notify
from epicast.runtime import NodeDriver
from epicast.runtime.gate import NeighbourGate, Security
from epicast.runtime.tls import Tls, TlsFiles, dialing_context
from tests.geo.support import eventually_true
from tests.security.support import GEOPLEX, Secured

PATIENCE_S = 30.0
FORGER = 4242


class Says(Protocol[Config]):
    """Says what it was given to whom it was given, again and again."""

    def __init__(self, node: Peer, messages: Sequence[Message]) -> None:
        super().__init__(node, Config(), Random(1))
        self.messages = messages
        self.said = 0

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        fx.connect(contacts[0])

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        for message in self.messages:
            fx.send(peer, message)
        self.said += 1

    def neighbors(self) -> list[NodeId]:
        return []


@asynccontextmanager
async def saying(
    to: Peer, messages: Sequence[Message], security: Security | None, *, listens: bool = False
) -> AsyncIterator[None]:
    driver = NodeDriver(FORGER, cluster=GEOPLEX, listens=listens, security=security)
    says = Says(await driver.listen(), messages)
    await driver.start(says, [to])
    try:

        async def has_said() -> bool:
            return says.said > 0

        await eventually_true(has_said)
        await asyncio.sleep(0.3)
        yield
    finally:
        await driver.stop()


def forged(service: ProxyService, secured: Secured) -> list[Message]:
    """The next event of a stream that everybody may read, and an address to be dialled."""
    assert service.protocol is not None
    stream = secured.geoplex.streams["prices"].id
    at, _ = service.protocol.progress()["prices"]
    event = EventBatch.build(stream, at.seq + 1, [b"forged"], epoch=at.epoch)
    view = ViewExchange(Peer(FORGER, "127.0.0.1", 9), (Peer(FORGER + 1, "127.0.0.1", 9),), True)
    counter = Counter(stream, at.epoch, at.seq + 1)
    return [view, Notify((counter,), (event,))]


@pytest.mark.parametrize("attaches", [True, False])
@pytest.mark.parametrize("encrypted", [True, False])
def test_a_reader_numbers_no_events_and_is_nobodys_neighbour(
    secured: Secured, encrypted: bool, attaches: bool
) -> None:
    secured.authority.issue("agent", GEOPLEX, "sidecar", hosts=["127.0.0.1"], stem="agent-us")
    if not encrypted:
        secured.file.write_text(secured.file.read_text().split("[security]")[0])

    async def main() -> None:
        geoplex = secured.geoplex
        services = {name: ProxyService(geoplex, name) for name in ("us", "eu")}
        for service in services.values():
            await service.start()
        sidecar = AgentService(geoplex, "us")
        await sidecar.start()
        security = None
        options = {}
        if encrypted:
            files = TlsFiles(str(secured.certificates / "ca.pem"))
            tls = Tls(dialing_context(files, by_host=True))
            known = {s.driver.node.id: "region:us" for s in services.values()}
            gate = NeighbourGate(GEOPLEX, {**known, sidecar.driver.node.id: "agent:sidecar"})
            security = Security(tls, gate, secured.tokens["reader"])
            options = {"token": secured.tokens["shop"], "tls": secured.ca}
        scheme = "epicasts" if encrypted else "epicast"
        try:
            async with epicast.connect(
                f"{scheme}://{sidecar.address}",
                agent=False,
                **options,  # type: ignore[arg-type]
            ) as node:
                prices = node.stream("prices").subscribe(after=0)

                assert await node.stream("prices").publish(b"first") == 1
                event = await prices.get(PATIENCE_S)
                assert event is not None and event.payload == b"first"  # type: ignore[union-attr]
                messages = forged(services["eu"], secured)
                if attaches:
                    messages.insert(0, Attach(Peer(FORGER), True))
                us = services["us"]
                assert sidecar.protocol is not None and us.protocol is not None
                for service in (sidecar, us):
                    async with saying(service.driver.node, messages, security):
                        assert FORGER not in service.protocol.neighbors()  # type: ignore[union-attr]
                        assert FORGER + 1 not in service.protocol.neighbors()  # type: ignore[union-attr]
                assert await node.stream("prices").publish(b"second") == 2
                event = await prices.get(PATIENCE_S)
                assert event is not None and event.payload == b"second"  # type: ignore[union-attr]
                counts = sidecar.driver.statistics()
                assert counts["drop.Notify from a peer that may not send it"] == 1
        finally:
            await sidecar.stop()
            for service in services.values():
                await service.stop()

    epicast.run(main())


def test_the_status_of_a_sidecar_is_for_operators(secured: Secured) -> None:
    secured.authority.issue("agent", GEOPLEX, "sidecar", hosts=["127.0.0.1"], stem="agent-us")

    async def main() -> None:
        geoplex = secured.geoplex
        sidecar = AgentService(geoplex, "us")
        await sidecar.start()
        files = TlsFiles(str(secured.certificates / "ca.pem"))
        tls = Tls(dialing_context(files, by_host=True))
        try:
            token = secured.tokens["operator"]
            status = await ask_any_status(*sidecar.address, tls=tls, token=token)
            assert status.region == "us"
            with pytest.raises(StatusUnknown, match="'reader' may not act as an administrator"):
                await ask_any_status(*sidecar.address, tls=tls, token=secured.tokens["reader"])
        finally:
            await sidecar.stop()

    epicast.run(main())
