"""A region's agent as a service: the sidecar that the plain clients of a machine attach to."""

from __future__ import annotations

import logging
import os
import secrets
import time
from importlib.metadata import version
from random import Random
from typing import Any

from msgspec.structs import replace

from epicast.core import MAX_NODE_ID, Peer
from epicast.deployment import Address, Geoplex
from epicast.geo.alarms import described
from epicast.geo.memory import resident_bytes
from epicast.geo.plans import limits_of
from epicast.geo.security import Permission, agent_files, node_security
from epicast.geo.status import AgentStatus, FollowedStream, encode_status
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
from epicast.protocols.sprinkler.permits import permit_all
from epicast.runtime import NodeDriver
from epicast.runtime.tls import TlsFiles
from epicast.runtime.waiting import in_thread

log = logging.getLogger("epicast.geo")


class AgentService:
    """`start`, then `stop` in the end. One use only. A proxy that is gone is looked for again."""

    def __init__(
        self,
        geoplex: Geoplex,
        region: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        files: TlsFiles | None = None,
    ) -> None:
        """Listens on `host`, where clients and neighbours must reach it, and `port` (0: any).

        With security, `files` are used instead of those the geoplex names.
        """
        self._geoplex = geoplex
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
            security=node_security(geoplex, files or agent_files(geoplex, region)),
            trusted=[self._region.id],
        )
        self.protocol: Sidecar | None = None
        self._was_attached = False
        self._started_at = time.monotonic()

    @property
    def address(self) -> Address:
        """Where it listens; once started, with the port that was free."""
        return Address(self.driver.node.host, self.driver.node.port)

    async def start(self) -> Peer:
        """Returns once it listens; clients are served as soon as the proxy is found."""
        await in_thread(warm_up)
        node = await self.driver.listen()
        rng = Random(secrets.randbits(64))
        access = self._geoplex.access()
        self.protocol = Sidecar(
            node,
            self._config,
            rng,
            make_buffer=self._make_buffer,
            permit=permit_all if access is None else Permission(access, self.driver),
            is_agent=self.driver.is_agent,
            status=lambda: encode_status(self.status()),
        )
        await self.driver.start(self.protocol, [each.peer for each in self._region.replicas])
        return node

    async def wait(self) -> None:
        """Until it has stopped; raises what made it fail."""
        await self.driver.wait()

    async def stop(self) -> None:
        await self.driver.stop()

    def status(self) -> AgentStatus:
        assert self.protocol is not None, "start comes first"
        counts = dict(self.protocol.statistics())
        names = {stream.id: name for name, stream in self._geoplex.streams.items()}
        now = time.monotonic_ns()
        return AgentStatus(
            geoplex=self._geoplex.name,
            region=self._region.name,
            node=self.driver.node.id,
            version=version("epicast"),
            pid=os.getpid(),
            uptime_s=round(time.monotonic() - self._started_at, 3),
            resident_bytes=resident_bytes(),
            address=str(self.address),
            proxy=str(self._region.address),
            attached=bool(counts.pop("attached")),
            clients=self.protocol.clients,
            streams=[
                FollowedStream(name=name, epoch=at.epoch, head=at.seq)
                for name, at in sorted(self.protocol.progress().items())
            ],
            protocol=counts,
            driver=self.driver.statistics(),
            alarms=described(self.protocol.alarms(now), now, lambda _: "", names),
        )

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
