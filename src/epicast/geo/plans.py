"""What a `geoplex.toml` means for the parts a node is made of."""

from __future__ import annotations

from pathlib import Path

from epicast.core import Peer
from epicast.deployment import Geoplex, NodeBudget, Region, Stream
from epicast.log import LogConfig, in_memory, policy_of
from epicast.protocols.sprinkler import ProxyPlan, stream_info
from epicast.runtime import Limits
from epicast.runtime.history_storage import StreamStore


def proxy_plan(geoplex: Geoplex, region: str) -> ProxyPlan:
    return ProxyPlan(
        region,
        tuple(stream_info(geoplex, stream) for stream in geoplex.streams.values()),
        tuple(geoplex.peers(region)),
    )


def stream_store(
    stream: Stream, region: str, data: Path | None, max_publishers: int
) -> StreamStore:
    """Each stream has a folder of its own below the region's; without one it is in memory."""
    bounds = {
        "retain_bytes": stream.retain_bytes,
        "retain_ns": stream.retain_ns,
        "max_key_bytes": stream.max_key_bytes,
        "max_publishers": max_publishers,
    }
    if data is None:
        config = in_memory(**bounds)
    else:
        config = LogConfig(sync=stream.ack, sync_interval_ns=stream.sync_interval_ns, **bounds)  # type: ignore[arg-type]
    return StreamStore(
        policy=policy_of(stream),
        config=config,
        folder=None if data is None else data / "streams" / stream.name,
        owned=stream.owner == region,
    )


def limits_of(budget: NodeBudget) -> Limits:
    return Limits(**budget.limits())


def reachable_peer(region: Region, listening: Peer) -> Peer:
    """Who a proxy is for others: where it listens, unless the file says they reach it elsewhere."""
    return listening if region.address == region.listen else region.peer
