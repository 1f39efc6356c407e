"""NATS JetStream: a cluster of three servers, a stream on the disks of all of them.

Every write is on disk before it is answered (`sync_interval: always`), which is what Epicast's
streams promise here; without it a server answers earlier. A publisher gives every message an id, by
which the server recognises what it was sent twice, and repeats it until it is acknowledged. The
subscriber pulls, and goes on behind the last number it has when its consumer is gone.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.nemesis.judging import Received, Sent, payloads
from bench.rivals.events import free_port
from bench.rivals.nats import _server as server_program
from bench.rivals.nats import missing
from epicast.experiments.parts import Leader

__all__ = ["missing", "publish", "subscribe"]

NAME = "NATS JetStream"
SUBJECT = "events"
_TIMEOUT_S = 2.0
_PATIENCE_S = 60.0
_FETCH = 500
_CONFIG = """
server_name: n{number}
listen: 127.0.0.1:{port}
jetstream {{ store_dir: "{data}", sync_interval: always }}
cluster {{
  name: nemesis, listen: 127.0.0.1:{route}
  routes: [{routes}]
}}
"""


class JetStream:
    def __init__(self, folder: Path, count: int = 3) -> None:
        self.folder = folder
        self.numbers = range(1, count + 1)
        self.ports = {number: free_port() for number in self.numbers}
        self._routes = {number: free_port() for number in self.numbers}

    def command(self, number: int) -> list[str]:
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in self._routes.values())
        text = _CONFIG.format(
            number=number, port=self.ports[number], route=self._routes[number],
            data=self.data(number), routes=routes,
        )  # fmt: skip
        config = self.folder / f"server-{number}.conf"
        config.write_text(text)
        program = server_program()
        assert program is not None
        return [program, "-c", str(config)]

    def data(self, number: int) -> Path:
        return self.folder / f"data-{number}"

    @property
    def address(self) -> list[str]:
        return [f"nats://127.0.0.1:{port}" for port in self.ports.values()]

    def prepare(self) -> None:
        asyncio.run(self._create())

    async def _create(self) -> None:
        from nats.js.api import StorageType, StreamConfig

        client = await _connect(self.address)
        config = StreamConfig(
            name=SUBJECT, subjects=[SUBJECT], num_replicas=len(self.numbers),
            storage=StorageType.FILE,
        )  # fmt: skip
        deadline = time.monotonic() + _PATIENCE_S
        while True:  # until the cluster has a leader
            try:
                await client.jetstream(timeout=_TIMEOUT_S).add_stream(config)
                break
            except Exception:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)
        await client.close()

    def is_whole(self) -> bool:
        return asyncio.run(self._is_whole())

    async def _is_whole(self) -> bool:
        client = None
        try:
            client = await _connect(self.address)
            info = await client.jetstream(timeout=_TIMEOUT_S).stream_info(SUBJECT)
            cluster = info.cluster
            others = cluster.replicas or []
            return bool(cluster.leader) and len(others) == len(self.numbers) - 1 and all(
                peer.current and not peer.offline for peer in others
            )  # fmt: skip
        except Exception:
            return False
        finally:
            if client is not None:
                await client.close()


async def _nothing(*_: Any) -> None:
    """Whoever reconnects by itself need not complain."""


async def _connect(address: list[str]) -> Any:
    import nats

    return await nats.connect(
        address, max_reconnect_attempts=-1, reconnect_time_wait=0.1, connect_timeout=1,
        ping_interval=1, max_outstanding_pings=2, error_cb=_nothing,
    )  # fmt: skip


def publish(leader: Leader, address: list[str], rate: int, rows: int, logs: Path) -> None:
    async def main() -> None:
        client = await _connect(address)
        stream = client.jetstream(timeout=_TIMEOUT_S)
        log = Sent(logs)
        leader.send("ready")
        told = asyncio.create_task(asyncio.to_thread(leader.recv))
        give_up = float("inf")

        async def one(number: int, event: bytes) -> int:
            headers = {"Nats-Msg-Id": f"{number}"}
            while time.monotonic() < give_up:
                try:
                    return int((await stream.publish(SUBJECT, event, headers=headers)).seq)
                except Exception:
                    await asyncio.sleep(0.05)
            return 0

        first = 1
        due = time.monotonic()
        while not told.done():
            events = payloads(first, rows)
            log.sending(first, events)
            burst = asyncio.gather(*(one(first + at, event) for at, event in enumerate(events)))
            await asyncio.wait([burst, told], return_when=asyncio.FIRST_COMPLETED)
            give_up = time.monotonic() + _PATIENCE_S if told.done() else give_up
            seqs = await burst
            if all(seqs):
                log.acked(first, events, max(seqs))
            first += rows
            due = max(due + rows / rate, time.monotonic() - 5.0)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        log.close()
        leader.send(max(seqs))

    asyncio.run(main())


def subscribe(leader: Leader, address: list[str], logs: Path, name: str) -> None:
    """Until it is told the last number, and has that or had the time to get it."""

    async def main() -> None:
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        client = await _connect(address)
        stream = client.jetstream(timeout=_TIMEOUT_S)
        log = Received(logs, name)
        leader.send("ready")
        told = asyncio.create_task(asyncio.to_thread(leader.recv))
        deadline = float("inf")
        consumer, fresh = None, True
        while time.monotonic() < deadline and not (told.done() and log.last >= told.result()):
            if told.done() and deadline == float("inf"):
                deadline = time.monotonic() + _PATIENCE_S
            try:
                if consumer is None:
                    config = ConsumerConfig(
                        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                        opt_start_seq=log.last + 1, ack_policy=AckPolicy.NONE,
                    )  # fmt: skip
                    consumer = await stream.pull_subscribe(SUBJECT, config=config)
                    fresh = True
                messages = await consumer.fetch(_FETCH, timeout=1.0)
            except Exception:
                consumer = await _gone(consumer)
                continue
            numbers = [message.metadata.sequence.stream for message in messages]
            expected = range(log.last + 1, log.last + len(numbers) + 1)
            if numbers != [*expected] and not fresh:
                consumer = await _gone(consumer)  # some were lost on the way: once more
                continue
            fresh = False
            log.got(numbers, [message.data for message in messages])
        log.close()
        leader.send(log.events)

    asyncio.run(main())


async def _gone(consumer: Any) -> None:
    if consumer is not None:
        with suppress(Exception):
            await asyncio.wait_for(consumer.unsubscribe(), _TIMEOUT_S)
    await asyncio.sleep(0.05)
