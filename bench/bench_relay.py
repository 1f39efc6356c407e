"""Throughput of codec, checksum and driver between two processes, against bare sockets.

Each measurement starts a receiving and a sending process that talk over loopback TCP, and takes the
byte rate the receiver sees between its first and its last megabytes. Both candidates move the same
bytes, frames of 1,000 events of 100 bytes, and compute crc32c over all of them at both ends:

* `driver`: a protocol sends batches on DATA as its link has room, another one decodes and counts;
* `bare_socket`: blocking sockets, eight frames to a `sendall` and `recv_into` a large buffer.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from crc32c import crc32c

from bench.harness import Bar, Result, interleave
from epicast.core import (
    DATA,
    Effects,
    EventBatch,
    Message,
    NodeId,
    Peer,
    Protocol,
    handles,
)
from epicast.wire import FrameEncoder, register

EVENTS = 1_000
PAYLOAD_BYTES = 100
BATCHES = 16
"""Different batches sent in turn, so that sending does not profit from a warm cache."""
SENDER, RECEIVER = 1, 2


@register(65300)
class Relayed(Message):
    batch: EventBatch


def messages() -> list[Relayed]:
    return [
        Relayed(
            EventBatch.build(
                1, 1 + number * EVENTS, [bytes([number]) * PAYLOAD_BYTES] * EVENTS, time=number
            )
        )
        for number in range(BATCHES)
    ]


class Clock:
    """The rate between the first and the last of what is counted."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.count = 0
        self._start_count = 0
        self._start = 0

    def add(self, count: int) -> bool:
        """Whether everything is there."""
        self.count += count
        if not self._start:
            if self.count >= self.total // 10:  # the rest is measured, once buffers are warm
                self._start, self._start_count = time.perf_counter_ns(), self.count
            return False
        return self.count >= self.total

    def rate(self) -> float:
        return (self.count - self._start_count) * 1e9 / (time.perf_counter_ns() - self._start)


class Source(Protocol[int]):
    """Sends as much as the link takes, until the receiver has enough and goes."""

    def __init__(self, node, config, rng, done) -> None:
        super().__init__(node, config, rng)
        self.done = done

    def on_start(self, now, contacts, recovered, fx) -> None:
        self.messages = messages()
        self.size = self.messages[0].wire_size()
        self.sent = 0
        fx.connect(contacts[0])

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        self.on_ready(now, peer, fx.room(peer), fx)

    def on_ready(self, now: int, peer: NodeId, room: int, fx: Effects) -> None:
        for _ in range(room // self.size):
            fx.send(peer, self.messages[self.sent % BATCHES], DATA)
            self.sent += 1

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        self.done()


class Sink(Protocol[int]):
    """Counts events."""

    def __init__(self, node, config, rng, clock: Clock, done) -> None:
        super().__init__(node, config, rng)
        self.clock = clock
        self.done = done

    @handles(Relayed)
    def _handle_relayed(self, now: int, source: NodeId, message: Relayed, fx: Effects) -> None:
        if self.clock.add(message.batch.rows):
            self.done()


CERTIFICATES = "EPICAST_BENCH_CERTIFICATES"
"""In the environment: the folder whose certificates encrypt the connection, for `bench tls`."""


def security():
    folder = os.environ.get(CERTIFICATES)
    if folder is None:
        return None
    from epicast.deployment.access import Verdict
    from epicast.runtime.gate import Security
    from epicast.runtime.tls import Tls, TlsFiles, accepting_context, dialing_context

    class Gate:
        def examine(self, node, token, names) -> Verdict:
            return Verdict(f"node{node}")

    files = TlsFiles(f"{folder}/ca.pem", f"{folder}/node.pem", f"{folder}/node.key")
    return Security(Tls(dialing_context(files, by_host=True), accepting_context(files)), Gate())


def drive_receiver(total_bytes: int) -> None:
    import asyncio
    from random import Random

    from epicast.runtime import NodeDriver, run

    async def main() -> None:
        frame_bytes = messages()[0].wire_size()
        clock = Clock(total_bytes // frame_bytes * EVENTS)
        finished = asyncio.Event()
        driver = NodeDriver(RECEIVER, security=security())
        peer = await driver.listen()
        await driver.start(Sink(peer, 0, Random(0), clock, finished.set))
        print(json.dumps(peer.port), flush=True)
        await finished.wait()
        print(json.dumps(clock.rate() / EVENTS * frame_bytes), flush=True)
        await driver.stop()

    run(main())


def drive_sender(port: int) -> None:
    import asyncio
    from random import Random

    from epicast.runtime import NodeDriver, run

    async def main() -> None:
        done = asyncio.Event()
        driver = NodeDriver(SENDER, security=security())
        peer = await driver.listen()
        source = Source(peer, 0, Random(0), done.set)
        await driver.start(source, [Peer(RECEIVER, "127.0.0.1", port)])
        await done.wait()
        await driver.stop()

    run(main())


def receive_bare(total_bytes: int) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(json.dumps(listener.getsockname()[1]), flush=True)
    connection, _ = listener.accept()
    view = memoryview(bytearray(1 << 20))
    clock = Clock(total_bytes)
    while True:
        count = connection.recv_into(view)
        crc32c(view[:count])
        if clock.add(count):
            break
    print(json.dumps(clock.rate()), flush=True)
    connection.close()
    listener.close()


def send_bare(port: int) -> None:
    encoder = FrameEncoder()
    encoded = [b"".join(encoder.encode(message)) for message in messages()]
    chunks = [b"".join(encoded[at : at + 8]) for at in range(0, BATCHES, 8)]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        try:
            while True:
                for chunk in chunks:
                    crc32c(chunk)
                    connection.sendall(chunk)
        except ConnectionError:
            return  # the receiver has enough


ROLES = {
    "drive_receiver": drive_receiver,
    "drive_sender": drive_sender,
    "receive_bare": receive_bare,
    "send_bare": send_bare,
}


def measure(receiver: str, sender: str, total_bytes: int) -> float:
    """Bytes per second between two fresh processes."""
    command = [sys.executable, "-m", "bench.bench_relay"]
    receiving = subprocess.Popen(
        [*command, receiver, str(total_bytes)], stdout=subprocess.PIPE, text=True
    )
    assert receiving.stdout is not None
    sending = None
    try:
        port = json.loads(receiving.stdout.readline())
        sending = subprocess.Popen([*command, sender, str(port)])
        rate = float(json.loads(receiving.stdout.readline()))
        receiving.wait(timeout=30)
        sending.wait(timeout=30)
        return rate
    finally:
        for process in (receiving, sending):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        receiving.stdout.close()


def run(quick: bool) -> Result:
    total = 100_000_000 if quick else 3_000_000_000
    rates = interleave(
        {
            "driver": lambda: measure("drive_receiver", "drive_sender", total),
            "bare_socket": lambda: measure("receive_bare", "send_bare", total),
        },
        rounds=1 if quick else 5,
    )
    driver, bare = rates["driver"], rates["bare_socket"]
    frame_bytes = messages()[0].wire_size()
    return Result(
        "relay",
        {
            "frame_bytes": frame_bytes,
            "driver_mb_per_s": driver.median / 1e6,
            "driver_events_per_s": driver.median / frame_bytes * EVENTS,
            "bare_socket_mb_per_s": bare.median / 1e6,
        },
        [Bar("vs_bare_socket", 0.6, "at least", driver.over(bare), "x")],
    )


def speeds() -> dict[str, Callable[[], float]]:
    """For `bench.compare`."""
    return {"bytes_per_s": lambda: measure("drive_receiver", "drive_sender", 3_000_000_000)}


if __name__ == "__main__":
    ROLES[sys.argv[1]](int(sys.argv[2]))
