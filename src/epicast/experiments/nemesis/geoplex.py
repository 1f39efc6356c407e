"""The geoplex that is mistreated, and what is published there.

Its histories are bounded, so that a long run fits on a disk and a replica without one is soon back:
all streams but the last keep the newest event of each key, the last one the newest so many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from epicast.core import EventBatch
from epicast.deployment import Address, Geoplex, Region, parse_geoplex, stream_id
from epicast.geo.ports import free_ports

NAMES = ("us", "eu", "ap", "sa", "af", "au", "in", "jp", "ca")
KEYS = 20_000
LAST_N = 1_000_000
_KEY_BYTES = 8
_MIX = np.uint64(0x9E3779B97F4A7C15)

Ways = Mapping[tuple[str, str], Sequence[int]]
"""From one region to another: ports, one for each replica there, through which they are reached."""


def stream_of(region: str) -> str:
    """Every region owns one."""
    return f"{region}-events"


def keeps_keys(regions: Sequence[str], region: str) -> bool:
    """Whether its stream keeps the newest event of each key; otherwise events have none."""
    return region != regions[-1]


def described(regions: Sequence[str]) -> dict[int, tuple[str, str]]:
    """The streams, as logs of `epicast_checker` are told of them."""
    found = {}
    for region in regions:
        name = stream_of(region)
        collects = "latest_per_key" if keeps_keys(regions, region) else "anything"
        found[stream_id(name)] = (name, collects)
    return found


def make_geoplex(
    replicas: Mapping[str, Sequence[str]], ways: Ways, doors: Mapping[str, int], data: Path
) -> Geoplex:
    """`replicas`: their names by region; `doors`: where they are reached from within it."""
    lines = ['name = "nemesis"']
    regions = list(replicas)
    ports = iter(free_ports(len(doors)))
    for region in regions:
        addresses = ", ".join(f'"127.0.0.1:{next(ports)}"' for _ in replicas[region])
        lines += [f"[regions.{region}]", f"replicas = [{addresses}]", f'data = "{region}"']
        lines += [f"[streams.{stream_of(region)}]", f'owner = "{region}"', 'ack = "disk"']
        keyed = keeps_keys(regions, region)
        lines += ["latest_per_key = true" if keyed else f"last_n = {LAST_N}"]
    for (source, target), relays in ways.items():
        via = ", ".join(f'"127.0.0.1:{each}"' for each in relays)
        lines += ["[[links]]", f'from = "{source}"', f'to = "{target}"', f"via = [{via}]"]
    geoplex = parse_geoplex("\n".join(lines), "nemesis", str(data))
    behind = {name: _behind_doors(region, doors) for name, region in geoplex.regions.items()}
    return replace(geoplex, regions=behind)


def _behind_doors(region: Region, doors: Mapping[str, int]) -> Region:
    replicas = tuple(
        replace(each, address=Address(each.address.host, doors[each.name]))
        for each in region.replicas
    )
    return replace(region, replicas=replicas)


def make_batch(stream: int, publisher: int, first: int, rows: int, keyed: bool) -> EventBatch:
    """The publisher's events from number `first` on: who publishes again what it cannot know to be
    stored publishes the same."""
    numbers = np.arange(first, first + rows, dtype=np.uint64)
    columns = [np.full(rows, publisher, dtype=np.uint64), numbers]
    if keyed:
        mixed = (numbers + np.uint64(publisher) * np.uint64(1_000_003)) * _MIX
        columns.insert(0, (mixed >> np.uint64(32)) % np.uint64(KEYS))
    data = np.stack(columns, axis=1).astype("<u8").tobytes()
    return EventBatch.even(stream, 1, data, _KEY_BYTES if keyed else 0, 16)
