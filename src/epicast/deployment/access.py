"""Who is let in, and what they may do: the decisions of `[security]`, and nothing but those.

`examine` is asked once for each connection, before anything is remembered of it. `permit` is asked
before anything is done for somebody. Both answer in words, so that whoever is refused knows what to
change; a word that could help to guess is never among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct

from epicast.core.ids import NodeId
from epicast.deployment.certificates import CertificateNames
from epicast.deployment.security_section import EVERYBODY, SecuritySection
from epicast.deployment.tokens import name_in_token, token_matches

ANONYMOUS = ""
_REGION_PREFIX = "region:"
_AGENT_PREFIX = "agent:"
"""No identity of a file begins with either: names have no colons."""


class Action(StrEnum):
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    ADMIN = "admin"
    """Ask how things are, and whatever else is for operators."""


class Verdict(Struct, frozen=True):
    """About somebody at the door. With a refusal, the rest means nothing."""

    identity: str = ANONYMOUS
    trusted: bool = False
    """A proxy of this geoplex: it has every right, and limits on strangers are not for it."""
    refusal: str = ""
    is_agent: bool = False
    """Whether the peer has shown an agent's certificate of this geoplex."""


def region_identity(region: str) -> str:
    return f"{_REGION_PREFIX}{region}"


class AccessControl:
    """`regions`: the proxies of the geoplex by their ids. Who claims one must prove it."""

    def __init__(
        self, geoplex: str, section: SecuritySection, regions: Mapping[NodeId, str]
    ) -> None:
        self._geoplex = geoplex
        self._section = section
        self._regions = regions
        self._by_certificate = {
            identity.certificate: name
            for name, identity in section.identities.items()
            if identity.certificate is not None
        }
        self._revoked = {serial.upper().lstrip("0") for serial in section.revoked}
        self._decided: dict[tuple[str, Action, str, str], str] = {}

    # -- at the door -----------------------------------------------------------------------------

    def examine(self, node: NodeId, token: str, names: CertificateNames | None) -> Verdict:
        """Who this is. `names` are of a certificate that was verified, if one was shown."""
        if names is not None and self._is_revoked(names):
            return Verdict(
                refusal=f"the certificate with serial number {names.serial} was revoked: use "
                "another one"
            )
        role = names.role_in(self._geoplex) if names is not None else None
        region = self._regions.get(node)
        if region is not None and role != ("region", region):
            return Verdict(
                refusal=f"node {node} is the proxy of region {region!r}, but "
                f"{_shown(names)} does not name that region: make one with "
                f"`epicast certificate region {region}`"
            )
        if role is not None and role[0] == "region":
            if role[1] not in self._regions.values():
                return Verdict(refusal=f"there is no region {role[1]!r} in this geoplex")
            return Verdict(region_identity(role[1]), trusted=region is not None)
        return self._examine_client(token, names, role)

    def examine_peer(self, node: NodeId, names: CertificateNames | None) -> Verdict:
        """The same of one that takes part in topics, where everybody shows a certificate. Where
        anyone is let in, an agent whom no identity names has the rights of `*`, under its name."""
        role = names.role_in(self._geoplex) if names is not None else None
        if (
            self._section.clients == "anyone"
            and names is not None
            and not self._is_revoked(names)
            and node not in self._regions
            and role is not None
            and role[0] == "agent"
            and role[1] not in self._by_certificate
        ):
            return Verdict(f"{_AGENT_PREFIX}{role[1]}", is_agent=True)
        return self.examine(node, "", names)

    def _is_revoked(self, names: CertificateNames) -> bool:
        return names.serial.lstrip("0") in self._revoked

    def _examine_client(
        self, token: str, names: CertificateNames | None, role: tuple[str, str] | None
    ) -> Verdict:
        found = ANONYMOUS
        if names is not None:
            if role is None and names.is_of_epicast:
                return Verdict(
                    refusal=f"the certificate of {names} is for another geoplex than "
                    f"{self._geoplex!r}: use one made for this"
                )
            shown = role[1] if role is not None else names.common_name
            found = self._by_certificate.get(shown, ANONYMOUS)
            if not found:
                return Verdict(
                    refusal=f"the certificate of {shown!r} is nobody's: name it in an entry of "
                    "[security.identities] of geoplex.toml"
                )
        if token:
            owner = self._owner_of(token)
            if not owner:
                return Verdict(
                    refusal="the token is unknown: it was replaced or its identity removed, or it "
                    "was not copied whole; ask for a new one (`epicast certificate token`)"
                )
            if found and owner != found:
                return Verdict(
                    refusal=f"the certificate is that of {found!r}, the token another's: give one "
                    "of them"
                )
            found = owner
        if not found and self._section.clients == "identity":
            return Verdict(
                refusal="clients need an identity here: connect with a token "
                "(EPICAST_TOKEN_FILE, or token=) or with a certificate"
            )
        return Verdict(found, is_agent=role is not None and role[0] == "agent")

    def _owner_of(self, token: str) -> str:
        name = name_in_token(token)
        identity = self._section.identities.get(name)
        if identity is None:
            return ""
        return name if any([token_matches(token, each) for each in identity.tokens]) else ""

    # -- rights ----------------------------------------------------------------------------------

    def permit(self, identity: str, action: Action, name: str, kind: str = "stream") -> str:
        """What stands against it; empty if nothing does. `kind`: "stream" or "topic"."""
        asked = (identity, action, kind, name)
        answer = self._decided.get(asked)
        if answer is None:
            answer = self._decided[asked] = self._decide(identity, action, name, kind)
        return answer

    def everybody_may(self, action: Action, name: str, kind: str = "stream") -> bool:
        """Whether all who are let in may, whoever they are."""
        return not self._decide(ANONYMOUS, action, name, kind)

    def _decide(self, identity: str, action: Action, name: str, kind: str) -> str:
        if identity.startswith(_REGION_PREFIX):
            return ""
        for right in self._section.rights:
            if action.value not in right.allow or not (
                EVERYBODY in right.identities or identity in right.identities
            ):
                continue
            if action is Action.ADMIN and not name:
                return ""
            patterns = right.streams if kind == "stream" else right.topics
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                return ""
        who = f"identity {identity!r}" if identity else "who has no identity"
        doing = "act as an administrator" if action is Action.ADMIN else action.value
        to = "of" if action is Action.ADMIN else "to"
        where = f" {to} {kind} {name!r}" if name else ""
        return f"{who} may not {doing}{where}: no [[security.rights]] of geoplex.toml allows it"


def _shown(names: CertificateNames | None) -> str:
    return "no certificate was shown, which" if names is None else f"the certificate ({names})"
