"""What can be found where etcd should be."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PATIENCE_S = 30.0


class Unfinished(bytes):
    """Nothing comes behind it, and no end."""


class Imposter:
    """Says what it is told to by method, byte for byte."""

    def __init__(self, says: Callable[[str], bytes]) -> None:
        self.says = says
        self.asked: list[str] = []
        """By which methods, one after the other."""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.member = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._serve)]

    def __enter__(self) -> Imposter:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        self._server.close()

    def is_asked(self, method: str, times: int) -> None:
        """So often from now on."""
        due = self.asked.count(method) + times
        deadline = time.monotonic() + PATIENCE_S
        while self.asked.count(method) < due:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def _serve(self) -> None:
        with suppress(OSError):  # then it is over
            while True:
                connection, _ = self._server.accept()
                self._threads.append(threading.Thread(target=self._answer, args=(connection,)))
                self._threads[-1].start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            request = _request(connection)
            method = request.split(b" ", 2)[1].decode().removeprefix("/v3/")
            self.asked.append(method)
            said = self.says(method)
            connection.sendall(said)
            if not isinstance(said, Unfinished):
                connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass


def _request(connection: socket.socket) -> bytes:
    """Up to the end of its body: who closes before has not heard it out."""
    text = b""
    while b"\r\n\r\n" not in text or not text.endswith(b"}"):
        piece = connection.recv(1 << 16)
        if not piece:
            raise ConnectionError
        text += piece
    return text


def http(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


HEADER = {"header": {"cluster_id": "7", "member_id": "8", "revision": "5", "raft_term": "2"}}


def answer(fields: dict[str, Any]) -> bytes:
    return http(json.dumps({**HEADER, **fields}).encode())


def refusal(status: int, code: int, message: str) -> bytes:
    said = {"error": message, "message": message, "code": code}
    return http(json.dumps(said).encode(), status)


def stream(*results: dict[str, Any]) -> bytes:
    """As a watch is answered, whose end is not known in the beginning."""
    lines = [json.dumps({"result": {**HEADER, **result}}).encode() + b"\n" for result in results]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks


def etcd_like(method: str) -> bytes:
    """What etcd says where nothing is stored and all that is asked for can be done."""
    if method == "watch":
        return stream({"created": True}, {"events": [{}]})
    if method == "lease/keepalive":
        return stream({"ID": "3", "TTL": "9"}) + b"0\r\n\r\n"
    return answer({"succeeded": True, "ID": "3", "TTL": "9"})
