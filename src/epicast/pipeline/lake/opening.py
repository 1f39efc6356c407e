"""The lake an ingestion is to fill: made from what a proxy says, or found to be the right one."""

from __future__ import annotations

from collections.abc import Sequence

from epicast.pipeline.lake.connections import described, parse_proxies
from epicast.pipeline.lake.errors import SourceAway, WrongLake
from epicast.pipeline.lake.layout import Lake, LakeStream, TableKind


def lake_for(
    folder: str,
    proxy: str,
    streams: Sequence[str] | None,
    table: TableKind | None,
    patience_s: float = 2.0,
) -> Lake:
    """Without streams, all there are; or those the lake has. A lake that exists is opened even if
    no proxy answers at the moment."""
    proxies = parse_proxies(proxy)
    names = None if streams is None else tuple(streams)
    if not Lake.exists(folder):
        geoplex, infos = described(proxies, names, patience_s)
        found = [LakeStream.of(info) for info in infos]
        return Lake.create(folder, geoplex=geoplex, streams=found, table=table or "delta")
    lake = Lake.open(folder)
    if names is not None and {*names} != {*lake.streams}:
        raise WrongLake(
            f"{lake.folder} is a lake of {', '.join(lake.streams)}, not of {', '.join(names)}: "
            "name the same streams or none, or another folder"
        )
    if table is not None and table != lake.table:
        raise WrongLake(
            f"{lake.folder} keeps its tables as {lake.table}, not as {table}: name another folder"
        )
    try:
        geoplex, _ = described(proxies, tuple(lake.streams), patience_s)
    except SourceAway:
        return lake
    if geoplex != lake.geoplex:
        raise WrongLake(
            f"{lake.folder} is a lake of geoplex {lake.geoplex!r}, {proxy} belongs to {geoplex!r}: "
            "name a proxy of the one, or another folder for the other"
        )
    return lake
