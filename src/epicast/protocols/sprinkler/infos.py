"""What a `geoplex.toml` says of a stream, as proxies tell it to those who attach."""

from __future__ import annotations

from epicast.deployment import Action, Geoplex, Stream
from epicast.protocols.sprinkler.messages import StreamInfo


def stream_info(geoplex: Geoplex, stream: Stream) -> StreamInfo:
    access = geoplex.access()
    return StreamInfo(
        id=stream.id,
        name=stream.name,
        owner=geoplex.region(stream.owner).id,
        region=stream.owner,
        level=stream.ack,
        latest_per_key=stream.latest_per_key,
        last_n=stream.last_n,
        max_age_ns=stream.max_age_ns,
        max_key_bytes=stream.max_key_bytes,
        description=stream.description,
        spreads=access is None or access.everybody_may(Action.SUBSCRIBE, stream.name),
    )
