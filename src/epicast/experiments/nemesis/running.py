"""A run from its beginning to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from epicast.core import ConfigError
from epicast.deployment import Geoplex
from epicast.experiments.geo_load import wait_for_chains
from epicast.experiments.nemesis.board import Board
from epicast.experiments.nemesis.geoplex import NAMES, make_geoplex
from epicast.experiments.nemesis.lanes import WHOLE_S, Lanes
from epicast.experiments.nemesis.links import Links
from epicast.experiments.nemesis.publisher import OVER, PublisherPlan, publish
from epicast.experiments.nemesis.schedule import Cast, Fault, draw_schedule
from epicast.experiments.nemesis.sidecar import serve_sidecar
from epicast.experiments.nemesis.stage import Clients, Stage
from epicast.experiments.nemesis.subscriber import PATIENCE_S, SubscriberPlan, inspect, subscribe
from epicast.experiments.nemesis.verdict import Load, Verdict, judge, verdict_of
from epicast.experiments.parts import Part, PartFailed, Team
from epicast.geo.local import LocalGeoplex
from epicast.geo.ports import free_ports

_HOME = 0.8
"""The share of what a publisher publishes that goes to the stream of its own region."""
_TELL_EVERY_S = 5.0
_LOOK_EVERY_S = 0.2
_READY_S = 120.0
_MORE_S = 30.0

Say = Callable[[str], object]


class Settings(Struct, frozen=True, kw_only=True):
    seconds: float
    seed: int = 1
    regions: int = 3
    replicas: int = 3
    rate: int = 200_000
    """Events per second, of all publishers together."""
    rows: int = 1000
    """Events of a batch."""
    sidecars: bool = True
    """Each region has one, with a publisher and a subscriber of its own."""

    def __post_init__(self) -> None:
        if not 1 <= self.regions <= len(NAMES):
            raise ConfigError(f"regions: {self.regions} is not 1 to {len(NAMES)}")
        for name in ("replicas", "rate", "rows"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: {getattr(self, name)} is not at least 1")

    @property
    def cast(self) -> Cast:
        names = NAMES[: self.regions]
        sidecars = tuple(f"sidecar-{name}" for name in names) if self.sidecars else ()
        places = (*names, *sidecars)
        clients = [f"{role}-{place}" for role in ("publisher", "subscriber") for place in places]
        return Cast(names, self.replicas, tuple(clients), sidecars)

    def schedule(self) -> list[Fault]:
        return draw_schedule(self.seed, self.seconds, self.cast)


class Run:
    """`folder` gets everything: data, logs, the schedule, what was done when, the verdict."""

    def __init__(
        self, settings: Settings, folder: Path, *, schedule: list[Fault] | None = None,
        say: Say = lambda _: None,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._cast = settings.cast
        self._folder = folder
        self._schedule = settings.schedule() if schedule is None else schedule
        self._tell_user = say
        self._began = time.monotonic()
        self._logs = folder / "logs"
        self._troubles: list[str] = []
        self._places = (*self._cast.regions, *self._cast.sidecars)
        """Regions and sidecars; each has clients attached to it."""
        self._sidecar_ports = dict(
            zip(self._cast.sidecars, free_ports(len(self._cast.sidecars)), strict=True)
        )
        self._crowd = (len(self._places), len(self._places))
        self._board_file = folder / "board"

    def run(self, *, quiet: bool = False) -> Verdict:
        folder = self._folder
        for name in ("data", "logs"):
            (folder / name).mkdir(parents=True)
        (folder / "schedule.txt").write_text("".join(f"{fault}\n" for fault in self._schedule))
        self._board = Board(self._board_file, *self._crowd, self._settings.regions)
        with (folder / "proxies.log").open("wb") as errors, Team() as team:
            replicas = {name: self._cast.replicas_of(name) for name in self._cast.regions}
            links = Links(team, replicas)
            geoplex = make_geoplex(replicas, links.ways, links.doors, folder / "data")
            with LocalGeoplex(geoplex, errors=errors, say=self._say) as local:
                load, lanes = self._perform(team, local, links)
        self._say("the checker reads what everybody has written down …")
        report = judge(self._logs, folder / "checker.json", folder, quiet=quiet)
        return verdict_of(
            report, seed=self._settings.seed, load=load, refused=self._board.refused(),
            faults=[fault.kind for fault in lanes.done], troubles=self._troubles,
        )  # fmt: skip

    # -- the parts of a run ----------------------------------------------------------------------

    def _perform(self, team: Team, local: LocalGeoplex, links: Links) -> tuple[Load, Lanes]:
        regions = self._cast.regions
        links.lead_to(_places(local.geoplex))
        wait_for_chains(local)
        clients = Clients(lambda name: self._start_client(team, local, name))
        for names in (self._cast.sidecars, self._cast.clients):
            for name in names:
                clients.begin(name)
            for name in names:
                clients.parts[name].hear(_READY_S)
        stage = Stage(self._cast, local, links, clients, self._say)
        self._began = time.monotonic()
        lanes = Lanes(stage, self._schedule, regions, self._began, self._say)
        lanes.start()
        before = self._board.acked()
        self._watch(stage, self._began + self._settings.seconds)
        load = Load(time.monotonic() - self._began, self._board.acked() - before)
        lanes.finish()
        for region in regions:
            try:
                took = stage.wait_whole(region, WHOLE_S, lambda: False)
                self._say(f"the chain of {region} is whole after {took:.1f} s")
            except Exception as error:
                self._trouble(str(error))
        self._drain(team, local, clients)
        self._troubles += lanes.troubles
        self._troubles += [f"{name} ended by itself" for name in stage.deaths]
        return load, lanes

    def _watch(self, stage: Stage, end: float) -> None:
        told, before = time.monotonic(), self._board.acked()
        while (now := time.monotonic()) < end:
            time.sleep(_LOOK_EVERY_S)
            stage.revive()
            if now - told >= _TELL_EVERY_S:
                acked = self._board.acked()
                rate = (acked - before) / (now - told)
                self._say(f"{acked:,} acknowledged, {rate:,.0f} per second")
                told, before = now, acked

    def _drain(self, team: Team, local: LocalGeoplex, clients: Clients) -> None:
        """Everybody gets everything, if it can be got."""
        publishers = [name for name in self._cast.clients if name.startswith("publisher")]
        subscribers = [name for name in self._cast.clients if name.startswith("subscriber")]
        self._end_clients(clients, publishers, OVER)
        ends = self._board.ends()
        self._say("publishers have ended; subscribers get the rest …")
        self._end_clients(clients, subscribers, ends)
        addresses = [
            (replica.name, f"epicast://{replica.listen}") for replica in local.geoplex.replicas
        ]
        self._say("what every replica has is read …")
        for name in self._cast.sidecars:
            if not clients.parts[name].is_running:
                self._trouble(f"{name} ended by itself")
        late = team.start(inspect, addresses, self._cast.regions, ends, self._logs)
        for name, _ in addresses:
            self._hear(f"reader of {name}", late)

    def _end_clients(self, clients: Clients, names: list[str], word: object) -> None:
        for name in names:
            try:
                clients.parts[name].tell(word)
            except PartFailed as error:
                self._trouble(f"{name}: {error}")
        for name in names:
            self._hear(name, clients.parts[name])

    def _hear(self, name: str, part: Part) -> None:
        try:
            while (said := part.hear(PATIENCE_S + _MORE_S)) == "ready":
                pass  # it was started again
        except PartFailed as error:
            self._trouble(f"{name}: {error}")
        else:
            for text in said:
                self._trouble(text)

    def _start_client(self, team: Team, local: LocalGeoplex, name: str) -> Part:
        role, _, place = name.partition("-")
        if role == "sidecar":
            return team.start(serve_sidecar, local.geoplex, place, self._sidecar_ports[name])
        number = self._places.index(place)
        at_proxy = place in self._cast.regions
        address = local.address(place) if at_proxy else self._address_of(place)
        rest = (self._cast.regions, self._board_file, self._crowd, self._logs)
        if role == "publisher":
            plan = PublisherPlan(name, number, address, self._rates(number), self._settings.rows)
            return team.start(publish, plan, *rest)
        agent = at_proxy and number > 0
        return team.start(subscribe, SubscriberPlan(name, number, address, agent), *rest)

    def _address_of(self, sidecar: str) -> str:
        return f"epicast://127.0.0.1:{self._sidecar_ports[sidecar]}"

    def _rates(self, publisher: int) -> tuple[int, ...]:
        regions = self._settings.regions
        home = publisher % regions
        each = self._settings.rate / len(self._places)
        away = each * (1 - _HOME) / (regions - 1) if regions > 1 else 0
        at_home = each * _HOME if regions > 1 else each
        return tuple(round(at_home if n == home else away) for n in range(regions))

    # -- talk ------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        line = f"{time.monotonic() - self._began:7.1f} s  {text}"
        with (self._folder / "nemesis.log").open("a") as log:
            log.write(f"{line}\n")
        self._tell_user(line)

    def _trouble(self, text: str) -> None:
        self._troubles.append(text)
        self._say(f"TROUBLE: {text}")


def _places(geoplex: Geoplex) -> dict[str, list[tuple[str, int]]]:
    """Where regions, with all their replicas, and single replicas listen."""
    single = {each.name: [(each.listen.host, each.listen.port)] for each in geoplex.replicas}
    regions = {
        name: [place for each in region.replicas for place in single[each.name]]
        for name, region in geoplex.regions.items()
    }
    return {**regions, **single}
