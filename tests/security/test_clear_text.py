"""No command or function that was asked for encryption connects without it."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from epicast import EpicastError, sync
from epicast.backup.manifest import Manifest, save_manifest
from epicast.pipeline.lake.connections import node_at, parse_proxies
from tests.cli.conftest import Called
from tests.geo.support import geoplex_text
from tests.security.support import Secured
from tests.security.test_commands import Call, call  # noqa: F401  (a fixture)

TLS_HANDSHAKE = b"\x16\x03"
"""A record of a handshake, of version 3."""


class Listener:
    """Takes connections, notes how each begins, and answers nothing."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5.0)
                self.heard.append(connection.recv(2, socket.MSG_WAITALL))

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def listeners() -> Iterator[tuple[Listener, Listener]]:
    both = Listener(), Listener()
    yield both
    for each in both:
        each.close()


COMMANDS: dict[str, tuple[str, ...]] = {
    "status": ("status", "--from"),
    "streams": ("streams", "--from"),
    "subscribe": ("subscribe", "orders", "--from"),
    "publish": ("publish", "orders", "--value", "x", "--to"),
    "backup": ("backup", "--all", "--to", "copy", "--from"),
    "restore": ("restore", "made", "--geoplex", "plain.toml", "--region", "us", "--data", "data",
                "--keep-epoch", "--ask"),
    "move": ("stream", "move", "orders", "--to", "eu", "--from"),
    "accept-loss": ("stream", "accept-loss", "orders", "--from"),
}  # fmt: skip
FUNCTIONS: dict[str, Callable[[str], object]] = {
    "connect": lambda address: sync.connect(address, timeout=4.0),
    "lake": lambda address: node_at(parse_proxies(address), 0.0),
}


@pytest.mark.parametrize("way", [*COMMANDS, *FUNCTIONS])
def test_the_scheme_holds_for_every_address(
    way: str,
    tmp_path: Path,
    secured: Secured,
    listeners: tuple[Listener, Listener],
    monkeypatch: pytest.MonkeyPatch,
    call: Call,  # noqa: F811
) -> None:
    (tmp_path / "token").write_text(secured.tokens["operator"])
    monkeypatch.setenv("EPICAST_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("EPICAST_CA", str(secured.certificates / "ca.pem"))
    (tmp_path / "made").mkdir()
    (tmp_path / "plain.toml").write_text(geoplex_text())
    save_manifest(tmp_path / "made", Manifest(geoplex="test"))
    addresses = f"epicasts://{listeners[0].address},{listeners[1].address}"
    if way in FUNCTIONS:
        with pytest.raises(EpicastError):
            FUNCTIONS[way](addresses)
    else:
        done: Called = call(*COMMANDS[way], addresses)
        assert done.status == 2, done.err
    for listener in listeners:
        assert set(listener.heard) == {TLS_HANDSHAKE}
