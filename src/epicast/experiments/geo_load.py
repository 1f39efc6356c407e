"""A geoplex of real processes under full load: what `bench geo` and claim S1 measure.

Each region has a proxy, a driver and an agent, all processes of their own on loopback. Drivers
publish batches of 1,000 events of 10 bytes, keys drawn anew, as fast as they are acknowledged; an
event counts once every agent has it. Agents check every event by its digest, and with
`latest_per_key` the histories of the proxies must be what the `filter` of the paper leaves.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

import epicast
from epicast.core import EpicastError, EventBatch
from epicast.deployment import parse_geoplex, stream_id
from epicast.experiments.geo_events import ROWS, Expected
from epicast.experiments.geo_parts import drive, follow
from epicast.experiments.parts import Team
from epicast.geo.local import LocalGeoplex
from epicast.runtime import run as run_loop

LATEST_PER_KEY = "latest_per_key = true"
PAPER_POLICY = "last_n = 100_000_001"
"""Everything below i - 10^8 is collected: of what is left, the newest is number i."""
REGIONS = ("us", "eu", "ap")
_VIEW = 3
"""View size and fanout of the paper's experiment."""
_WINDOW = 24
"""Batches a driver waits for at a time."""
_WARM_S = 0.7
"""From the moment every agent has got something of every stream."""
_PATIENCE_S = 120.0
_LOOK_EVERY_S = 0.05


class LoadError(EpicastError):
    """Something published did not come, or came otherwise."""


class Measured(Struct, frozen=True):
    events_per_s: float
    """Distinct events, at the agent that got least."""
    p50_ms: float
    p99_ms: float
    cpu_s: float
    """Of drivers and agents."""
    rows_share: float
    """Of the events delivered, those that came as themselves and not as tombstones."""


def measure(
    regions: int,
    policy: str,
    seconds: float,
    *,
    disk: bool = False,
    replicas: int = 1,
    evidence: Path | None = None,
    security: str = "",
) -> Measured:
    """Regions are chains of so many `replicas`. With a folder `evidence`, everybody writes down
    there what happens. `security` is the text of such a table; who publishes and follows then takes
    its credentials from the environment."""
    names = REGIONS[:regions]
    with tempfile.TemporaryDirectory(prefix="epicast-load-") as folder:
        files = Path(folder)
        text = document(names, policy, files if disk else None, replicas)
        if evidence is not None:
            text += f'\n[evidence]\nfolder = "{evidence}"'
        text += f"\n{security}"
        geoplex = parse_geoplex(text, "load", folder)
        with LocalGeoplex(geoplex, any_ports=True) as local, Team() as team:
            wait_for_chains(local)
            agents = [
                team.start(
                    follow, local.address(r), list(names), _VIEW, files / f"{r}.npz", evidence
                )
                for r in names
            ]
            drivers = [
                team.start(drive, local.address(r), r, seed, _WINDOW, files / f"{r}.npy", evidence)
                for seed, r in enumerate(names, 1)
            ]
            for part in (*agents, *drivers):
                part.hear(_PATIENCE_S)
            for driver in drivers:
                driver.tell("go")
            for agent in agents:
                agent.hear(_PATIENCE_S)
            start = time.monotonic() + _WARM_S
            for driver in drivers:
                driver.tell(start + seconds)
            published = [driver.hear(_PATIENCE_S + seconds) for driver in drivers]
            totals = {r: p["events"] for r, p in zip(names, published, strict=True)}
            for agent in agents:
                agent.tell(totals)
            reports = [agent.hear(_PATIENCE_S) for agent in agents]
            expected = {
                r: Expected(stream_id(r), seed, totals[r]) for seed, r in enumerate(names, 1)
            }
            for report in reports:
                check(report, expected)
            if policy == LATEST_PER_KEY:
                for r in names:
                    run_loop(check_histories(local.address(r), expected))
            window = (int(start * 1e9), int((start + seconds) * 1e9))
            cpu = sum(part["cpu_s"] for part in (*published, *reports))
            return evaluate(files, names, window, cpu)


def wait_for_chains(local: LocalGeoplex) -> None:
    """Until every replica is in its chain."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        places = [each.protocol.get("chain_place", 0) for each in local.status().values()]
        if min(places) >= 0:
            return
        time.sleep(_LOOK_EVERY_S)
    raise LoadError(f"chains are not whole: {places}")


def document(names: Sequence[str], policy: str, folder: Path | None, replicas: int = 1) -> str:
    """The deployment file; with a folder, histories are there and acknowledged once synced."""
    lines = ['name = "load"', "[proxies]", f"view_size = {_VIEW}", f"fanout = {_VIEW}"]
    for at, name in enumerate(names):
        ports = range(1 + at * replicas, 1 + (at + 1) * replicas)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        lines += [f"[regions.{name}]", f"replicas = {addresses}"]
        if folder is not None:
            lines.append(f'data = "{folder / name}"')
    for name in names:
        ack = "disk" if folder is not None else "memory"
        lines += [f"[streams.{name}]", f'owner = "{name}"', f'ack = "{ack}"', policy]
    return "\n".join(lines)


def check(report: Mapping[str, Any], expected: Mapping[str, Expected]) -> None:
    """Everything published has come, in order, and is what was published."""
    if report["failures"]:
        raise LoadError(f"an agent failed: {report['failures']}")
    for name, (last, rows, found) in report["streams"].items():
        wanted = expected[name]
        if last != wanted.events:
            raise LoadError(f"{name}: {last} of {wanted.events} events came: {report}")
        if rows == wanted.events and found != wanted.digest:
            raise LoadError(f"{name}: digest {found}, {wanted.digest} was published")


async def check_histories(address: str, expected: Mapping[str, Expected]) -> None:
    """What a proxy has left of each stream is what `filter` leaves."""
    async with epicast.connect(address, agent=False) as node:
        for name, wanted in expected.items():
            found: dict[int, bytes] = {}
            async for batch in node.stream(name).subscribe(after=0).batches():
                assert isinstance(batch, EventBatch)
                found.update(zip(batch.seqs.tolist(), batch.keys(), strict=True))
                if batch.last >= wanted.events:
                    break
            if found != wanted.live():
                raise LoadError(f"{name} at {address}: history differs from the reference")


def evaluate(files: Path, names: Sequence[str], window: tuple[int, int], cpu_s: float) -> Measured:
    """What the files of drivers and agents say about the time from `window[0]` to `window[1]`.

    If the machine stood still for all of it, the rate is 0 and the delays are infinite.
    """
    delays, rates, rows, covered = [], [], 0, 0
    begin, end = window
    published = {name: np.load(files / f"{name}.npy") for name in names}
    for region in names:
        delivered = 0
        with np.load(files / f"{region}.npz") as arrivals:
            for name in names:
                lasts, at, had = arrivals[name].T
                inside = (at >= begin) & (at < end)
                counts = np.diff(lasts, prepend=0)
                delivered += int(counts[inside].sum())
                rows += int(had.sum())
                covered += int(counts.sum())
                sent_at = published[name][(lasts[inside] - 1) // ROWS]
                delays.append(at[inside] - sent_at)
        rates.append(delivered / ((end - begin) / 1e9))
    known = np.concatenate(delays)
    p50, p99 = np.percentile(known, [50, 99]) / 1e6 if len(known) else (np.inf, np.inf)
    return Measured(min(rates), float(p50), float(p99), cpu_s, rows / covered)
