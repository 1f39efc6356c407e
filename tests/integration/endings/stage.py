"""A geoplex of real processes, and the ways in which each of them ends and comes back.

`us` is a chain of three replicas, `eu` a single proxy, and each region has a sidecar. All of them
come back at the address that they had.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from epicast.deployment import Geoplex, parse_geoplex
from epicast.experiments.geo_load import wait_for_chains
from epicast.experiments.nemesis.sidecar import serve_sidecar
from epicast.experiments.parts import Part, Team
from epicast.geo.local import LocalGeoplex
from epicast.geo.ports import free_ports
from tests.geo.support import QUICK, eventually

REPLICAS = ("us/1", "us/2", "us/3")
STREAMS = {"orders": "us", "prices": "eu"}
"""The owner of each stream. An acknowledged event is on the disks of its chain's members."""
STOPPED_S = 1.5
"""Longer than a chain or a client waits for a silent node. The nemesis stops for longer."""
START_S = 60.0


def geoplex_text(data: Path) -> str:
    ports = free_ports(4)
    addresses = [f"127.0.0.1:{port}" for port in ports[:3]]
    streams = "".join(f'[streams.{n}]\nowner = "{o}"\nack = "disk"\n' for n, o in STREAMS.items())
    return f"""
name = "endings"
[regions.us]
replicas = {addresses}
data = "us"
[regions.eu]
proxy = "127.0.0.1:{ports[3]}"
data = "eu"
{streams}{QUICK}
[agents]
reconnect_every = "50ms"
"""


class Stage:
    def __init__(self, local: LocalGeoplex, team: Team) -> None:
        self.local = local
        self._team = team
        self._ports = dict(zip(("us", "eu"), free_ports(2), strict=True))
        self._sidecars: dict[str, Part] = {}

    @property
    def geoplex(self) -> Geoplex:
        return self.local.geoplex

    def sidecar_address(self, region: str) -> str:
        return f"epicast://127.0.0.1:{self._ports[region]}"

    def start_sidecar(self, region: str) -> None:
        port = self._ports[region]
        part = self._team.start(serve_sidecar, self.geoplex, region, port)
        self._sidecars[region] = part
        assert part.hear(START_S) == "ready"

    def replica_at(self, place: int) -> str:
        statuses = self.local.status()
        return next(
            name for name in REPLICAS if int(statuses[name].protocol["chain_place"]) == place
        )

    def is_whole(self) -> bool:
        statuses = self.local.status()
        found = [int(statuses[name].protocol["chain_place"]) for name in REPLICAS]
        return sorted(found) == [0, 1, 2]

    def wait_whole(self) -> None:
        eventually(self.is_whole, "the chain is not whole")


class Process(NamedTuple):
    """A kind of process: which one is ended, and how it is started again."""

    pid: Callable[[Stage], tuple[str, int]]
    """The present name of the process, and its id."""
    start: Callable[[Stage, str], None]
    gone: Callable[[Stage, str], bool]


def _proxy(stage: Stage, name: str) -> tuple[str, int]:
    return name, stage.local.processes[name]


def _sidecar(stage: Stage, region: str) -> tuple[str, int]:
    return region, stage._sidecars[region].pid


def _proxy_is_gone(stage: Stage, name: str) -> bool:
    return name not in stage.local.processes


def _sidecar_is_gone(stage: Stage, region: str) -> bool:
    return not stage._sidecars[region].is_running


def _replica(place: int) -> Process:
    return Process(
        lambda stage: _proxy(stage, stage.replica_at(place)),
        lambda stage, name: stage.local.start(name),
        _proxy_is_gone,
    )


PROCESSES = {
    "a single proxy": Process(
        lambda stage: _proxy(stage, "eu"), lambda stage, name: stage.local.start(name),
        _proxy_is_gone,
    ),
    "the head of a chain": _replica(0),
    "the middle of a chain": _replica(1),
    "the tail of a chain": _replica(2),
    "a sidecar": Process(
        lambda stage: _sidecar(stage, "us"), lambda stage, region: stage.start_sidecar(region),
        _sidecar_is_gone,
    ),
}  # fmt: skip
"""Every row is both: the owner of one stream, or a way to it, and another region for the other."""


def killed(stage: Stage, process: Process) -> None:
    _end(stage, process, signal.SIGKILL)


def ended_in_good_order(stage: Stage, process: Process) -> None:
    _end(stage, process, signal.SIGTERM)


def stopped(stage: Stage, process: Process) -> None:
    _, pid = process.pid(stage)
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(STOPPED_S)
    finally:
        os.kill(pid, signal.SIGCONT)


def _end(stage: Stage, process: Process, number: signal.Signals) -> None:
    name, pid = process.pid(stage)
    os.kill(pid, number)
    eventually(lambda: process.gone(stage, name), f"{name} does not end")
    process.start(stage, name)


ENDINGS = {"killed": killed, "in good order": ended_in_good_order, "stopped": stopped}


@contextmanager
def staged(data: Path) -> Iterator[Stage]:
    geoplex = parse_geoplex(geoplex_text(data), "endings.toml", str(data))
    with Team() as team, LocalGeoplex(geoplex) as local:
        wait_for_chains(local)
        stage = Stage(local, team)
        for region in ("us", "eu"):
            stage.start_sidecar(region)
        yield stage
