"""Which experiments there are. Each is imported only when somebody asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module

from epicast.core.errors import ConfigError
from epicast.experiments.model import Experiment

EXPERIMENTS: dict[str, str] = {
    # name: "module:class", one line per experiment
    "epto-churn": "epicast.experiments.epto_stress:EptoChurn",
    "epto-drift": "epicast.experiments.epto_stress:EptoDrift",
    "epto-early": "epicast.experiments.epto_early:EptoEarly",
    "epto-order": "epicast.experiments.epto_order:EptoOrder",
    "epto-outage": "epicast.experiments.epto_outage:EptoOutage",
    "epto-period": "epicast.experiments.epto_stress:EptoPeriod",
    "epto-sequencer": "epicast.experiments.epto_sequencer:EptoSequencer",
    "epto-views": "epicast.experiments.epto_stress:EptoViews",
    "gc-saving": "epicast.experiments.gc_saving:GcSaving",
    "gossip-memory": "epicast.experiments.gossip_memory:GossipMemory",
    "hyparview-flood": "epicast.experiments.hyparview_flood:HyParViewFlood",
    "key-ages": "epicast.experiments.key_ages:KeyAges",
    "lpbcast-membership": "epicast.experiments.lpbcast_membership:LpbcastMembership",
    "lpbcast-partition": "epicast.experiments.lpbcast_partition:LpbcastPartition",
    "lpbcast-purging": "epicast.experiments.lpbcast_purging:LpbcastPurging",
    "lpbcast-rounds": "epicast.experiments.lpbcast_rounds:LpbcastRounds",
    "lpbcast-views": "epicast.experiments.lpbcast_views:LpbcastViews",
    "pbcast-comparison": "epicast.experiments.pbcast_comparison:PbcastComparison",
    "peer-sampling": "epicast.experiments.peer_sampling:PeerSampling",
    "sprinkler-fanout": "epicast.experiments.sprinkler_fanout:SprinklerFanout",
    "sprinkler-link-cut": "epicast.experiments.sprinkler_link_cut:SprinklerLinkCut",
    "sprinkler-load": "epicast.experiments.sprinkler_load:SprinklerLoad",
    "sprinkler-processes": "epicast.experiments.sprinkler_processes:SprinklerProcesses",
}


class Registry:
    def __init__(self, locations: Mapping[str, str]) -> None:
        self._locations = dict(locations)

    def names(self) -> list[str]:
        return list(self._locations)

    def get(self, name: str) -> Experiment:
        if name not in self._locations:
            near = get_close_matches(name, self._locations, n=1)
            hint = f"did you mean '{near[0]}'?" if near else "see: epicast experiment list"
            raise ConfigError(f"there is no experiment '{name}'; {hint}")
        module, _, attribute = self._locations[name].partition(":")
        experiment = getattr(import_module(module), attribute)()
        assert isinstance(experiment, Experiment)
        assert experiment.name == name, f"{module} calls {name!r} {experiment.name!r}"
        return experiment

    def all(self) -> list[Experiment]:
        return [self.get(name) for name in self._locations]

    def covering(self, claim: str) -> Experiment:
        """The experiment that reports a claim."""
        everything = self.all()
        found = [one for one in everything if claim.upper() in one.claim_ids]
        if not found:
            known = ", ".join(sorted({id for one in everything for id in one.claim_ids}))
            raise ConfigError(f"no experiment covers claim '{claim}'; covered: {known or 'none'}")
        if len(found) > 1:
            names = ", ".join(one.name for one in found)
            raise ConfigError(f"several experiments cover claim '{claim}'; name one of: {names}")
        return found[0]


def default_registry() -> Registry:
    return Registry(EXPERIMENTS)
