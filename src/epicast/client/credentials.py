"""How an application proves who it is, and how it knows whom it talks to.

What is not given comes from the environment: `EPICAST_TOKEN`, or better `EPICAST_TOKEN_FILE`,
`EPICAST_CA`, `EPICAST_CERTIFICATE` and `EPICAST_KEY`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from epicast.core import ConfigError
from epicast.deployment.tokens import TOKEN_PREFIX, is_token
from epicast.runtime.tls import Tls, TlsFiles, accepting_context, dialing_context


class TlsOptions(Struct, frozen=True, kw_only=True):
    """Files in PEM."""

    ca: str | Path | None = None
    """Whom to trust; by default the authorities this system trusts."""
    certificate: str | Path | None = None
    """This application's own, if it has one."""
    key: str | Path | None = None
    server_name: str | None = None
    """What the proxy's certificate must name, if not the host of the address."""


class Credentials(Struct, frozen=True):
    """Nothing of it is ever printed."""

    files: TlsFiles
    server_name: str | None
    token: str

    def __repr__(self) -> str:
        return "Credentials(…)"

    @property
    def has_certificate(self) -> bool:
        return self.files.certificate is not None

    def for_finding(self) -> Tls:
        """For the first connection: the certificate must name the host."""
        return Tls(dialing_context(self.files, by_host=True), None, self.server_name)

    def for_agent(self) -> Tls:
        """For a node that others connect to, and that knows by roles whom it dials."""
        accepting = accepting_context(self.files, everybody_has_one=True)
        return Tls(dialing_context(self.files, by_host=False), accepting)


def credentials(
    token: str | None,
    tls: TlsOptions | None,
    *,
    encrypted: bool,
    environment: Mapping[str, str] | None = None,
) -> Credentials | None:
    """None for a connection that is not encrypted, over which no secret may go."""
    if not encrypted:
        if token is not None or tls is not None:
            raise ConfigError(
                "token and tls are for encrypted connections: the address begins with epicasts://"
            )
        return None
    environment = os.environ if environment is None else environment
    options = tls or TlsOptions()
    certificate = _path(options.certificate) or environment.get("EPICAST_CERTIFICATE")
    key = _path(options.key) or (
        environment.get("EPICAST_KEY") if options.certificate is None else None
    )
    ca = _path(options.ca) or environment.get("EPICAST_CA")
    if certificate is not None and key is None:
        _check_holds_key(certificate)
    found = _token(token, environment)
    return Credentials(TlsFiles(ca, certificate, key), options.server_name, found)


def read_token(path: Path) -> str:
    """From a file whose only line it is."""
    if str(path).startswith(f"{TOKEN_PREFIX}:"):
        raise ConfigError(
            "the name of the file with the token (--token-file, EPICAST_TOKEN_FILE) looks like a "
            "token itself: give the file's name, and replace the token if others saw it"
        )
    try:
        text = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a file with a token") from None
    except OSError as error:
        raise ConfigError(f"{path}: the token cannot be read: {error.strerror}") from None
    return _checked(text, str(path))


def _check_holds_key(certificate: str) -> None:
    """Of a certificate whose key was not given, and must be in the same file."""
    try:
        holds_key = "PRIVATE KEY-----" in Path(certificate).read_text("ascii", "replace")
    except OSError:
        return  # which is said where it is used
    if not holds_key:
        raise ConfigError(
            f"{certificate}: the certificate's key is not in the file: give it, too "
            "(--certificate-key, EPICAST_KEY, or TlsOptions(key=))"
        )


def _token(given: str | None, environment: Mapping[str, str]) -> str:
    if given is not None:
        return _checked(given, "token")
    if file := environment.get("EPICAST_TOKEN_FILE"):
        return read_token(Path(file))
    if text := environment.get("EPICAST_TOKEN"):
        return _checked(text.strip(), "EPICAST_TOKEN")
    return ""


def _checked(text: str, where: str) -> str:
    """What it is instead is not said: it may be most of a token."""
    if not is_token(text):
        raise ConfigError(
            f"{where}: not a token as `epicast certificate token` makes them; was it copied whole?"
        )
    return text


def _path(given: str | Path | None) -> str | None:
    return None if given is None else str(given)
