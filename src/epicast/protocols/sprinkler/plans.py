"""A proxy's place in the geoplex."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from epicast.core import EventBatch, NodeId, Peer
from epicast.deployment import Geoplex
from epicast.protocols.sprinkler.chain.configuration import ChainPlan
from epicast.protocols.sprinkler.infos import stream_info
from epicast.protocols.sprinkler.messages import StreamInfo

Status = Callable[[], bytes]
"""What to tell those who ask how things are."""

Witness = Callable[[int, int, Sequence[EventBatch], bool], None]
"""A callback of a replica, called before it shows more of a stream of its region. Its arguments are
the stream, the number up to which the stream may now be shown, the newly shown batches as far as
they are at hand, and whether this replica is the tail, which decides how far that is."""


def nobody(stream: int, end: int, shown: Sequence[EventBatch], is_tail: bool) -> None:
    """The witness of replicas that have none."""


class RegionFacts(Struct, frozen=True):
    """What the others know of a region."""

    name: str
    durable: bool
    """Whether it keeps anything on disk."""


class ProxyPlan(Struct, frozen=True):
    region: str
    streams: tuple[StreamInfo, ...]
    proxies: tuple[Peer, ...]
    """Of the other regions, all their replicas."""
    region_id: int = 0
    """What streams call their owner; 0: the node's own id."""
    region_ids: Mapping[NodeId, int] = {}
    """The same of other proxies, where it is not their own id."""
    replicas: tuple[Peer, ...] = ()
    """Where there are several in this region: all of them."""
    regions: Mapping[int, RegionFacts] = {}
    """All there are, by what streams call their owner."""


def proxy_plan(geoplex: Geoplex, region: str) -> ProxyPlan:
    here, regions = geoplex.region(region), geoplex.regions.values()
    return ProxyPlan(
        region,
        tuple(stream_info(geoplex, stream) for stream in geoplex.streams.values()),
        tuple(geoplex.peers(region)),
        here.id,
        {replica.id: other.id for other in regions for replica in other.replicas},
        tuple(replica.peer for replica in here.replicas) if here.is_chain else (),
        {each.id: RegionFacts(each.name, each.data is not None) for each in regions},
    )


def chain_plan(geoplex: Geoplex, region: str) -> ChainPlan | None:
    """None: its proxy is alone."""
    found = geoplex.region(region)
    if not found.is_chain:
        return None
    return ChainPlan(
        f"epicast/{geoplex.name}/chains/{region}",
        tuple(replica.peer for replica in found.replicas),
        durable=found.data is not None,
    )
