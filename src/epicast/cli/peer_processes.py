"""Processes full of peers, for the demonstration."""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType
from typing import Any, Self

import msgspec

from epicast.core import NodeId, Peer
from epicast.runtime.peers import Command, PeerReport, Publish, Report, Setup, Stop


class PeerProcess:
    """One child process; killed, if nothing else ended it, when the context is left."""

    def __init__(self, nodes: list[NodeId], contacts: list[Peer], stack: list[str]) -> None:
        self.nodes = nodes
        self._process = subprocess.Popen(
            [sys.executable, "-m", "epicast.runtime.peers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._send(Setup(nodes, contacts, stack))
        self.peers = self._receive(list[Peer])

    def publish(self, node: NodeId, events: int, batch: int, size: int) -> None:
        self._send(Publish(node, events, batch, size))
        self._receive(str)

    def report(self) -> list[PeerReport]:
        self._send(Report())
        reports: list[PeerReport] = self._receive(list[PeerReport])
        return reports

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._send(Stop())
        self._process.wait(timeout=20)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _send(self, message: Setup | Command) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(message) + b"\n")
        self._process.stdin.flush()

    def _receive(self, kind: Any) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"peer process {self._process.pid} ended unexpectedly")
        return msgspec.json.decode(line, type=kind)
