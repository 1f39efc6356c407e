"""Who decides about somebody at the door, and what is remembered of the decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol as Interface

from msgspec import Struct

from epicast.core import NodeId
from epicast.deployment.access import AccessControl, Action, Verdict, region_identity
from epicast.deployment.certificates import CertificateNames
from epicast.runtime.tls import Tls


class Gate(Interface):
    def examine(self, node: NodeId, token: str, names: CertificateNames | None) -> Verdict:
        """About somebody whose certificate, if there is one, was verified."""


class Security(Struct, frozen=True):
    """How a node's connections are protected; without, they are not."""

    tls: Tls
    gate: Gate
    token: str = ""
    """What this node proves itself with to whom it dials."""

    def __repr__(self) -> str:
        return f"Security({self.tls})"


class NeighbourGate:
    """Of a node that has no `geoplex.toml`: it knows the name of its geoplex, and who it attached
    to. Others must be agents or proxies of the same geoplex."""

    def __init__(self, geoplex: str, known: Mapping[NodeId, str]) -> None:
        """`known`: identities that were established before, see `identity_in`."""
        self._geoplex = geoplex
        self._known = known

    def examine(self, node: NodeId, token: str, names: CertificateNames | None) -> Verdict:
        identity = identity_in(names, self._geoplex)
        expected = self._known.get(node)
        if expected is not None:
            if identity != expected:
                return Verdict(refusal=f"node {node} was {expected} and is {identity} now")
            return Verdict(identity, trusted=True)
        if identity in self._known.values():
            return Verdict(identity, trusted=True)  # another replica of the same proxy
        role = names.role_in(self._geoplex) if names is not None else None
        if role is None or role[0] == "client":
            return Verdict(
                refusal="only agents and proxies of this geoplex connect to an agent: applications "
                "connect to a proxy or a sidecar"
            )
        return Verdict(identity, is_agent=role[0] == "agent")


class PeerGate:
    """Of a node that takes part in topics and has the `geoplex.toml`: who is known there."""

    def __init__(self, access: AccessControl) -> None:
        self._access = access

    def examine(self, node: NodeId, token: str, names: CertificateNames | None) -> Verdict:
        return self._access.examine_peer(node, names)


class Rights:
    """Of those a driver has met: what the `geoplex.toml` allows who they have proved to be."""

    def __init__(self, access: AccessControl, identity_of: Callable[[NodeId], str | None]) -> None:
        self._access = access
        self.identity_of = identity_of

    def permit(self, peer: NodeId, action: Action, name: str, kind: str = "stream") -> str:
        """What stands against it; empty if nothing does."""
        identity = self.identity_of(peer)
        if identity is None:
            return "you are not known any more: connect again"
        return self._access.permit(identity, action, name, kind)


def identity_in(names: CertificateNames | None, geoplex: str) -> str:
    """What a certificate makes of somebody, for who has no list of identities."""
    if names is None:
        return ""
    role = names.role_in(geoplex)
    if role is None:
        return f"certificate:{names}"
    return region_identity(role[1]) if role[0] == "region" else f"{role[0]}:{role[1]}"
