"""Claim S1 on real processes: events published in every region, delivered to an agent in every
region, with garbage collection on, against a bare relay of the same bytes.

Each region has a proxy, a driver and an agent, all processes of their own on loopback. Drivers
publish batches of 1,000 events of 10 bytes, keys drawn anew, as fast as they are acknowledged; an
event counts once every agent has it. Agents check every event by its digest, and the histories of
the proxies must be what the `filter` of the paper leaves. The bare relay moves the same bytes in
the same topology and does nothing else.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import epicast
from bench import bare_relay
from bench.geo_events import ROWS, Expected
from bench.harness import Bar, Figure, Rates, Result
from bench.rivals.processes import Team
from epicast.core import EventBatch
from epicast.deployment import parse_geoplex, stream_id
from epicast.geo.local import LocalGeoplex
from epicast.runtime import run as run_loop

MODULE = "bench.geo_parts"
REGIONS = ("us", "eu", "ap")
WINDOW = 24
"""Batches a driver has unacknowledged."""
WARM_S = 1.0
PATIENCE_S = 120.0
PAPER_N = 100_000_001
"""Everything below i - 10^8 is collected: of what is left, the newest is number i."""


@dataclass(frozen=True)
class Measured:
    events_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_s: float
    rows_share: float
    """Of the events delivered, those that came as themselves and not as tombstones."""


def run(quick: bool) -> Result:
    seconds, rounds = (1.0, 1) if quick else (6.0, 3)
    figures: dict[str, Figure] = {}
    ours, bare = [], []
    best: list[Measured] = []
    for _ in range(rounds):
        best.append(measure(3, "latest_per_key = true", seconds))
        ours.append(best[-1].events_per_s)
        bare.append(bare_relay.run(3, min(seconds, 3.0)))
    ratio = Rates(tuple(ours)).over(Rates(tuple(bare)))
    figures["bare_relay_events_per_s"] = round(Rates(tuple(bare)).median)
    figures["p50_ms"] = round(float(np.median([m.p50_ms for m in best])), 1)
    figures["delivered_as_rows"] = round(min(m.rows_share for m in best), 4)
    figures["client_cpu_s"] = round(best[-1].cpu_s, 2)
    for regions in (1, 2):
        other = measure(regions, "latest_per_key = true", seconds)
        figures[f"{regions}_proxies_events_per_s"] = round(other.events_per_s)
        figures[f"{regions}_proxies_p99_ms"] = round(other.p99_ms, 1)
    paper = measure(3, f"last_n = {PAPER_N}", min(seconds, 4.0))
    figures["paper_policy_events_per_s"] = round(paper.events_per_s)
    figures["paper_policy_p99_ms"] = round(paper.p99_ms, 1)
    disk = measure(3, "latest_per_key = true", seconds, disk=True)
    figures["disk_events_per_s"] = round(disk.events_per_s)
    figures["disk_p99_ms"] = round(disk.p99_ms, 1)
    return Result(
        "geo",
        figures,
        [
            Bar("events_per_s", 5e6, "at least", Rates(tuple(ours)).median, "1/s"),
            Bar("vs_bare_relay", 0.25, "at least", ratio, "x"),
            Bar("p99_ms", 250, "at most", float(np.median([m.p99_ms for m in best])), "ms"),
        ],
    )


def measure(regions: int, policy: str, seconds: float, *, disk: bool = False) -> Measured:
    names = REGIONS[:regions]
    with tempfile.TemporaryDirectory(prefix="epicast-bench-") as folder:
        geoplex = parse_geoplex(document(names, policy, Path(folder) if disk else None), "bench")
        with LocalGeoplex(geoplex, any_ports=True) as local, Team() as team:
            files = Path(folder)
            agents = [
                team.start(MODULE, "follow", local.address(r), list(names), str(files / f"{r}.npz"))
                for r in names
            ]
            drivers = [
                team.start(
                    MODULE, "drive", local.address(r), r, seed, WINDOW, str(files / f"{r}.npy")
                )
                for seed, r in enumerate(names, 1)
            ]
            for part in (*agents, *drivers):
                assert part.hear(PATIENCE_S) == "ready"
            start = time.monotonic() + WARM_S
            for driver in drivers:
                driver.tell(start + seconds)
            published = [driver.hear(PATIENCE_S + seconds) for driver in drivers]
            totals = {r: p["events"] for r, p in zip(names, published, strict=True)}
            for agent in agents:
                agent.tell(totals)
            reports = [agent.hear(PATIENCE_S) for agent in agents]
            expected = {
                r: Expected(stream_id(r), seed, totals[r]) for seed, r in enumerate(names, 1)
            }
            for report in reports:
                check(report, expected)
            if "latest_per_key" in policy:
                for r in names:
                    run_loop(check_histories(local.address(r), expected))
            window = (int(start * 1e9), int((start + seconds) * 1e9))
            cpu = sum(part["cpu_s"] for part in (*published, *reports))
            return evaluate(files, names, window, cpu)


def document(names: tuple[str, ...], policy: str, folder: Path | None) -> str:
    lines = ['name = "bench"']
    for port, name in enumerate(names, 1):
        lines += [f"[regions.{name}]", f'proxy = "127.0.0.1:{port}"']
        if folder is not None:
            lines.append(f'data = "{folder / name}"')
    for name in names:
        ack = "disk" if folder is not None else "memory"
        lines += [f"[streams.{name}]", f'owner = "{name}"', f'ack = "{ack}"', policy]
    return "\n".join(lines)


def check(report: dict, expected: dict[str, Expected]) -> None:
    """Everything published has come, in order, and is what was published."""
    if report["failures"]:
        raise AssertionError(report["failures"])
    for name, (last, rows, found) in report["streams"].items():
        wanted = expected[name]
        if last != wanted.events:
            raise AssertionError(f"{name}: {last} of {wanted.events} events came: {report}")
        if rows == wanted.events and found != wanted.digest:
            raise AssertionError(f"{name}: digest {found}, {wanted.digest} was published")


async def check_histories(address: str, expected: dict[str, Expected]) -> None:
    """What a proxy has left of each stream is what `filter` leaves."""
    async with epicast.connect(address, agent=False) as node:
        for name, wanted in expected.items():
            found: dict[int, bytes] = {}
            last = 0
            async for batch in node.stream(name).subscribe(after=0).batches():
                assert isinstance(batch, EventBatch)
                found.update(zip(batch.seqs.tolist(), batch.keys(), strict=True))
                last = batch.last
                if last >= wanted.events:
                    break
            if found != wanted.live():
                raise AssertionError(f"{name} at {address}: history differs from the reference")


def evaluate(
    files: Path, names: tuple[str, ...], window: tuple[int, int], cpu_s: float
) -> Measured:
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
    p50, p99 = np.percentile(np.concatenate(delays), [50, 99]) / 1e6
    return Measured(min(rates), float(p50), float(p99), cpu_s, rows / covered)
