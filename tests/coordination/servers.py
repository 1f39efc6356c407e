"""An etcd of one's own, on free ports, in a folder of its own."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from epicast.coordination import CoordinationError, open_coordinator

PATIENCE_S = 30.0


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Etcd:
    """`start` makes it run and waits until it answers; so does making one, unless it is one of
    several: see `etcd_cluster`."""

    def __init__(
        self,
        folder: Path,
        name: str = "one",
        members: dict[str, int] | None = None,
        *,
        encryption: Sequence[str] = (),
        address: str = "etcd://{}",
    ):
        """`encryption`: further arguments; `address`: how a member is reached then."""
        binary = shutil.which("etcd")
        if binary is None:
            pytest.skip("etcd is not installed (Debian: etcd-server)")
        self._folder = folder
        self._binary = binary
        self._name = name
        self._encryption = encryption
        self._address = address
        self.clients, port = free_ports(2)
        self._peers = members or {name: port}
        if members is None:
            self.start()

    @property
    def member(self) -> str:
        return f"127.0.0.1:{self.clients}"

    @property
    def address(self) -> str:
        return self._address.format(self.member)

    def start(self) -> None:
        self.launch()
        self.wait_until_it_answers()

    def launch(self) -> None:
        peers = {name: f"http://127.0.0.1:{port}" for name, port in self._peers.items()}
        scheme = "https" if self._encryption else "http"
        here, clients = peers[self._name], f"{scheme}://{self.member}"
        with (self._folder / f"{self._name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binary, "--name", self._name,
                    "--data-dir", str(self._folder / self._name),
                    "--listen-client-urls", clients, "--advertise-client-urls", clients,
                    "--listen-peer-urls", here, "--initial-advertise-peer-urls", here,
                    "--initial-cluster", ",".join(f"{name}={url}" for name, url in peers.items()),
                    "--heartbeat-interval", "50", "--election-timeout", "500",
                    *self._encryption,
                ],
                stdout=log, stderr=log,
            )  # fmt: skip

    def wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            coordinator = open_coordinator(self.address)
            try:
                coordinator.read("")
                return
            except CoordinationError:
                assert self._process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            finally:
                coordinator.close()

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Connections are accepted, by the kernel, and nothing else happens."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def etcd_cluster(folder: Path, size: int) -> Iterator[list[Etcd]]:
    peers = {f"member-{number}": port for number, port in enumerate(free_ports(size))}
    members = [Etcd(folder, name, peers) for name in peers]
    for member in members:
        member.launch()
    try:
        for member in members:
            member.wait_until_it_answers()
        yield members
    finally:
        for member in members:
            member.stop()
