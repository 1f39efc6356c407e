"""What a certificate says of who shows it.

The name that counts is a URI among the certificate's alternative names:
`epicast:GEOPLEX:ROLE:NAME`, the role being `region`, `agent` or `client`. A region's certificate
speaks for its proxy, an agent's may be shown to neighbours, a client's only to who was dialled.
A client's certificate from somewhere else may do without: then its common name counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from msgspec import Struct

Role = Literal["region", "agent", "client"]
SCHEME = "epicast"


class CertificateNames(Struct, frozen=True):
    """Of one certificate that was verified already."""

    serial: str = ""
    common_name: str = ""
    uris: tuple[str, ...] = ()

    def role_in(self, geoplex: str) -> tuple[Role, str] | None:
        """The role and the name it has in a geoplex; None if it has none there."""
        for uri in self.uris:
            parts = uri.split(":")
            if len(parts) == 4 and parts[:2] == [SCHEME, geoplex] and parts[2] in get_args(Role):
                return parts[2], parts[3]  # type: ignore[return-value]
        return None

    @property
    def is_of_epicast(self) -> bool:
        return any(uri.startswith(f"{SCHEME}:") for uri in self.uris)

    def __str__(self) -> str:
        return ", ".join(self.uris) or self.common_name or f"serial number {self.serial}"


def certificate_uri(geoplex: str, role: Role, name: str) -> str:
    return f"{SCHEME}:{geoplex}:{role}:{name}"


def names_of(peer_certificate: Mapping[str, Any] | None) -> CertificateNames | None:
    """From what `ssl` tells of a verified certificate; None if there was none."""
    if not peer_certificate:
        return None
    common_name = ""
    for part in peer_certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                common_name = value
    uris = [text for kind, text in peer_certificate.get("subjectAltName", ()) if kind == "URI"]
    serial = peer_certificate.get("serialNumber", "").upper()
    return CertificateNames(serial, common_name, tuple(uris))
