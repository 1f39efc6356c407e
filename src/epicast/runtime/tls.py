"""Encryption of connections: contexts from files, and what went wrong in words.

TLS 1.3 only. No session is resumed and no early data is taken, so every connection proves anew who
is there, and nothing that was recorded can be replayed.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from epicast.core import ConfigError


class TlsError(ConfigError):
    """A file of certificates or keys cannot be used; the message says which, and what to do."""


class TlsFiles(Struct, frozen=True):
    """PEM files. Without `ca`, the authorities this system trusts."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    """Where the key is not in the certificate's file."""


class Tls(Struct, frozen=True):
    """How a node's connections are encrypted."""

    dialing: ssl.SSLContext
    accepting: ssl.SSLContext | None = None
    """None: nobody connects to it."""
    server_name: str | None = None
    """The name expected in the certificate of who is dialled, instead of its host."""

    def __repr__(self) -> str:
        return f"Tls(accepts={self.accepting is not None})"


def dialing_context(files: TlsFiles, *, by_host: bool) -> ssl.SSLContext:
    """`by_host`: the certificate must name the host that was dialled. Otherwise somebody looks at
    the certificate afterwards, see `gate`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = by_host
    _prepare(context, files)
    if files.ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def accepting_context(files: TlsFiles, *, everybody_has_one: bool = False) -> ssl.SSLContext:
    """Who connects may show a certificate, which must then be good; or must, as neighbours do."""
    if files.certificate is None:
        raise TlsError("a node that others connect to needs a certificate and its key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED if everybody_has_one else ssl.CERT_OPTIONAL
    context.num_tickets = 0
    _prepare(context, files)
    return context


def _prepare(context: ssl.SSLContext, files: TlsFiles) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if files.ca is not None:
        ca = files.ca
        _load("the certificate authority's file", ca, lambda: context.load_verify_locations(ca))
    if files.certificate is not None:
        certificate, key = files.certificate, files.key
        for what, path in (("the certificate", certificate), ("the key", key)):
            if path is not None:
                _load(what, path, Path(path).read_bytes)
        _load(
            "the certificate or its key",
            certificate if key is None else f"{certificate} and {key}",
            lambda: context.load_cert_chain(certificate, key, _no_password),
        )


def _load(what: str, path: str, load: Callable[[], object]) -> None:
    try:
        load()
    except ssl.SSLError as error:
        hint = "expected PEM text, and a key that belongs to the certificate and has no password"
        raise TlsError(f"{path}: {what} cannot be used ({_short(error)}): {hint}") from None
    except OSError as error:
        raise TlsError(
            f"{path}: {what} cannot be read: {error.strerror or error}; make one with "
            "`epicast certificate`, or correct the path"
        ) from None


def _no_password() -> bytes:
    """Asked for a key that is encrypted: a service has nobody to ask."""
    return b""


def readable_by_others(path: str) -> bool:
    """Whether a file with a secret can be read by more than its owner."""
    try:
        return bool(os.stat(path).st_mode & 0o077)
    except OSError:
        return False


_EXPLANATIONS = (
    ("certificate has expired", "its certificate has expired: make a new one"),
    ("certificate is not yet valid", "its certificate is not valid yet: check the clocks"),
    ("hostname mismatch", "its certificate is for another host: check the address, or have the "
     "host added to the certificate"),
    ("ip address mismatch", "its certificate is for another host: check the address, or have the "
     "host added to the certificate"),
    ("unable to get local issuer", "its certificate is of an authority that is not trusted here: "
     "check the CA file"),
    ("self-signed certificate", "its certificate is of an authority that is not trusted here: "
     "check the CA file"),
    ("certificate signature failure", "its certificate is of an authority that is not trusted "
     "here: check the CA file"),
    ("unsuitable certificate purpose", "its certificate is not for this purpose: a client's "
     "certificate cannot serve, a server's cannot connect"),
    ("alert certificate expired", "it refused our certificate, which has expired: make a new one"),
    ("alert unknown ca", "it refused our certificate: it does not trust the authority that made "
     "it"),
    ("alert certificate unknown", "it refused our certificate"),
    ("alert bad certificate", "it refused our certificate"),
    ("alert unsupported certificate", "it refused our certificate: it is not for this purpose"),
    ("certificate required", "it wants a certificate: give one"),
    ("did not return a certificate", "it showed no certificate"),
    ("wrong version number", "it does not speak TLS: without security the scheme is epicast://, "
     "with it epicasts://"),
    ("http request", "it does not speak TLS"),
    ("unsupported protocol", "it does not speak TLS 1.3"),
    ("protocol version", "it does not speak TLS 1.3"),
)  # fmt: skip


def explain(error: BaseException) -> str:
    """What went wrong with TLS, in words; nothing of what was sent is in them."""
    text = str(error).lower().replace("_", " ")
    for sign, explanation in _EXPLANATIONS:
        if sign in text:
            return explanation
    return _short(error)


def _short(error: BaseException) -> str:
    reason = getattr(error, "reason", None)
    if reason:
        return str(reason).lower().replace("_", " ")
    without_place = re.sub(r"\s*\(_ssl\.c:\d+\)", "", str(error))
    return without_place or type(error).__name__
