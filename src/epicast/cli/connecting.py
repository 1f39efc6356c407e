"""What commands that talk to a running geoplex have in common."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from epicast.cli.output import say

DEFAULT_ADDRESS = "epicast://127.0.0.1:7400"
_PATIENCE_S = 2.0

FromOption = Annotated[
    str,
    typer.Option("--from", metavar="ADDRESS", help="A proxy or agent.", envvar="EPICAST_ADDRESS"),
]
ToOption = Annotated[
    str,
    typer.Option("--to", metavar="ADDRESS", help="A proxy or agent.", envvar="EPICAST_ADDRESS"),
]
EvidenceOption = Annotated[
    Path | None,
    typer.Option(
        "--evidence", metavar="DIR", help="Write down what happens there, for `epicast audit`."
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
