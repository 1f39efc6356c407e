"""Who is in which chain, as the coordination service has it, and whose disk can be trusted."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import msgpack

from epicast.protocols.coordination import ViewEntry
from epicast.protocols.sprinkler import chain_plan
from epicast.protocols.sprinkler.chain.configuration import ChainConfig, decode_config
from epicast.protocols.sprinkler.replica import ReplicaProxy
from epicast.sim.geoplex import SimGeoplex
from epicast.sim.node import SimNode


class Chains:
    def __init__(self, geo: SimGeoplex) -> None:
        self._geo = geo
        self._keys = {
            region: plan.key
            for region in geo.regions
            if (plan := chain_plan(geo.geoplex, region)) is not None
        }
        self._known: dict[str, tuple[bytes, ChainConfig]] = {}
        self.replicas = {
            replica.name: geo.simulation.nodes[replica.id]
            for region in geo.regions
            for replica in geo.geoplex.region(region).replicas
        }
        """By name."""
        self._names = {node.id: name for name, node in self.replicas.items()}
        self._unwell: dict[int, int] = {}
        """Replicas whose disk was damaged or lost, and in which incarnation."""
        self._held: set[int] = set()

    def is_chain(self, region: str) -> bool:
        return region in self._keys

    def name_of(self, node: SimNode) -> str:
        return self._names[node.id]

    def config(self, region: str) -> ChainConfig:
        coordination = self._geo.coordination
        assert coordination is not None and coordination.disk is not None
        value = coordination.disk.saved(self._keys[region])
        if value is None:
            return ChainConfig()
        known = self._known.get(region)
        if known is None or known[0] is not value:
            known = self._known[region] = (value, _entry_of(self._keys[region], value))
        return known[1]

    def listed(self, region: str) -> list[str]:
        """Those that are in the chain, up or not; a proxy that is alone always is."""
        if not self.is_chain(region):
            return [region]
        return [self._names[member.id] for member in self.config(region).members]

    def head(self, region: str) -> SimNode | None:
        """Who numbers events in a region, as far as its chain has agreed on anybody."""
        if not self.is_chain(region):
            return self.replicas[region]
        return self._geo.simulation.nodes.get(self.config(region).head)

    def members(self, region: str) -> list[str]:
        """Those that are in the chain, and up since they joined it."""
        if not self.is_chain(region):
            return [region] if self.replicas[region].alive else []
        return [
            self._names[member.id]
            for member in self.config(region).members
            if self._is_up(self._geo.simulation.nodes[member.id], member.incarnation)
        ]

    def _is_up(self, node: SimNode, incarnation: int) -> bool:
        return node.alive and node.incarnation == incarnation

    def is_complete(self, region: str) -> bool:
        return len(self.members(region)) == len(self._geo.replicas[region])

    # -- whose disk can be trusted ---------------------------------------------------------------

    def may_lose(self, region: str, node: SimNode) -> bool:
        """Whether another replica that is in the chain has what this one has, whatever becomes of
        what replicas have proposed: a member that is to go on alone must not lose its disk before
        it knows that it does."""
        return all(
            any(
                member.id != node.id and not self._is_unwell(member.id, member.incarnation)
                for member in config.members
            )
            for config in self._possible(region)
        )

    def has_all(self, region: str, node: SimNode) -> bool:
        """Whether a replica is in the chain and well, whatever becomes of what was proposed."""
        return all(
            any(
                member.id == node.id and not self._is_unwell(member.id, member.incarnation)
                for member in config.members
            )
            for config in self._possible(region)
        )

    def _possible(self, region: str) -> Iterator[ChainConfig]:
        """The chain there is, and those that may follow it: a proposal outlives who made it."""
        present = self.config(region)
        yield present
        for node in self._geo.replicas[region]:
            assert isinstance(node.protocol, ReplicaProxy)
            proposed = node.protocol.proposed_chain
            if proposed is not None and proposed.epoch > present.epoch:
                yield proposed

    def mark_unwell(self, node: SimNode, *, unknowing: bool) -> None:
        """Until it has joined the chain anew. A replica that does not know of its loss could take
        itself for one that has everything, and go on alone: it stays down while the chain still has
        it. What one replica alone cannot know, two of them cannot either."""
        self._unwell[node.id] = node.incarnation
        if unknowing:
            self._held.add(node.id)

    def must_wait(self, region: str, node: SimNode) -> bool:
        if node.id in self._held and self.config(region).place_of(node.id) is None:
            self._held.discard(node.id)
        return node.id in self._held

    def _is_unwell(self, node: int, incarnation: int) -> bool:
        return incarnation <= self._unwell.get(node, -1)


def _entry_of(key: str, value: bytes) -> ChainConfig:
    return decode_config(key, msgpack.decode(value, type=ViewEntry).value)
