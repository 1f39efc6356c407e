"""How a peer is to be."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from epicast.client.credentials import Credentials
from epicast.core import ConfigError
from epicast.deployment import Geoplex
from epicast.deployment.addresses import Address
from epicast.deployment.sections import MAX_CONTACTS
from epicast.runtime.limits import Limits


class PeerOptions(Struct, frozen=True, kw_only=True):
    """See `join`."""

    host: str = ""
    """Where it listens; empty: the address of this machine towards `towards`, or loopback."""
    port: int = 0
    towards: Address | None = None
    contacts: tuple[Address, ...] = ()
    cluster: str
    geoplex: Geoplex | None = None
    credentials: Credentials | None = None
    limits: Limits | None = None

    def __post_init__(self) -> None:
        check_contacts(self.contacts)
        proof = self.credentials
        if proof is not None and not proof.has_certificate:
            raise ConfigError(
                "topics over encrypted connections: peers know each other by certificates, not by "
                "tokens: give tls= one made with `epicast certificate agent`"
            )
        if proof is None and self.geoplex is not None and self.geoplex.security is not None:
            raise ConfigError(
                f"{self.geoplex.source_name} has a table [security], so topics run over encrypted "
                "connections: give tls= a certificate made with `epicast certificate agent`, and "
                "contacts as epicasts://HOST:PORT"
            )


def check_contacts(contacts: Sequence[Address]) -> None:
    if len(contacts) > MAX_CONTACTS:
        raise ConfigError(f"contacts: {len(contacts)} are more than {MAX_CONTACTS}; a few will do")
