"""How many there are, from where and of whom."""

from __future__ import annotations

from epicast.runtime.limits import Limits


class Crowd:
    """Only those who came by themselves are counted: whom this node dials it wants."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._addresses: dict[str, int] = {}
        self._identities: dict[str, int] = {}

    def objection(self, host: str, peers: int, knocking: int) -> str:
        """What stands against letting one more knock; empty if nothing does."""
        limits = self._limits
        if peers + knocking >= limits.max_connections:
            return f"all {limits.max_connections} connections are in use (max_connections)"
        if knocking >= limits.max_knocking:
            return f"{knocking} others are waiting to be let in (max_knocking)"
        if self._addresses.get(host, 0) >= limits.max_connections_per_address:
            most = limits.max_connections_per_address
            return f"there are {most} connections from {host} (max_connections_per_address)"
        return ""

    def objection_to(self, identity: str) -> str:
        most = self._limits.max_connections_per_identity
        if self._identities.get(identity, 0) >= most:
            return f"{identity!r} has {most} connections (max_connections_per_identity)"
        return ""

    def enter(self, host: str) -> None:
        self._addresses[host] = self._addresses.get(host, 0) + 1

    def leave(self, host: str) -> None:
        _less(self._addresses, host)

    def admit(self, identity: str) -> None:
        self._identities[identity] = self._identities.get(identity, 0) + 1

    def dismiss(self, identity: str) -> None:
        _less(self._identities, identity)


def _less(counts: dict[str, int], key: str) -> None:
    left = counts.get(key, 0) - 1
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)
