"""Protocols by the names that scenario and deployment files use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from epicast.core import Config, ConfigError, Peer, Protocol, Stack
from epicast.core.sampling import derive_seed
from epicast.protocols.cyclon import Cyclon, CyclonConfig
from epicast.protocols.epto import Epto, EptoConfig
from epicast.protocols.flood import Flood, FloodConfig
from epicast.protocols.gossip import PushGossip, PushGossipConfig
from epicast.protocols.hyparview import HyParView, HyParViewConfig
from epicast.protocols.lpbcast import Lpbcast, LpbcastConfig
from epicast.protocols.pbcast import Pbcast, PbcastConfig
from epicast.protocols.reinforcement import Reinforcement, ReinforcementConfig
from epicast.protocols.scamp import Scamp, ScampConfig

LayerMaker = Callable[[Peer, Any, Random], Protocol[Any]]

MEMBERSHIP: Mapping[str, tuple[type[Config], LayerMaker]] = {
    "hyparview": (HyParViewConfig, HyParView),
    "cyclon": (CyclonConfig, Cyclon),
    "lpbcast": (LpbcastConfig, Lpbcast),
    "scamp": (ScampConfig, Scamp),
    "reinforcement": (ReinforcementConfig, Reinforcement),
}
DISSEMINATION: Mapping[str, tuple[type[Config], LayerMaker]] = {
    "flood": (FloodConfig, Flood),
    "gossip": (PushGossipConfig, PushGossip),
    "lpbcast": (LpbcastConfig, Lpbcast),
    "pbcast": (PbcastConfig, Pbcast),
    "epto": (EptoConfig, Epto),
}
LAYERS = {**MEMBERSHIP, **DISSEMINATION}


def stack_factory(
    names: Sequence[str], configs: Mapping[str, Config]
) -> Callable[[Peer, Random], Stack]:
    """A maker of stacks, `names` from the bottom up; a missing config means the defaults."""
    unknown = [name for name in names if name not in LAYERS]
    if unknown or not names:
        raise ConfigError(f"stack: {unknown or 'empty'}; known layers: {', '.join(LAYERS)}")
    if names[0] not in MEMBERSHIP:
        raise ConfigError(f"stack: the bottom layer is one of {list(MEMBERSHIP)}")
    if len(names) > 2 or any(name not in DISSEMINATION for name in names[1:]):
        raise ConfigError(f"stack: one of {list(DISSEMINATION)} on {names[0]}, not {names[1:]}")
    if names[0] in names[1:]:
        raise ConfigError(f"stack: {names[0]} needs no other below it")
    if names[0] != "hyparview" and "flood" in names:
        raise ConfigError("stack: flood needs stable, symmetric neighbours; put it on hyparview")
    parts = [(LAYERS[name][1], configs.get(name) or LAYERS[name][0]()) for name in names]

    def make(node: Peer, rng: Random) -> Stack:
        layers = [
            layer(node, config, Random(derive_seed(rng.getrandbits(64), position)))
            for position, (layer, config) in enumerate(parts)
        ]
        return Stack(node, rng, layers)

    return make
