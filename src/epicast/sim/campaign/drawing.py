"""Everything about a run, drawn from its seed.

Each part has a generator of its own, so that what is drawn for one does not change another.
"""

from __future__ import annotations

from itertools import combinations
from random import Random

from msgspec import structs

from epicast.core.sampling import derive_seed
from epicast.protocols.sprinkler import AgentConfig, ClientConfig, ProxyConfig
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.campaign.drawing_faults import (
    CHAIN_KINDS,
    KINDS,
    Targets,
    draw_disk_trouble,
    draw_faults,
    draw_moves,
)
from epicast.sim.campaign.faults import Fault
from epicast.sim.campaign.plan import (
    MS,
    SECOND,
    Plan,
    PlannedEdge,
    PlannedLink,
    PlannedRegion,
    PlannedStream,
    Publishing,
    Subscribed,
)
from epicast.sim.network import Conditions

TROUBLE_ENDS_NS = 6 * SECOND
TROUBLE_NS = (SECOND // 2, TROUBLE_ENDS_NS)
PUBLISHING_ENDS_NS = 7 * SECOND
_IN_A_HURRY = 3
"""In every third seed with chains publishers send little and often: so that nearly always something
is numbered that not all replicas have."""
CONVERGES_WITHIN_NS = 30 * SECOND
"""From the end of publishing, a second after all is mended, until everybody has everything. What it
may take: a connection notices that its other end is gone (5 s), connects again (3 s), a publication
without an answer is sent again (5 s); then all that was published while nothing passed is sent
through windows as small as 2 kB, a round trip each."""


def draw_plan(seed: int, *, chains: bool = False) -> Plan:
    """With `chains`, some regions are chains of replicas; without, none is."""
    number, seed = seed, derive_seed(seed, "chains") if chains else seed
    rng = _rng(seed, "geoplex")
    regions = _draw_chains(rng) if chains else _draw_regions(rng)
    names = [region.name for region in regions]
    streams = _draw_streams(rng, regions)
    edges = _draw_edges(_rng(seed, "edges"), names, [stream.name for stream in streams])
    if chains and number % _IN_A_HURRY == _IN_A_HURRY - 1:
        edges = _hurry(_rng(seed, "hurry"), edges)
    sync_ns = _rng(seed, "sync").choice((0, 2 * MS, 30 * MS))
    least = _least_portion(edges, sync_ns)
    proxy = _draw_proxy(_rng(seed, "proxy"), least, _largest_publication(edges))
    targets = Targets(
        regions={region.name: region.replicas for region in regions},
        edges=[edge.name for edge in edges],
    )
    return Plan(
        seed=number,
        regions=regions,
        links=_draw_links(rng, names),
        streams=streams,
        edges=tuple(_with_windows(edge, least) for edge in edges),
        proxy=_draw_chain_times(_rng(seed, "chain"), proxy) if chains else proxy,
        agent=_draw_agent(_rng(seed, "agent"), least),
        client=_draw_client(_rng(seed, "client")),
        conditions=_draw_conditions(_rng(seed, "conditions")),
        bandwidth=_draw_bandwidth(_rng(seed, "bandwidth")),
        sync_ns=sync_ns,
        segment_bytes=_rng(seed, "segments").choice((4096, 16 << 10, 1 << 20)),
        check_addresses=_rng(seed, "addresses").random() < 0.25,
        faults=(
            *draw_faults(
                _rng(seed, "faults"), targets, CHAIN_KINDS if chains else KINDS, TROUBLE_NS
            ),
            *_draw_moves(_rng(seed, "moves"), regions, streams),
            *draw_disk_trouble(
                _rng(seed, "disk trouble"),
                {region.name: region.replicas for region in regions if region.on_files},
                TROUBLE_NS,
            ),
        ),
        trouble_ends_ns=TROUBLE_ENDS_NS,
        publishing_ends_ns=PUBLISHING_ENDS_NS,
        converges_within_ns=CONVERGES_WITHIN_NS,
    )


def _draw_moves(
    rng: Random, regions: tuple[PlannedRegion, ...], streams: tuple[PlannedStream, ...]
) -> tuple[Fault, ...]:
    """Only what no crash can take away is moved: what else may be lost depends on who owns it, and
    when, which nobody but the protocol itself could say."""
    lasting = [region.name for region in regions if region.on_files]
    synced = {stream.name: stream.owner for stream in streams if stream.ack == "disk"}
    return draw_moves(rng, synced, lasting, TROUBLE_NS)


def _least_portion(edges: tuple[PlannedEdge, ...], sync_ns: int) -> int:
    """Bytes that must fit a window or a chunk, so that whoever fetches everything from a disk, one
    after the other and some of it lost on the way, is done in a few seconds."""
    volume = 0
    for edge in edges:
        if edge.publishing is not None:
            plan = edge.publishing
            times = (PUBLISHING_ENDS_NS - plan.from_ns) // plan.every_ns
            volume += times * (100 + plan.batch * (plan.size_bytes + 40))
    return volume * (sync_ns + 25 * MS) // (5 * SECOND)


def _largest_publication(edges: tuple[PlannedEdge, ...]) -> int:
    plans = [edge.publishing for edge in edges if edge.publishing is not None]
    return max(1000 + plan.batch * (plan.size_bytes + 40) for plan in plans)


def _with_windows(edge: PlannedEdge, least: int) -> PlannedEdge:
    return structs.replace(
        edge,
        subscribed=tuple(
            Subscribed(each.stream, max(each.window_bytes, least)) for each in edge.subscribed
        ),
    )


def _rng(seed: int, purpose: str) -> Random:
    return Random(derive_seed(seed, "campaign", purpose))


# -- the geoplex ---------------------------------------------------------------------------------


def _draw_regions(rng: Random) -> tuple[PlannedRegion, ...]:
    count = rng.choice((1, 2, 2, 3, 3, 4, 5))
    return tuple(
        PlannedRegion(name=f"r{at + 1}", on_files=rng.random() < 0.85) for at in range(count)
    )


def _draw_chains(rng: Random) -> tuple[PlannedRegion, ...]:
    """At least the first one."""
    return tuple(
        PlannedRegion(
            name=f"r{at + 1}",
            on_files=rng.random() < 0.85,
            replicas=rng.choice((1, 1, 2, 3)) if at else rng.choice((2, 3, 3)),
        )
        for at in range(rng.choice((1, 1, 2, 2, 3)))
    )


def _draw_links(rng: Random, regions: list[str]) -> tuple[PlannedLink, ...]:
    return tuple(
        PlannedLink(
            source=one,
            target=other,
            latency_ms=rng.choice((1, 15, 40, 110)),
            loss=rng.choice((0.0, 0.0, 0.0, 0.02)),
        )
        for one, other in combinations(regions, 2)
    )


def _draw_streams(rng: Random, regions: tuple[PlannedRegion, ...]) -> tuple[PlannedStream, ...]:
    streams = []
    for at in range(rng.randint(1, 3)):
        owner = rng.choice(regions)
        ack = rng.choice(("disk", "disk", "disk", "interval", "memory"))
        policy = rng.choice(("", "latest", "latest", "last_n", "both", "age"))
        streams.append(
            PlannedStream(
                name=f"s{at + 1}",
                owner=owner.name,
                ack=ack if owner.on_files else "memory",
                latest_per_key=policy in ("latest", "both"),
                last_n={"last_n": 40, "both": 300}.get(policy),
                max_age_ms=1500 if policy == "age" else None,
            )
        )
    return tuple(streams)


# -- the edges -----------------------------------------------------------------------------------


def _draw_edges(rng: Random, regions: list[str], streams: list[str]) -> tuple[PlannedEdge, ...]:
    edges: list[PlannedEdge] = []
    for region in regions:
        for at in range(rng.randint(1, 3)):
            joins = rng.choice((0, 0, rng.randrange(PUBLISHING_ENDS_NS)))
            kind = rng.choice(("agent", "agent", "client", "sidecar"))
            name = f"{region}/{kind}{at + 1}"
            if kind != "sidecar":
                edges.append(_draw_edge(rng, name, kind, region, joins, streams))
                continue
            hears = rng.random() < 0.5
            edges.append(_draw_edge(rng, name, kind, region, joins, streams if hears else []))
            edges += (
                _draw_edge(rng, f"{name}/c{n + 1}", "client", region, joins, streams, at=name)
                for n in range(rng.randint(1, 2))
            )
    for at in range(rng.randint(1, 3)):
        edges.append(_draw_publisher(rng, f"p{at + 1}", regions, streams, edges))
    return tuple(edges)


def _draw_edge(
    rng: Random, name: str, kind: str, region: str, joins: int, streams: list[str], at: str = ""
) -> PlannedEdge:
    wanted = [stream for stream in streams if rng.random() < 0.8] or streams[:1]
    if wanted and rng.random() < 0.2:
        wanted.append(wanted[0])  # the same one twice
    stalls: tuple[tuple[int, int], ...] = ()
    if rng.random() < 0.2:
        begin = joins + rng.randrange(4 * SECOND)
        stalls = ((begin, begin + rng.randrange(3 * SECOND)),)
    return PlannedEdge(
        name=name,
        kind=kind,
        region=region,
        joins_ns=joins,
        at=at,
        subscribed=tuple(
            Subscribed(stream, rng.choice((2000, 20_000, 1 << 20))) for stream in wanted
        ),
        delay_ns=rng.choice((0, 0, 5 * MS, 50 * MS)),
        stalls=stalls,
    )


def _draw_publisher(
    rng: Random, name: str, regions: list[str], streams: list[str], edges: list[PlannedEdge]
) -> PlannedEdge:
    sidecars = [edge for edge in edges if edge.kind == "sidecar" and not edge.joins_ns]
    at = rng.choice(sidecars) if sidecars and rng.random() < 0.3 else None
    batch = rng.choice((1, 7, 7, 60, 500))
    size = rng.choice((0, 100, 1500))
    level = rng.choice(("", "", "", "regions=1")) if len(regions) > 1 else ""
    return PlannedEdge(
        name=name,
        kind="client" if at is not None else rng.choice(("client", "client", "agent")),
        region=at.region if at is not None else rng.choice(regions),
        at=at.name if at is not None else "",
        publishing=Publishing(
            streams=tuple(rng.sample(streams, rng.randint(1, len(streams)))),
            batch=batch,
            every_ns=rng.choice((50, 100, 300)) * MS * (6 if batch == 500 else 1),
            from_ns=rng.randrange(2 * SECOND),
            level=level,
            keys=rng.choice((0, 5, 100)),
            size_bytes=min(size, 50) if batch > 50 else size,
            gc_share=rng.choice((0.0, 0.05)),
            repeats=rng.random() < 0.5,
        ),
    )


def _hurry(rng: Random, edges: tuple[PlannedEdge, ...]) -> tuple[PlannedEdge, ...]:
    found = []
    for edge in edges:
        plan = edge.publishing
        if plan is not None:
            every_ns, size_bytes = rng.choice((7, 19, 31)) * MS, min(plan.size_bytes, 100)
            plan = structs.replace(plan, batch=1, every_ns=every_ns, size_bytes=size_bytes)
        found.append(structs.replace(edge, publishing=plan))
    return tuple(found)


# -- parameters ----------------------------------------------------------------------------------


def _draw_proxy(rng: Random, least: int, largest: int) -> ProxyConfig:
    view_size = rng.choice((3, 20))
    return ProxyConfig(
        view_size=view_size,
        fanout=rng.choice((1, 3)),
        ride_bytes=rng.choice((0, 1024)),
        answer_bytes=max(least, rng.choice((4096, 512 << 10))),
        advertise_every_ns=rng.choice((50, 100, 250)) * MS,
        hysteresis=rng.choice((0.0, 10.0, 1000.0)),
        silence=rng.choice((3, 5)),
        reconnect_every_ns=rng.choice((100, 500)) * MS,
        heartbeat_every_ns=rng.choice((200, 500)) * MS,
        chunk_bytes=max(least, rng.choice((1000, 256 << 10))),
        window_bytes=rng.choice((50_000, 8 << 20)),
        recent_bytes=rng.choice((0, 3000, 8 << 20)),
        # With room for less than a few, publishers go on one by one, a round trip each.
        max_unstable_bytes=rng.choice((10 * largest, 48 << 20)),
    )


def _draw_chain_times(rng: Random, proxy: ProxyConfig) -> ProxyConfig:
    return structs.replace(
        proxy,
        beat_every_ns=rng.choice((50, 100, 150)) * MS,
        suspect_after_ns=rng.choice((400, 600, 1000)) * MS,
        broken_after_ns=rng.choice((50, 150)) * MS,
        resume_after_ns=rng.choice((1, 3)) * SECOND,
        handover_within_ns=rng.choice((500, 2000)) * MS,
    )


def _draw_agent(rng: Random, least: int) -> AgentConfig:
    return AgentConfig(
        view_size=rng.choice((2, 20)),
        fanout=rng.choice((1, 2)),
        shuffle_time_ns=rng.choice((30, 1000)) * MS,
        ride_bytes=rng.choice((0, 1024)),
        answer_bytes=max(least, rng.choice((4096, 512 << 10))),
        request_timeout_ns=rng.choice((100, 300)) * MS,
        buffer_bytes=rng.choice((1, 3000, 16 << 20)),
        early_bytes=rng.choice((1, 3000, 4 << 20)),
        follow_all=rng.random() < 0.3,
        acknowledge_within_ns=rng.choice((1, 5)) * SECOND,
        max_unacknowledged_events=rng.choice((500, 1 << 20)),
    )


def _draw_client(rng: Random) -> ClientConfig:
    return ClientConfig(
        reconnect_every_ns=rng.choice((100, 500)) * MS,
        acknowledge_within_ns=rng.choice((1, 5)) * SECOND,
        max_unacknowledged_events=rng.choice((500, 1 << 20)),
    )


def _draw_conditions(rng: Random) -> Conditions:
    return Conditions(
        loss=rng.choice((0.0, 0.0, 0.02)),
        duplication=rng.choice((0.0, 0.1)),
        reordering=rng.choice((0.0, 0.2)),
        break_after_ns=rng.choice((1, 5)) * SECOND,
    )


def _draw_bandwidth(rng: Random) -> Bandwidth | None:
    return Bandwidth(3_000_000, 3_000_000, 120_000) if rng.random() < 0.25 else None
