"""The coordination service: who is in a chain, who leads, and who is alive, agreed on by all.

A few small values under names, changed by compare-and-set, bound to leases where they should vanish
with their owner, and watched. `open_coordinator` gives one of the backends, which all keep to the
contract of `Coordinator`: `memory:` for tests and the simulator, `sqlite:FILE` for one machine,
`etcd://HOST:PORT` for a deployment.
"""

from epicast.coordination.model import (
    CoordinationError,
    Coordinator,
    Entry,
    NoSuchLease,
    View,
)
from epicast.coordination.opening import open_coordinator

__all__ = [
    "CoordinationError", "Coordinator", "Entry", "NoSuchLease", "View", "open_coordinator",
]  # fmt: skip
