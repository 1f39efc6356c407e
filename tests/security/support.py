"""Geoplexes with security: an authority, certificates and tokens in a folder of the test."""

import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

from epicast.client import TlsOptions
from epicast.deployment import Geoplex, load_geoplex
from epicast.deployment.tokens import SALT_BYTES, hash_token
from epicast.geo.certificate_authority import Authority, Issued
from tests.geo.support import geoplex_text

GEOPLEX = "test"
STREAMS = """
[streams.orders]
owner = "us"

[streams.prices]
owner = "eu"
"""
RIGHTS = """
[[security.rights]]
identities = ["*"]
streams = ["prices"]
allow = ["subscribe"]

[[security.rights]]
identities = ["shop"]
streams = ["orders", "prices"]
allow = ["publish", "subscribe"]

[[security.rights]]
identities = ["reader"]
streams = ["orders"]
allow = ["subscribe"]

[[security.rights]]
identities = ["operator"]
allow = ["admin"]

[[security.rights]]
identities = ["sidecar"]
streams = ["*"]
allow = ["publish", "subscribe"]
"""


def new_token(name: str) -> str:
    return f"ept:{name}:{secrets.token_urlsafe(32)}"


class Secured:
    """A folder with everything that a geoplex with security needs."""

    def __init__(self, folder: Path, regions: tuple[str, ...] = ("us", "eu")) -> None:
        self.folder = folder
        self.certificates = folder / "certificates"
        self.authority = Authority(self.certificates / "ca.pem")
        self.authority.create(GEOPLEX)
        self.tokens = {name: new_token(name) for name in ("shop", "reader", "operator")}
        self.file = folder / "geoplex.toml"
        self._plain = geoplex_text(regions, streams=STREAMS)
        for region in regions:
            self.authority.issue("region", GEOPLEX, region, hosts=["127.0.0.1"])
        self.write()

    def write(
        self,
        identities: tuple[str, ...] = ("shop", "reader", "operator", "sidecar", "billing"),
        rights: str = RIGHTS,
        more: str = "",
        budget: str = "",
    ) -> Geoplex:
        """The file anew; what is not among `identities` is left out of it."""
        parts = [self._plain, f'[security]\nca = "certificates/ca.pem"\n{more}']
        for name in identities:
            token = self.tokens.get(name)
            if token is not None:
                hashed = hash_token(token, secrets.token_bytes(SALT_BYTES))
                parts.append(f'[security.identities.{name}]\ntokens = ["{hashed}"]')
            else:
                parts.append(f'[security.identities.{name}]\ncertificate = "{name}"')
        named = [part for part in rights.split("[[security.rights]]") if part.strip()]
        for part in named:
            names = part.split("[", 1)[1].split("]", 1)[0].replace('"', "").split(", ")
            if all(name == "*" or name in identities for name in names):
                parts.append(f"[[security.rights]]{part}")
        self.file.write_text("\n".join([*parts, budget]))
        return self.geoplex

    @property
    def geoplex(self) -> Geoplex:
        return load_geoplex(self.file)

    @property
    def ca(self) -> TlsOptions:
        return TlsOptions(ca=self.certificates / "ca.pem")

    def options(self, issued: Issued) -> TlsOptions:
        return TlsOptions(
            ca=self.certificates / "ca.pem", certificate=issued.certificate, key=issued.key
        )

    def expired(self, role: str, name: str, stem: str) -> Issued:
        now = datetime.now(UTC)
        return self.authority.issue(
            role,  # type: ignore[arg-type]
            GEOPLEX,
            name,
            hosts=["127.0.0.1"],
            stem=stem,
            valid_from=now - timedelta(days=9),
            valid_until=now - timedelta(days=1),
        )


def address_of(geoplex: Geoplex, region: str) -> str:
    return f"epicasts://{geoplex.region(region).address}"
