"""What commands that talk to a running geoplex have in common."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.output import say

if TYPE_CHECKING:
    from epicast.client.credentials import Credentials

DEFAULT_ADDRESS = "epicast://127.0.0.1:7400"
_PATIENCE_S = 2.0

FromOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="ADDRESS",
        help="A proxy or agent; of several, separated by commas, any.",
        envvar="EPICAST_ADDRESS",
    ),
]
ToOption = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="ADDRESS",
        help="A proxy or agent; of several, separated by commas, any.",
        envvar="EPICAST_ADDRESS",
    ),
]
EvidenceOption = Annotated[
    Path | None,
    typer.Option(
        "--evidence", metavar="DIR", help="Write down what happens there, for `epicast audit`."
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        envvar="EPICAST_TOKEN_FILE",
        help="With security: a file with your token. A token itself is never an argument, which "
        "others on the machine could see.",
    ),
]
CaOption = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        metavar="PEM",
        envvar="EPICAST_CA",
        help="With security: whom to trust.",
        show_default="whom this system trusts",
    ),
]
CertificateOption = Annotated[
    Path | None,
    typer.Option(
        "--certificate",
        metavar="PEM",
        envvar="EPICAST_CERTIFICATE",
        help="With security: your certificate, instead of a token.",
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--certificate-key", metavar="PEM", envvar="EPICAST_KEY", help="Of your certificate."
    ),
]
StreamArgument = Annotated[
    str, typer.Argument(help="A stream, by name; `epicast streams` lists them.")
]


@contextmanager
def reminder(text: str) -> Iterator[None]:
    """Say something if what is done inside takes long."""
    timer = threading.Timer(_PATIENCE_S, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def proof(
    address: str,
    token_file: Path | None,
    ca: Path | None,
    certificate: Path | None,
    key: Path | None,
) -> dict[str, Any]:
    """For `connect`: who this is and whom it trusts, where the address asks for that."""
    from epicast.client.addresses import parse_encrypted_urls
    from epicast.client.credentials import TlsOptions, read_token

    if not parse_encrypted_urls(address)[1]:
        return {}
    token = None if token_file is None else read_token(token_file)
    return {"token": token, "tls": TlsOptions(ca=ca, certificate=certificate, key=key)}


def credentials_for(address: str, given: dict[str, Any]) -> Credentials | None:
    """The same for those who do not use `connect`."""
    from epicast.client.addresses import parse_encrypted_urls
    from epicast.client.credentials import credentials

    encrypted = parse_encrypted_urls(address)[1]
    return credentials(given.get("token"), given.get("tls"), encrypted=encrypted)
