"""The table `[security]` of a `geoplex.toml`, as it is written. `docs/security.md` explains it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from msgspec import Meta, field

from epicast.deployment.naming import NAME_RULE, is_name, not_among
from epicast.deployment.problems import Problem, raise_if_any
from epicast.deployment.sections import Section
from epicast.deployment.tokens import TOKEN_HASH_RULE, is_token_hash

MAX_IDENTITIES = 4096
MAX_RIGHTS = 4096
EVERYBODY = "*"
"""As an identity in a right: whoever is let in."""
REGION_MARK = "{region}"
_PATTERN = re.compile(r"[a-z0-9_.*?-]+")
_SERIAL = re.compile(r"[0-9A-Fa-f]{1,40}")

ActionName = Literal["publish", "subscribe", "admin"]


class IdentitySection(Section, frozen=True, kw_only=True):
    """Somebody who may connect: known by a token, by a certificate, or by either."""

    description: str = ""
    tokens: Annotated[list[str], Meta(max_length=16)] = field(default_factory=list)
    """Hashes of its tokens, never the tokens. More than one while a token is replaced."""
    certificate: str | None = None
    """The name in its certificate."""

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        if not self.tokens and self.certificate is None:
            problems.append(Problem((), "give tokens, a certificate, or both"))
        for index, text in enumerate(self.tokens):
            if not is_token_hash(text):
                problems.append(Problem(("tokens", index), TOKEN_HASH_RULE))
        if self.certificate is not None and not self.certificate.strip():
            problems.append(Problem(("certificate",), "expected the name in the certificate"))
        raise_if_any(problems)


class RightSection(Section, frozen=True, kw_only=True):
    """What some identities may do with some streams and topics. Without a right, nothing."""

    identities: Annotated[list[str], Meta(min_length=1)]
    allow: Annotated[list[ActionName], Meta(min_length=1)]
    streams: list[str] = field(default_factory=list)
    """Names, or patterns with `*` and `?`."""
    topics: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        raise_if_any(self._problems())

    def _problems(self) -> Iterator[Problem]:
        if not (self.streams or self.topics) and set(self.allow) != {"admin"}:
            yield Problem((), "says for no stream or topic; name some, or '*' for all")
        for key, patterns in (("streams", self.streams), ("topics", self.topics)):
            for index, pattern in enumerate(patterns):
                if not _PATTERN.fullmatch(pattern):
                    yield Problem((key, index), "expected a name, or a pattern with * and ?")


class SecuritySection(Section, frozen=True, kw_only=True):
    """With this table all connections are encrypted, and nobody does what no right allows."""

    ca: str
    """File with the certificates of the authority that everybody here trusts."""
    certificate: str = "certificates/{region}.pem"
    """Of a region's proxy."""
    key: str = "certificates/{region}.key"
    agent_certificate: str = "certificates/agent-{region}.pem"
    """Of a region's sidecars."""
    agent_key: str = "certificates/agent-{region}.key"
    clients: Literal["identity", "anyone"] = "identity"
    """Whether who connects must be one of `identities`; anyone else has the rights of `*`."""
    identities: Annotated[dict[str, IdentitySection], Meta(max_length=MAX_IDENTITIES)] = field(
        default_factory=dict
    )
    rights: Annotated[list[RightSection], Meta(max_length=MAX_RIGHTS)] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    """Serial numbers of certificates that are not accepted any more."""

    def __post_init__(self) -> None:
        raise_if_any(self._problems())

    def _problems(self) -> Iterator[Problem]:
        for key in ("ca", "certificate", "key", "agent_certificate", "agent_key"):
            text = getattr(self, key)
            if not text.strip() or "\0" in text:
                yield Problem((key,), "expected a file")
        owners: dict[str, str] = {}
        for name, identity in self.identities.items():
            if not is_name(name):
                yield Problem(("identities", name), NAME_RULE)
            if identity.certificate is not None:
                owner = owners.setdefault(identity.certificate, name)
                if owner != name:
                    message = f"the certificate of identity {owner!r} already"
                    yield Problem(("identities", name, "certificate"), message)
        for index, right in enumerate(self.rights):
            for position, name in enumerate(right.identities):
                if name != EVERYBODY and name not in self.identities:
                    message = not_among("identity", name, self.identities)
                    yield Problem(("rights", index, "identities", position), message)
        for index, serial in enumerate(self.revoked):
            if not _SERIAL.fullmatch(serial):
                message = "expected a serial number, as `epicast certificate show` prints it"
                yield Problem(("revoked", index), message)

    def names_in_use(self, kind: Literal["streams", "topics"]) -> Iterable[tuple[int, int, str]]:
        """What rights name outright: position of the right and in it, and the name."""
        for index, right in enumerate(self.rights):
            for position, name in enumerate(getattr(right, kind)):
                if "*" not in name and "?" not in name:
                    yield index, position, name
