"""A region's proxy: protocol, histories and network in one."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Collection, Mapping
from importlib.metadata import version
from pathlib import Path
from random import Random

from epicast.core import COORDINATION_ID, AnyMessage, NodeId, Peer
from epicast.deployment import Address, Geoplex
from epicast.geo.admission import Admission
from epicast.geo.alarms import AlarmStatus, described, maintenance_alarm
from epicast.geo.coordinating import Coordination
from epicast.geo.evidence import ProxyEvidence
from epicast.geo.memory import resident_bytes
from epicast.geo.plans import limits_of, reachable_peer, stream_store
from epicast.geo.security import Permission, node_security, proxy_files
from epicast.geo.status import ProxyStatus, StreamStatus, encode_status
from epicast.geo.upkeep import Upkeep
from epicast.geo.warming import warm_up
from epicast.log import policy_of
from epicast.protocols.sprinkler import (
    Alarm,
    AlarmKind,
    MovableProxy,
    ProxyConfig,
    ReplicaProxy,
    chain_plan,
    proxy_plan,
)
from epicast.protocols.sprinkler.moving.ledger import owned_streams
from epicast.protocols.sprinkler.permits import permit_all
from epicast.protocols.sprinkler.replica import nobody
from epicast.runtime import NodeDriver
from epicast.runtime.history_storage import HistoryStorage
from epicast.runtime.waiting import in_thread


class ProxyService:
    """`start`, then `stop` in the end. One use only."""

    def __init__(
        self, geoplex: Geoplex, region: str, *, port: int | None = None, data: Path | None = None
    ) -> None:
        """`region`, or `region/2` for the second of its replicas. `port` (0: any) and `data` are
        used instead of what the geoplex says."""
        self._geoplex = geoplex
        self._region, self._replica = geoplex.replica(region)
        region = self._region.name
        folder = data
        if folder is None and self._replica.data is not None:
            folder = Path(self._replica.data)
        self._config = geoplex.section("proxies", ProxyConfig)
        stores = {
            stream.id: stream_store(stream, self._region, folder, self._config.max_publishers)
            for stream in geoplex.streams.values()
        }
        self._chain = chain_plan(geoplex, region)
        self._evidence = ProxyEvidence.wanted(geoplex, self._region, self._replica, self._owns)
        on_stored = None
        if self._evidence is not None and self._chain is None:
            on_stored = self._evidence.stored
        self.storage = HistoryStorage(
            stores, folder, on_stored=on_stored,
            # In a chain, who is the head decides on the epoch.
            owned=self._owned_streams if self._chain is None else None,
        )  # fmt: skip
        self._coordination: Coordination | None = None
        if self._chain is not None:
            self._coordination = Coordination(geoplex.coordination, self._hear_coordination)
        self.driver = NodeDriver(
            self._replica.id,
            self._replica.listen.host,
            self._replica.listen.port if port is None else port,
            limits=limits_of(geoplex.budget.proxy),
            storage=self.storage,
            cluster=geoplex.name,
            seed=secrets.randbits(63),
            services={COORDINATION_ID: self._coordination.send} if self._coordination else None,
            security=node_security(geoplex, proxy_files(geoplex, region)),
            trusted=[replica.id for replica in geoplex.replicas],
        )
        streams = list(geoplex.streams.values())
        self._upkeep = Upkeep(
            region, streams, self._owns, self.storage, self.driver, self._evidence
        )
        self.protocol: MovableProxy | None = None
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
        node = reachable_peer(self._replica, listening)
        self.protocol = self._make_protocol(node)
        if self._coordination is not None:
            self._coordination.start()
        await self.driver.start(self.protocol)
        self._upkeep.start()
        self._started_at = time.monotonic()
        return node

    def _make_protocol(self, node: Peer) -> MovableProxy:
        streams = self._geoplex.streams.values()
        rng = Random(secrets.randbits(64))
        plan = proxy_plan(self._geoplex, self._region.name)
        admit = Admission({stream.id: policy_of(stream) for stream in streams})
        access = self._geoplex.access()
        permit = permit_all if access is None else Permission(access, self.driver)
        if self._chain is None:
            return MovableProxy(
                node, self._config, rng, plan=plan, admit=admit, permit=permit,
                status=self._encoded_status, is_agent=self.driver.is_agent,
            )  # fmt: skip
        return ReplicaProxy(
            node, self._config, rng, plan=plan, chain=self._chain, admit=admit, permit=permit,
            status=self._encoded_status, is_agent=self.driver.is_agent,
            witness=nobody if self._evidence is None else self._evidence.shown,
        )  # fmt: skip

    def _owned_streams(self, saved: Mapping[str, bytes]) -> Collection[int]:
        """What the file says, and what has become of it since."""
        geoplex = self._geoplex
        declared = {s.id: geoplex.region(s.owner).id for s in geoplex.streams.values()}
        return owned_streams(saved, self._region.id, declared)

    def _owns(self, stream: int) -> bool:
        return self.protocol is not None and self.protocol.owns(stream)

    def _encoded_status(self) -> bytes:
        return encode_status(self.status())

    def _hear_coordination(self, message: AnyMessage) -> None:
        self.driver.hear(COORDINATION_ID, message)

    async def wait(self) -> None:
        """Until it has stopped; raises what made it fail."""
        await self.driver.wait()

    async def stop(self) -> None:
        """Say goodbye, write everything, and note in the histories that nothing is missing."""
        await self._upkeep.stop()
        try:
            await self.driver.stop()
        finally:
            if self._coordination is not None:
                await in_thread(self._coordination.stop)
            if self._evidence is not None:
                self._evidence.close(knows_all=self._knows_all())
            await self.storage.close()

    def _knows_all(self) -> bool:
        """Whether nothing is shown in this region that this proxy does not hear of."""
        return not isinstance(self.protocol, ReplicaProxy) or self.protocol.is_member

    def _open_evidence(self) -> None:
        assert self._evidence is not None
        self._evidence.open(self.storage)

    # -- looking inside --------------------------------------------------------------------------

    def status(self) -> ProxyStatus:
        assert self.protocol is not None, "start comes first"
        geoplex = self._geoplex
        counts = dict(self.protocol.statistics())
        return ProxyStatus(
            geoplex=geoplex.name,
            region=self._replica.name,
            node=self._replica.id,
            version=version("epicast"),
            pid=os.getpid(),
            uptime_s=round(time.monotonic() - self._started_at, 3),
            resident_bytes=resident_bytes(),
            regions=self._addresses(),
            streams=[self._stream_status(stream) for stream in geoplex.streams],
            subscriptions=int(counts.pop("subscriptions")),
            attached=int(counts.pop("attached")),
            proxies=int(counts.pop("proxies")),
            protocol=counts,
            driver=self.driver.statistics(),
            alarms=self._alarms(),
        )

    def _alarms(self) -> list[AlarmStatus]:
        assert self.protocol is not None
        names = {stream.id: name for name, stream in self._geoplex.streams.items()}
        now = time.monotonic_ns()
        found = described(self.protocol.alarms(now), now, self._other_in, names)
        wall = time.time_ns()
        for stream, (reason, since) in self.storage.complaints().items():
            found.append(maintenance_alarm(names[stream], reason, wall - since))
        return found

    def _other_in(self, alarm: Alarm) -> str:
        if alarm.kind is AlarmKind.REPLICA:
            return next(each.name for each in self._region.replicas if each.id == alarm.peer)
        return self._region_of(alarm.peer)

    def _region_of(self, node: NodeId) -> str:
        region = self._geoplex.region_by_id(node)
        return region.name if region is not None else ""

    def _addresses(self) -> dict[str, str]:
        """Of all proxies, as this one reaches them."""
        found = {}
        for other in self._geoplex.regions.values():
            peers = self._geoplex.peers_of(other.name, self._region.name)
            for replica, peer in zip(other.replicas, peers, strict=True):
                here = replica.id == self._replica.id
                found[replica.name] = str(self.address) if here else _address(peer)
        return found

    def _stream_status(self, name: str) -> StreamStatus:
        assert self.protocol is not None
        stream = self._geoplex.stream(name)
        counter, source = self.protocol.progress()[name]
        owner, term = self.protocol.owner_of(stream.id)
        if self._owns(stream.id):
            source = self._region.id
        stored = self.storage.statistics(stream.id)
        return StreamStatus(
            name=name,
            owner=owner,
            term=term,
            furthest=self.protocol.furthest(stream.id),
            ack=stream.ack,
            description=stream.description,
            epoch=counter.epoch,
            head=counter.seq,
            source=self._region_of(source),
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
