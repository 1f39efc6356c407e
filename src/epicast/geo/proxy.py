"""A region's proxy: protocol, histories and network in one."""

from __future__ import annotations

import os
import secrets
import time
from importlib.metadata import version
from pathlib import Path
from random import Random

from epicast.core import Peer
from epicast.deployment import Address, Geoplex
from epicast.geo.admission import Admission
from epicast.geo.evidence import ProxyEvidence
from epicast.geo.memory import resident_bytes
from epicast.geo.plans import limits_of, proxy_plan, reachable_peer, stream_store
from epicast.geo.status import ProxyStatus, StreamStatus, encode_status
from epicast.geo.upkeep import Upkeep
from epicast.geo.warming import warm_up
from epicast.log import policy_of
from epicast.protocols.sprinkler import Proxy, ProxyConfig
from epicast.runtime import NodeDriver
from epicast.runtime.history_storage import HistoryStorage
from epicast.runtime.waiting import in_thread


class ProxyService:
    """`start`, then `stop` in the end. One use only."""

    def __init__(
        self, geoplex: Geoplex, region: str, *, port: int | None = None, data: Path | None = None
    ) -> None:
        """`port` (0: any) and `data` are used instead of what the geoplex says."""
        self._geoplex = geoplex
        self._region = geoplex.region(region)
        folder = data
        if folder is None and self._region.data is not None:
            folder = Path(self._region.data)
        self._config = geoplex.section("proxies", ProxyConfig)
        stores = {
            stream.id: stream_store(stream, region, folder, self._config.max_publishers)
            for stream in geoplex.streams.values()
        }
        self._evidence = ProxyEvidence.wanted(geoplex, region)
        on_stored = self._evidence.stored if self._evidence is not None else None
        self.storage = HistoryStorage(stores, folder, on_stored=on_stored)
        self.driver = NodeDriver(
            self._region.id,
            self._region.listen.host,
            self._region.listen.port if port is None else port,
            limits=limits_of(geoplex.budget.proxy),
            storage=self.storage,
            cluster=geoplex.name,
            seed=secrets.randbits(63),
        )
        owned = geoplex.streams_of(region)
        self._upkeep = Upkeep(region, owned, self.storage, self.driver, self._evidence)
        self.protocol: Proxy | None = None
        self._started_at = time.monotonic()

    @property
    def address(self) -> Address:
        """Where it listens; once started, with the port that was free."""
        return Address(self.driver.node.host, self.driver.node.port)

    async def start(self) -> Peer:
        """Open the histories, which can take seconds, and serve; returns who this is to others."""
        await in_thread(warm_up)
        if self._evidence is not None:
            await self.storage.recover()
            await in_thread(self._open_evidence)
        listening = await self.driver.listen()
        node = reachable_peer(self._region, listening)
        streams = self._geoplex.streams.values()
        admission = Admission({stream.id: policy_of(stream) for stream in streams})
        self.protocol = Proxy(
            node,
            self._config,
            Random(secrets.randbits(64)),
            plan=proxy_plan(self._geoplex, self._region.name),
            admit=admission,
            status=lambda: encode_status(self.status()),
        )
        await self.driver.start(self.protocol)
        self._upkeep.start()
        self._started_at = time.monotonic()
        return node

    async def wait(self) -> None:
        """Until it has stopped; raises what made it fail."""
        await self.driver.wait()

    async def stop(self) -> None:
        """Say goodbye, write everything, and note in the histories that nothing is missing."""
        await self._upkeep.stop()
        try:
            await self.driver.stop()
        finally:
            if self._evidence is not None:
                self._evidence.close()
            await self.storage.close()

    def _open_evidence(self) -> None:
        assert self._evidence is not None
        self._evidence.open(self.storage)

    # -- looking inside --------------------------------------------------------------------------

    def status(self) -> ProxyStatus:
        assert self.protocol is not None, "start comes first"
        geoplex, name = self._geoplex, self._region.name
        counts = dict(self.protocol.statistics())
        return ProxyStatus(
            geoplex=geoplex.name,
            region=name,
            node=self._region.id,
            version=version("epicast"),
            pid=os.getpid(),
            uptime_s=round(time.monotonic() - self._started_at, 3),
            resident_bytes=resident_bytes(),
            regions={
                other: str(self.address) if other == name else _address(geoplex.peer(other, name))
                for other in geoplex.regions
            },
            streams=[self._stream_status(stream) for stream in geoplex.streams],
            subscriptions=int(counts.pop("subscriptions")),
            attached=int(counts.pop("attached")),
            proxies=int(counts.pop("proxies")),
            protocol=counts,
            driver=self.driver.statistics(),
        )

    def _stream_status(self, name: str) -> StreamStatus:
        assert self.protocol is not None
        stream = self._geoplex.stream(name)
        counter, source = self.protocol.progress()[name]
        if stream.owner == self._region.name:
            source = self._region.id
        found = self._geoplex.region_by_id(source)
        stored = self.storage.statistics(stream.id)
        return StreamStatus(
            name=name,
            owner=stream.owner,
            ack=stream.ack,
            description=stream.description,
            epoch=counter.epoch,
            head=counter.seq,
            source=found.name if found is not None else "",
            start=stored.start,
            live_events=stored.live_events,
            collected_events=stored.collected_events,
            stored_events=stored.stored_events,
            live_bytes=stored.live_bytes,
            stored_bytes=stored.stored_bytes,
            segments=stored.segments,
        )


def _address(peer: Peer) -> str:
    return str(Address(peer.host, peer.port))
