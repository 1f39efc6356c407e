"""What happens when, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import quantiles

from msgspec import Struct

from epicast.cli.story.casting import Cast
from epicast.cli.story.parts import CacheTask, DatabaseTask, Task, Writing
from epicast.deployment import Geoplex, parse_geoplex
from epicast.geo.local import LocalGeoplex
from epicast.runtime.relay import LinkRelay
from epicast.runtime.waiting import BackgroundLoop

REGIONS = ("us", "eu", "ap")
SLOW, LATE = "eu/slow", "ap/late"
Say = Callable[[str], object]


class Plot(Struct, frozen=True, kw_only=True):
    """Seconds since publishing began."""

    cut_s: float = 5.0
    late_s: float = 8.0
    restore_s: float = 11.0
    slow_until_s: float = 14.0
    end_s: float = 18.0
    drain_s: float = 20.0
    """After which whatever is missing counts as lost."""
    rate: int = 2000
    """Events per second and region."""
    keys: int = 10_000
    skew: float = 1.1
    evidence: str | None = None
    """Folder in which everybody writes down what happens."""


class Ending(Struct, frozen=True, kw_only=True):
    published: int
    caches: int
    owed: int
    delivered: int
    tombstoned: int
    lost: int
    out_of_order: int
    caches_in_step: int
    """With exactly the contents of the database."""
    detours: int
    """How often a region took a stream from another source."""
    gc_saving: float
    deliveries_per_s: float
    delay_p50_ms: float
    delay_p99_ms: float
    seconds: float

    @property
    def good(self) -> bool:
        return not self.lost and not self.out_of_order and self.caches_in_step == self.caches


class Scene(Struct, kw_only=True):
    """For whoever watches."""

    seconds: float
    published: int
    delivered: int
    tombstoned: int
    behind: dict[str, int]
    """The caches that are behind, and by how many events."""
    link: str


def document(relay_ports: tuple[int, int], evidence: str | None = None) -> str:
    """Three regions with a stream each; the way between us and eu can be cut, in both directions
    of dialing."""
    lines = ['name = "demo"']
    for port, name in enumerate(REGIONS, 1):
        lines += [f"[regions.{name}]", f'proxy = "127.0.0.1:{port}"']
        lines += [f"[streams.{name}-invalidations]", f'owner = "{name}"', "latest_per_key = true"]
    for (source, target), port in zip((("us", "eu"), ("eu", "us")), relay_ports, strict=True):
        lines += ["[[links]]", f'from = "{source}"', f'to = "{target}"']
        lines += [f'via = "127.0.0.1:{port}"']
    if evidence is not None:
        lines += ["[evidence]", f'folder = "{evidence}"']
    return "\n".join(lines)


def play(plot: Plot, say: Say, watch: Callable[[Scene], object]) -> Ending:
    loop = BackgroundLoop("links")
    relays = [loop.run(_opened()) for _ in range(2)]
    try:
        text = document((relays[0].port, relays[1].port), plot.evidence)
        geoplex = parse_geoplex(text, "demo")
        say("Starting three regions, a proxy each: us, eu, ap …")
        with LocalGeoplex(geoplex, any_ports=True, say=say) as local, Cast() as cast:
            for relay, target in zip(relays, ("eu", "us"), strict=True):
                address = local.geoplex.region(target).address
                relay.target = (address.host, address.port)
            return _Director(plot, local, cast, relays, say, watch).direct()
    finally:
        for relay in relays:
            loop.run(relay.close())
        loop.close()


async def _opened() -> LinkRelay:
    relay = LinkRelay()
    await relay.open()
    return relay


class _Director:
    def __init__(
        self,
        plot: Plot,
        local: LocalGeoplex,
        cast: Cast,
        relays: list[LinkRelay],
        say: Say,
        watch: Callable[[Scene], object],
    ) -> None:
        self._plot = plot
        self._local = local
        self._geoplex: Geoplex = local.geoplex
        self._cast = cast
        self._relays = relays
        self._say = say
        self._watch = watch
        self._streams = list(self._geoplex.streams)
        self._began = 0.0
        self._link = "us–eu up"

    def direct(self) -> Ending:
        plot = self._plot
        self._start_caches()
        self._start_database()
        events: list[tuple[float, Callable[[], None]]] = [
            (plot.cut_s, self._cut),
            (plot.late_s, self._join_late),
            (plot.restore_s, self._restore),
        ]
        for at, happen in events:
            self._wait(at)
            happen()
        self._wait(plot.end_s)
        while not self._cast.database.done and self._passed < plot.end_s + plot.drain_s:
            self._look()
        self._say("All published; waiting until every cache has everything …")
        self._cast.finish(self._cast.database.heads)
        deadline = self._passed + plot.drain_s
        while self._passed < deadline and not all(c.done for c in self._cast.caches.values()):
            self._look()
        return self._ending()

    # -- what happens ----------------------------------------------------------------------------

    def _start_caches(self) -> None:
        for region in REGIONS:
            names = [f"{region}/cache-{number}" for number in (1, 2)]
            tasks = [self._cache(name) for name in names]
            if region == "eu":
                tasks.append(self._cache(SLOW, self._plot.slow_until_s))
            self._cast.start(f"caches in {region}", Task(tasks))
        self._say("Starting two caches in each region, and one in eu that is slow …")

    def _start_database(self) -> None:
        plot = self._plot
        # What belongs to ap is written in eu: it reaches its owner through the proxy there.
        homes = {"us": "us", "eu": "eu", "ap": "eu"}
        writings = [
            Writing(f"{region}-invalidations", self._local.address(homes[region]), seed)
            for seed, region in enumerate(REGIONS, 1)
        ]
        task = DatabaseTask(writings, plot.rate, plot.end_s, plot.keys, plot.skew, plot.evidence)
        self._cast.start("the database", Task(database=task))
        while not self._cast.database.published:
            self._cast.listen(0.1)
        self._began = time.monotonic()
        self._say(
            f"Invalidating {len(REGIONS) * plot.rate:,} keys per second, out of {plot.keys:,}, "
            f"Zipf {plot.skew} …"
        )

    def _cut(self) -> None:
        self._say("The link between us and eu is cut: nothing passes, nobody is told.")
        self._link = "us–eu CUT"
        for relay in self._relays:
            relay.cut()

    def _join_late(self) -> None:
        self._say("Another cache starts in ap, from the very beginning.")
        self._cast.start("the late cache", Task([self._cache(LATE)]))

    def _restore(self) -> None:
        self._say("The link between us and eu is back.")
        self._link = "us–eu up"
        for relay in self._relays:
            relay.restore()

    def _cache(self, name: str, slow_s: float = 0.0) -> CacheTask:
        address = self._local.address(name.partition("/")[0])
        return CacheTask(name, address, self._streams, slow_s, self._plot.evidence)

    # -- watching --------------------------------------------------------------------------------

    @property
    def _passed(self) -> float:
        return time.monotonic() - self._began

    def _wait(self, until_s: float) -> None:
        while self._passed < until_s:
            self._look()

    def _look(self) -> None:
        self._cast.listen(0.1)
        caches, heads = self._cast.caches.values(), self._cast.database.heads
        behind = {
            cache.name: sum(
                max(0, head - cache.watermarks.get(name, 0)) for name, head in heads.items()
            )
            for cache in caches
        }
        self._watch(
            Scene(
                seconds=self._passed,
                published=self._cast.database.published,
                delivered=sum(cache.delivered for cache in caches),
                tombstoned=sum(cache.tombstoned for cache in caches),
                behind={n: events for n, events in behind.items() if events > self._plot.rate},
                link=self._link,
            )
        )

    def _ending(self) -> Ending:
        seconds = self._passed
        database, caches = self._cast.database, list(self._cast.caches.values())
        head = sum(database.heads.values())
        delivered = sum(cache.delivered for cache in caches)
        tombstoned = sum(cache.tombstoned for cache in caches)
        reached = [sum(cache.watermarks.values()) for cache in caches]
        delays = self._cast.delays_us(without={SLOW, LATE}) or [0, 0]
        cuts = quantiles(delays, n=100)
        statuses = self._local.status().values()
        streams = [stream for status in statuses for stream in status.streams]
        collected = sum(stream.collected_events for stream in streams)
        total = collected + sum(stream.live_events for stream in streams)
        return Ending(
            published=database.published,
            caches=len(caches),
            owed=head * len(caches),
            delivered=delivered,
            tombstoned=tombstoned,
            lost=sum(head - end for end in reached)
            + abs(sum(reached) - delivered - tombstoned)
            + abs(head - database.published),
            out_of_order=sum(cache.out_of_order for cache in caches),
            caches_in_step=sum(cache.contents == database.contents for cache in caches),
            detours=sum(int(status.protocol["source_switches"]) for status in statuses),
            gc_saving=collected / total if total else 0.0,
            deliveries_per_s=(delivered + tombstoned) / seconds,
            delay_p50_ms=cuts[49] / 1000,
            delay_p99_ms=cuts[98] / 1000,
            seconds=seconds,
        )
