"""A region's agent as a service: the sidecar that the plain clients of a machine attach to."""

from __future__ import annotations

import logging
import secrets
from random import Random
from typing import Any

from msgspec.structs import replace

from epicast.core import MAX_NODE_ID, Peer
from epicast.deployment import Address, Geoplex
from epicast.geo.plans import limits_of
from epicast.geo.warming import warm_up
from epicast.log import policy_of
from epicast.log.recent import FilteredBuffer
from epicast.protocols.sprinkler import (
    AgentConfig,
    Attached,
    Detached,
    EventBuffer,
    Sidecar,
    StreamInfo,
)
from epicast.runtime import NodeDriver
from epicast.runtime.waiting import in_thread

log = logging.getLogger("epicast.geo")


class AgentService:
    """`start`, then `stop` in the end. One use only. A proxy that is gone is looked for again."""

    def __init__(
        self, geoplex: Geoplex, region: str, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        """Listens on `host`, where clients and neighbours must reach it, and `port` (0: any)."""
        self._region = geoplex.region(region)
        self._config = replace(geoplex.section("agents", AgentConfig), follow_all=True)
        self.driver = NodeDriver(
            1 + secrets.randbelow(MAX_NODE_ID - 1),
            host,
            port,
            limits=limits_of(geoplex.budget.agent),
            cluster=geoplex.name,
            seed=secrets.randbits(63),
            on_notice=self._on_notice,
        )
        self.protocol: Sidecar | None = None
        self._was_attached = False

    @property
    def address(self) -> Address:
        """Where it listens; once started, with the port that was free."""
        return Address(self.driver.node.host, self.driver.node.port)

    async def start(self) -> Peer:
        """Returns once it listens; clients are served as soon as the proxy is found."""
        await in_thread(warm_up)
        node = await self.driver.listen()
        rng = Random(secrets.randbits(64))
        self.protocol = Sidecar(node, self._config, rng, make_buffer=self._make_buffer)
        await self.driver.start(self.protocol, [self._region.peer])
        return node

    async def wait(self) -> None:
        """Until it has stopped; raises what made it fail."""
        await self.driver.wait()

    async def stop(self) -> None:
        await self.driver.stop()

    def _make_buffer(self, info: StreamInfo) -> EventBuffer:
        return FilteredBuffer(info.id, self._config.buffer_bytes, policy_of(info))

    def _on_notice(self, _: int, notice: Any) -> None:
        where = f"the proxy of {self._region.name!r} at {self._region.address}"
        if isinstance(notice, Attached):
            self._was_attached = True
            log.info("attached to %s", where)
        elif isinstance(notice, Detached):
            once_more = "lost" if self._was_attached else "cannot reach"
            log.warning("%s %s (%s); trying again", once_more, where, notice.reason)
