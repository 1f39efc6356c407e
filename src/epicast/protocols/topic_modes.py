"""Topic modes by the names that applications and deployment files use.

A mode is a way for events of a topic to spread among the peers that joined it: a protocol, the type
of its settings, and how large an event it takes. A new mode is an entry here; the client, the
commands and `geoplex.toml` know it then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from epicast.core import Config, ConfigError, Peer, Protocol
from epicast.deployment import Geoplex
from epicast.deployment.naming import not_among
from epicast.protocols.budget import largest_on_connection
from epicast.protocols.epto import EptoConfig
from epicast.protocols.epto.topic import OrderedTopic, largest_event
from epicast.protocols.epto.warming import warm_up
from epicast.protocols.lpbcast import Lpbcast, LpbcastConfig

DEFAULT_MODE = "gossip"
ORDERED_MODE = "ordered"


class TopicMode(NamedTuple):
    config: type[Config]
    make: Callable[[Peer, Any, Random], Protocol[Any]]
    largest_event: Callable[[Any], int]
    """Given the config: the bytes of key and payload together that an event has at most."""
    warm_up: Callable[[], None] = lambda: None
    """Has everything compiled that the protocol needs, if it needs any."""


_ENVELOPE_BYTES = 512
"""What the largest event travels with in its message, at the most."""


def _largest_gossip(config: LpbcastConfig) -> int:
    """An event that takes more than a second's budget would never be sent."""
    if not config.bytes_per_s:
        return config.max_event_bytes
    fits = largest_on_connection(config.bytes_per_s) - _ENVELOPE_BYTES
    return min(config.max_event_bytes, max(0, fits))


TOPIC_MODES: Mapping[str, TopicMode] = {
    DEFAULT_MODE: TopicMode(LpbcastConfig, Lpbcast, _largest_gossip),
    ORDERED_MODE: TopicMode(EptoConfig, OrderedTopic, largest_event, warm_up),
}


def topic_mode(name: str) -> TopicMode:
    mode = TOPIC_MODES.get(name)
    if mode is None:
        raise ConfigError(f"mode: {not_among('topic mode', name, TOPIC_MODES)}")
    return mode


def checked_config(name: str, config: Config | None) -> Config:
    """What a topic of that mode is run with: the defaults, if nothing is given."""
    wanted = topic_mode(name).config
    if config is None:
        return wanted()
    if not isinstance(config, wanted):
        raise ConfigError(
            f"config: mode {name!r} goes with {wanted.__name__}, not with {type(config).__name__}"
        )
    return config


def declared_config(geoplex: Geoplex, topic: str) -> Config:
    """The settings of a topic in a file; `ConfigError` with file and line if they are none."""
    mode = geoplex.topic(topic).mode
    if mode not in TOPIC_MODES:
        message = not_among("topic mode", mode, TOPIC_MODES)
        raise ConfigError(f"{geoplex.source_name}: topics.{topic}.mode: {message}")
    return geoplex.topic_settings(topic, TOPIC_MODES[mode].config)
