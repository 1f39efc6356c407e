"""An etcd of one's own, on free ports, in a folder of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
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
    def __init__(self, folder: Path) -> None:
        binary = shutil.which("etcd")
        if binary is None:
            pytest.skip("etcd is not installed (Debian: etcd-server)")
        self._folder = folder
        self._binary = binary
        self.clients, self._peers = free_ports(2)
        self.start()

    @property
    def address(self) -> str:
        return f"etcd://127.0.0.1:{self.clients}"

    def start(self) -> None:
        clients, peers = (f"http://127.0.0.1:{port}" for port in (self.clients, self._peers))
        with (self._folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binary, "--name", "one", "--data-dir", str(self._folder / "etcd"),
                    "--listen-client-urls", clients, "--advertise-client-urls", clients,
                    "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                    "--initial-cluster", f"one={peers}",
                    "--heartbeat-interval", "50", "--election-timeout", "500",
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
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

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
