"""A process of EpTO is killed for two seconds; or the fixed sequencer is.

Not of the paper. Every two processes are always the same distance apart. A row is a round of
publications: how long they took to every process but the one that was killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

import numpy as np

from epicast.core import Peer
from epicast.experiments.epto_sequencer import SYSTEMS
from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.ordered_rounds import PERIOD_TICKS, TICK_NS, OrderedSystem, Setting
from epicast.experiments.results import Results
from epicast.experiments.sequenced_rounds import SequencedSystem
from epicast.reporting import new_figure

_SIZES = {
    Scale.SMOKE: (16, 0.5, 36, 1),
    Scale.PAPER: (200, 0.1, 60, 5),
    Scale.BEYOND: (1000, 0.05, 60, 1),
}
"""Processes, rate, rounds, repetitions."""
KILLED_IN_ROUND = 12
_PERIOD_NS = PERIOD_TICKS * TICK_NS
_OUTAGE_NS = 2000 * TICK_NS


class EptoOutage(Experiment):
    name = "epto-outage"
    title = "EpTO and a fixed sequencer: delays while a process, or the sequencer, is down for 2 s"
    claim_ids = ()

    def points(self, scale: Scale) -> Sequence[Parameters]:
        processes, rate, rounds, repetitions = _SIZES[scale]
        return [
            {"processes": processes, "rate": rate, "rounds": rounds, "repetition": number}
            for number in range(repetitions)
        ]

    def run(self, parameters: Parameters, seed: int) -> Sequence[Row]:
        setting = Setting(
            processes=int(parameters["processes"] or 0),
            rate=float(parameters["rate"] or 0),
            latency="pair",
            rounds=int(parameters["rounds"] or 0),
        )
        return [*_epto(setting, seed), *_sequencer(setting, seed)]

    def claims(self, results: Results) -> Sequence[Claim]:
        return []

    def plots(self, results: Results) -> Sequence[Plot]:
        figure, axes = new_figure("round of publication", "mean delay (ticks)")
        for system in SYSTEMS:
            found = results.where(system=system)
            rounds = sorted({int(number) for number in found.numbers("round")})
            delays = [mean(found.where(round=number).numbers("delay")) for number in rounds]
            axes.plot(rounds, delays, ".-", label=system)
        down = KILLED_IN_ROUND + _OUTAGE_NS / _PERIOD_NS
        axes.axvspan(KILLED_IN_ROUND, down, color="0.9", label="down")
        axes.set_ylim(bottom=0)
        axes.legend()
        return [Plot("outage", "Delay of what is published before, while and after.", figure)]


def _epto(setting: Setting, seed: int) -> list[Row]:
    """Nobody is told: balls to the process are lost, and it joins again when it is back."""
    system = OrderedSystem(setting, seed, watched=False)
    simulation = system.simulation
    killed = simulation.nodes[system.stable.pop()]
    contacts = [Peer(system.stable[0])]
    at = KILLED_IN_ROUND * _PERIOD_NS
    simulation.scheduler.at(at, lambda *_: simulation.crash(killed))
    simulation.scheduler.at(at + _OUTAGE_NS, lambda *_: simulation.start(killed, contacts))
    system.run()
    return _rows("epto", system, 0, sum(system.holes().values()))


def _sequencer(setting: Setting, seed: int) -> list[Row]:
    system = SequencedSystem(setting, seed)
    begin = system.simulation.now
    system.kill_sequencer(begin + KILLED_IN_ROUND * _PERIOD_NS, _OUTAGE_NS)
    system.run()
    return _rows("sequencer", system, begin, system.missing)


def _rows(
    name: str, system: OrderedSystem | SequencedSystem, begin: int, missing: int
) -> list[Row]:
    events, times = system.deliveries()
    published = system.published_at[events]
    delays = (times - published) / TICK_NS
    rounds = (published - begin) // _PERIOD_NS
    return [
        {
            "system": name,
            "round": int(number),
            "delay": float(delays[rounds == number].mean()),
            "delay_max": float(delays[rounds == number].max()),
            "missing": missing,
        }
        for number in np.unique(rounds)
    ]
