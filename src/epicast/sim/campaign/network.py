"""Cuts and weather: several of each may be there at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from epicast.core import NodeId
from epicast.sim.network import Conditions
from epicast.sim.simulation import Simulation

if TYPE_CHECKING:
    from epicast.sim.campaign.faults import Weather

Cut = Callable[[NodeId, NodeId], bool]


class NetworkTrouble:
    def __init__(self, simulation: Simulation, normal: Conditions) -> None:
        self._simulation = simulation
        self._normal = normal
        self._cuts: list[Cut] = []
        self._weather: list[Weather] = []

    def cut(self, ways: set[tuple[NodeId, NodeId]], until_ns: int) -> None:
        def is_cut(source: NodeId, target: NodeId) -> bool:
            return (source, target) in ways

        self._cuts.append(is_cut)
        self._simulation.network.cut(is_cut)
        self._simulation.scheduler.at(until_ns, self._mend, is_cut)

    def _mend(self, cut: Cut, _: object = None) -> None:
        if cut in self._cuts:
            self._cuts.remove(cut)
            self._simulation.network.mend(cut)

    def begin(self, weather: Weather) -> None:
        self._weather.append(weather)
        self._apply_weather()

    def end(self, weather: Weather) -> None:
        if weather in self._weather:
            self._weather.remove(weather)
            self._apply_weather()

    def _apply_weather(self) -> None:
        normal = self._normal
        worst = {
            name: max(getattr(each, name) for each in (normal, *self._weather))
            for name in ("loss", "duplication", "reordering")
        }
        self._simulation.network.set_conditions(structs.replace(normal, **worst))

    def heal(self) -> None:
        for cut in list(self._cuts):
            self._mend(cut)
        self._weather.clear()
        self._apply_weather()
