"""Redis Streams: a primary and two replicas, and three sentinels that choose another primary.

Every write goes to disk before it is answered (`appendonly`, `appendfsync always`), a primary
without any replica takes none (`min-replicas-to-write 1`), and the publisher waits until a replica
has what it wrote (WAIT 1): then it is with two of three. A publisher that loses its connection
writes again what was not confirmed; Redis does not recognise it. Sentinels are not mistreated.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from bench.nemesis.judging import Received, Sent, payloads
from bench.rivals.events import free_port
from bench.rivals.redis_server import missing
from epicast.experiments.parts import Leader

__all__ = ["missing", "publish", "subscribe"]

NAME = "Redis Streams"
KEY = "events"
GROUP = "nemesis"
_QUORUM = 2
_DOWN_MS = 1000
_WAIT_MS = 1000
_SOCKET_S = 2.0
_PATIENCE_S = 60.0
_READ = 1000
_BLOCK_MS = 500
_SEQ_BITS = 20
"""Of an id, milliseconds and a number, as one number: milliseconds since the beginning in front."""


class RedisWithSentinels:
    def __init__(self, folder: Path, count: int = 3) -> None:
        self.folder = folder
        self.numbers = range(1, count + 1)
        self.ports = {number: free_port() for number in self.numbers}
        self._sentinels = {number: free_port() for number in self.numbers}
        self._watchers: list[subprocess.Popen[bytes]] = []

    def command(self, number: int) -> list[str]:
        config = self.folder / f"server-{number}.conf"
        if not config.exists():  # from then on the server and the sentinels write it
            lines = [
                f"port {self.ports[number]}", "bind 127.0.0.1", f"dir {self.data(number)}",
                'save ""', "appendonly yes", "appendfsync always", "min-replicas-to-write 1",
                "min-replicas-max-lag 10", "repl-diskless-sync-delay 0",
            ]  # fmt: skip
            if number > 1:
                lines.append(f"replicaof 127.0.0.1 {self.ports[1]}")
            config.write_text("\n".join(lines) + "\n")
        return ["redis-server", str(config)]

    def data(self, number: int) -> Path:
        return self.folder / f"data-{number}"

    @property
    def address(self) -> list[int]:
        return [*self._sentinels.values()]

    def prepare(self) -> None:
        for number, port in self._sentinels.items():
            config = self.folder / f"sentinel-{number}.conf"
            config.write_text(
                f"port {port}\nbind 127.0.0.1\ndir {self.folder}\n"
                f"sentinel monitor {GROUP} 127.0.0.1 {self.ports[1]} {_QUORUM}\n"
                f"sentinel down-after-milliseconds {GROUP} {_DOWN_MS}\n"
                f"sentinel failover-timeout {GROUP} 5000\n"
            )
            with (self.folder / f"sentinel-{number}.log").open("ab") as log:
                self._watchers.append(
                    subprocess.Popen(
                        ["redis-server", str(config), "--sentinel"], stdout=log, stderr=log
                    )
                )
        deadline = time.monotonic() + _PATIENCE_S
        while not self.is_whole():
            if time.monotonic() > deadline:
                raise OSError("the replicas of Redis do not come up")
            time.sleep(0.2)

    def close(self) -> None:
        for process in self._watchers:
            process.kill()
            process.wait()

    def is_whole(self) -> bool:
        """A primary that all sentinels know, with everybody else online behind it."""
        import redis

        try:
            primary = _primary(self.address)
            with primary:
                found = primary.info("replication")
            others = [value for name, value in found.items() if name.startswith("slave")]
            others = [each for each in others if isinstance(each, dict)]
            return (
                found["role"] == "master"
                and len(others) == len(self.numbers) - 1
                and all(each["state"] == "online" for each in others)
            )
        except (redis.RedisError, OSError):
            return False


def _primary(sentinels: list[int]) -> Any:
    """Whom the sentinels name. Who uses it repeats what fails, and knows that it does."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry
    from redis.sentinel import Sentinel

    nodes = [("127.0.0.1", port) for port in sentinels]
    host, port = Sentinel(nodes, socket_timeout=_SOCKET_S).discover_master(GROUP)
    never = Retry(NoBackoff(), 0)
    return redis.Redis(host=host, port=port, protocol=2, socket_timeout=_SOCKET_S, retry=never)


def _number(entry: bytes, began_ms: int) -> int:
    ms, _, seq = entry.partition(b"-")
    return ((int(ms) - began_ms) << _SEQ_BITS) + int(seq) + 1


class _Told:
    """What the leader says, heard beside other work."""

    def __init__(self, leader: Leader) -> None:
        self.value: Any = None
        self.at = float("inf")
        Thread(target=self._hear, args=(leader,), daemon=True).start()

    def _hear(self, leader: Leader) -> None:
        with suppress(EOFError):
            self.value = leader.recv()
            self.at = time.monotonic()

    @property
    def patience_is_over(self) -> bool:
        return time.monotonic() > self.at + _PATIENCE_S


def publish(
    leader: Leader, address: list[int], rate: int, rows: int, logs: Path, began_ms: int
) -> None:
    import redis

    log = Sent(logs)
    client = _primary(address)
    leader.send("ready")
    told = _Told(leader)
    first, last = 1, 0
    due = time.monotonic()
    while told.value is None:
        events = payloads(first, rows)
        log.sending(first, events)
        while not told.patience_is_over:
            try:
                entries = _write(client, events)
                last = _number(entries[-1], began_ms)
                log.acked(first, events, last)
                break
            except (redis.RedisError, OSError):
                client = _again(address, client)
        first += rows
        due = max(due + rows / rate, time.monotonic() - 5.0)
        time.sleep(max(0.0, due - time.monotonic()))
    log.close()
    leader.send(last)


def _write(client: Any, events: list[bytes]) -> list[bytes]:
    pipeline = client.pipeline(transaction=False)
    for event in events:
        pipeline.xadd(KEY, {b"e": event})
    entries: list[bytes] = pipeline.execute()
    while client.wait(1, _WAIT_MS) < 1:  # it is written; what is missing is another who has it
        pass
    return entries


def _again(address: list[int], client: Any) -> Any:
    import redis

    with suppress(redis.RedisError, OSError):
        client.close()
    time.sleep(0.05)
    with suppress(redis.RedisError, OSError):
        return _primary(address)
    return client


def subscribe(leader: Leader, address: list[int], logs: Path, name: str, began_ms: int) -> None:
    """Until it is told the last number, and has that or had the time to get it."""
    import redis

    log = Received(logs, name)
    client = _primary(address)
    leader.send("ready")
    told = _Told(leader)
    at = b"0"
    while not told.patience_is_over and (told.value is None or log.last < told.value):
        try:
            found = client.xread({KEY: at}, count=_READ, block=_BLOCK_MS)
        except (redis.RedisError, OSError):
            client = _again(address, client)
            continue
        if found:
            [(_, entries)] = found
            log.got(
                [_number(entry, began_ms) for entry, _ in entries],
                [fields[b"e"] for _, fields in entries],
            )
            at = entries[-1][0]
    log.close()
    leader.send(log.events)
