"""What a `geoplex.toml` means for the parts a node is made of."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from epicast.core import Peer
from epicast.deployment import NodeBudget, Region, Replica, Stream
from epicast.log import LogConfig, in_memory, policy_of
from epicast.runtime import Limits
from epicast.runtime.history_storage import StreamStore

_REPLICA_LAG_BYTES = 64 << 20
"""More than a replica can be behind its predecessor in the chain."""


def stream_store(
    stream: Stream, region: Region, data: Path | None, max_publishers: int
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
    if region.is_chain:
        lag = 1 + _REPLICA_LAG_BYTES // config.segment_bytes
        lag = max(lag, config.compact_lag_segments)
        config = replace(
            config, names_publishers=True, compact_lag_segments=lag, waits_for_release=True
        )
    return StreamStore(
        policy=policy_of(stream),
        config=config,
        folder=None if data is None else data / "streams" / stream.name,
        # In a chain, who is the head decides on the epoch.
        owned=stream.owner == region.name and not region.is_chain,
    )


def limits_of(budget: NodeBudget) -> Limits:
    return Limits(**budget.limits())


def reachable_peer(replica: Replica, listening: Peer) -> Peer:
    """Who a proxy is for others: where it listens, unless the file says they reach it elsewhere."""
    return listening if replica.address == replica.listen else replica.peer
