"""All simulated systems that are attacked, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.hostile.geoplex import Geoplex
from tests.hostile.peers import STACKS, Topics
from tests.hostile.storm import System

SYSTEMS: Mapping[str, type[System]] = {
    kind.__name__.lower(): kind for kind in (Geoplex, Topics, *STACKS)
}
STORMS = [(kind, sender) for kind in SYSTEMS.values() for sender in kind.senders]
"""Every system under every kind of sender."""
