"""A running geoplex for the commands that talk to one, and a way to call them."""

import io
import sys
from collections.abc import Callable, Iterator

import pytest

from epicast.cli import main
from epicast.geo.local import LocalGeoplex

# A shell that runs tests in the background may have had Ctrl-C ignored for all of them.
LAUNCH = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from epicast.cli import main
sys.exit(main(sys.argv[1:]))
"""


class Called:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err

    @property
    def error_line(self) -> str:
        """The one line that says what is wrong."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("epicast: ")]
        return line


Epicast = Callable[..., Called]


@pytest.fixture(scope="session")
def local() -> Iterator[LocalGeoplex]:
    with LocalGeoplex() as running:
        yield running


@pytest.fixture
def epicast(
    local: LocalGeoplex, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Epicast:
    """Calls a command, by default against the proxy of `us`."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("EPICAST_ADDRESS", local.address("us"))

    def call(*arguments: object, stdin: bytes = b"") -> Called:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = main([str(argument) for argument in arguments])
        written = capsysbinary.readouterr()
        return Called(status, written.out.decode(errors="replace"), written.err.decode())

    return call
