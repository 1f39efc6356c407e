"""Claim L3: what the view size does to reliability under load.

Figure 6 of the lpbcast paper: 125 processes, fanout 3, room for 60 events, 40 published per round,
random purging. Reliability is the probability of a given process delivering a given event.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

import numpy as np

from epicast.experiments.gossip_rounds import RoundSystem, paper_config, uniform_views
from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.results import Results
from epicast.experiments.verdicts import OURS
from epicast.protocols.lpbcast import Lpbcast
from epicast.reporting import new_figure

_WARM_UP, _DRAIN = 10, 12
_SYSTEMS = {
    # nodes, events per round, buffer, view sizes, rounds, repetitions
    Scale.SMOKE: (50, 16, 24, (6, 24), 12, 1),
    Scale.PAPER: (125, 40, 60, (10, 15, 20, 25, 30, 35), 40, 4),
    Scale.BEYOND: (1000, 40, 60, (15, 30, 60), 30, 1),
}
_SLIGHTLY = 0.05


class LpbcastViews(Experiment):
    name = "lpbcast-views"
    title = "lpbcast: reliability under load by view size"
    claim_ids = ("L3",)

    def points(self, scale: Scale) -> Sequence[Parameters]:
        nodes, rate, buffer, views, rounds, repetitions = _SYSTEMS[scale]
        return [
            {
                "view": view,
                "nodes": nodes,
                "rate": rate,
                "buffer": buffer,
                "rounds": rounds,
                "repetition": repetition,
            }
            for repetition in range(repetitions)
            for view in views
        ]

    def run(self, parameters: Parameters, seed: int) -> Row:
        nodes, view, rate, buffer, rounds = (
            int(parameters[name] or 0) for name in ("nodes", "view", "rate", "buffer", "rounds")
        )
        config = paper_config(view_size=view, max_events=buffer)
        system = RoundSystem(
            lambda peer, rng: Lpbcast(peer, config, rng),
            nodes,
            seed,
            views=uniform_views(nodes, view, seed),
        )
        system.run(_WARM_UP)
        system.run(rounds + _DRAIN, rate)
        # Neither those published into empty buffers nor those still under way.
        events = system.events_between(_WARM_UP + 5, _WARM_UP + rounds)
        reached = [system.reached(event) / nodes for event in events]
        return {"reliability": mean(reached), "events": len(events)}

    def claims(self, results: Results) -> Sequence[Claim]:
        found = _by_view(results)
        views, values = list(found), list(found.values())
        slope = float(np.polyfit(views, values, 1)[0])
        rise = slope * (views[-1] - views[0])
        return [
            Claim(
                id="L3",
                paper="reliability rises slightly with the view size",
                ours=", ".join(f"{value:.4f} at l = {view:g}" for view, value in found.items()),
                holds=0 < rise < _SLIGHTLY,
                detail=f"a straight line through them rises by {rise:+.4f} in all; slightly: by "
                f"less than {_SLIGHTLY}; {OURS}",
            )
        ]

    def plots(self, results: Results) -> Sequence[Plot]:
        figure, axes = new_figure("view size", "reliability")
        axes.plot(results.numbers("view"), results.numbers("reliability"), ".", label="runs")
        found = _by_view(results)
        axes.plot(list(found), list(found.values()), "-", label="mean")
        axes.legend()
        return [Plot("reliability", "Reliability by view size (Figure 6).", figure)]


def _by_view(results: Results) -> dict[float, float]:
    views = sorted({float(view) for view in results.numbers("view")})
    return {view: mean(results.where(view=view).numbers("reliability")) for view in views}
