"""A process with many peers of one topic, for `bench gossip-peers`.

Datagrams are lost on arrival, each with the same probability, before anything looks at them. The
most that each peer sent in any second is written to a file whenever it rises, so that it is known
of those that crash, too, even if the whole process is killed.
"""

import asyncio
import os
import resource
import time
from collections import deque
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import epicast
from bench.rivals.processes import hear, play, tell
from epicast.runtime import Limits
from epicast.runtime.datagrams import DatagramPort

TOPIC = "events"
_PACKET_BYTES = 28
"""Headers of UDP and IPv4."""
_AT_A_TIME = 10
DELAY_STEP_NS = 50_000_000
_NUMBER = 8
"""Bytes of a number on file."""


def lose_datagrams(loss: float, seed: int) -> None:
    random = Random(seed).random
    receive = DatagramPort.datagram_received

    def lossy(self: DatagramPort, data: bytes, addr: tuple[str, int]) -> None:
        if random() >= loss:
            receive(self, data, addr)

    DatagramPort.datagram_received = lossy  # type: ignore[method-assign]


def watch_bytes() -> None:
    """Have every port know the most it sent in any second. Called at the end of every step, when
    what the step sent on connections is counted already."""
    flush = DatagramPort.flush

    def watched(self: DatagramPort) -> None:
        flush(self)
        meter = meters.setdefault(self, Meter())
        recorder = self._recorder
        packets = recorder.datagrams_sent * _PACKET_BYTES
        meter.note(time.monotonic(), recorder.bytes_sent + packets)

    DatagramPort.flush = watched  # type: ignore[method-assign]


class MostFile:
    """A number per peer on file, in the order of joining: the most it sent in any second."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY)

    def write(self, place: int, most: int) -> None:
        """Survives the process from here on, if not the machine."""
        os.pwrite(self._file, most.to_bytes(_NUMBER, "little"), place * _NUMBER)


def read_most(path: Path) -> list[int]:
    """What the peers of a process had written, when it ended or since."""
    found = path.read_bytes()
    return [
        int.from_bytes(found[at : at + _NUMBER], "little") for at in range(0, len(found), _NUMBER)
    ]


class Meter:
    """The most that was sent in any second, whenever it began."""

    def __init__(self) -> None:
        self.most = 0
        self._kept: tuple[MostFile, int] | None = None
        self._total = 0
        self._recent: deque[tuple[float, int]] = deque()
        self._in_window = 0

    def note(self, now: float, total: int) -> None:
        sent, self._total = total - self._total, total
        if not sent:
            return
        self._recent.append((now, sent))
        self._in_window += sent
        while self._recent[0][0] <= now - 1:
            self._in_window -= self._recent.popleft()[1]
        if self._in_window > self.most:
            self.most = self._in_window
            self._write()

    def keep(self, file: MostFile, place: int) -> None:
        """Have it on file from now on."""
        self._kept = file, place
        self._write()

    def _write(self) -> None:
        if self._kept is not None:
            file, place = self._kept
            file.write(place, self.most)


meters: dict[DatagramPort, Meter] = {}


class BenchPeer:
    """A peer and what it got."""

    def __init__(self, node: epicast.PeerNode, topic: epicast.Topic) -> None:
        self.node = node
        self.topic = topic
        assert node._driver is not None and node._driver._datagrams is not None
        self.meter = meters.setdefault(node._driver._datagrams, Meter())
        self.got: dict[int, NDArray[np.bool_]] = {}
        self.twice = 0
        self.gaps = 0
        self.delays = np.zeros(1000, dtype=np.int64)
        """Events by the time from publishing to the application, in steps."""
        self.reading = asyncio.create_task(self._read(topic.subscribe()))

    async def _read(self, subscription: epicast.TopicSubscription) -> None:
        async for batch in subscription.batches():
            if isinstance(batch, epicast.Gap):
                self.gaps += batch.events
                continue
            assert isinstance(batch, epicast.EventBatch)  # the others are of ordered topics
            had = self.got.get(batch.stream)
            if had is None or len(had) <= batch.last:
                grown = np.zeros(max(1024, 2 * batch.last), dtype=np.bool_)
                if had is not None:
                    grown[: len(had)] = had
                had = self.got[batch.stream] = grown
            delay = (time.time_ns() - batch.times.item(0)) // DELAY_STEP_NS
            self.delays[min(delay, len(self.delays) - 1)] += batch.rows
            part = had[batch.first : batch.last + 1]
            self.twice += int(part.sum())
            part[:] = True

    def report(self) -> dict[str, Any]:
        topic, port = self.topic.statistics(), self.node.statistics()
        names = ("duplicates", "purged_young", "retrieval_asked", "retrieval_abandoned",
                 "bytes_withheld")  # fmt: skip
        return {
            "got": {str(source): int(had.sum()) for source, had in self.got.items()},
            "twice": self.twice,
            "gaps": self.gaps,
            "delays": self.delays.tolist(),
            "most_bytes_per_s": self.meter.most,
            "bytes_sent": port["bytes_sent"],
            "over_budget": port.get("drop.over the byte budget", 0),
            "datagrams_received": port["datagrams_received"],
            **{name: topic[name] for name in names},
        }


class Process:
    def __init__(self, config: epicast.LpbcastConfig, most: MostFile) -> None:
        self._config = config
        self._most = most
        self._limits = Limits(max_send_bytes_per_second=config.bytes_per_s)
        self._peers: list[BenchPeer] = []
        self._join_s = 0.0
        self._publishing: asyncio.Task[None] | None = None

    async def open(self, contact: str | None, count: int) -> None:
        """The first joins through the contact; ten at a time the others join through the first."""
        began = time.monotonic()
        for number in range(count):
            contacts = [] if contact is None else [contact]
            node = await epicast.join(*contacts, listen="127.0.0.1", limits=self._limits)
            peer = BenchPeer(node, node.topic(TOPIC, config=self._config))
            peer.meter.keep(self._most, number)
            self._peers.append(peer)
            if number % _AT_A_TIME == 0:
                await self._all_joined()
            contact = self.address
        await self._all_joined()
        self._join_s = time.monotonic() - began

    async def _all_joined(self) -> None:
        for peer in self._peers:
            await peer.topic.joined(120)

    @property
    def address(self) -> str:
        return self._peers[0].node.address

    async def obey(self) -> None:
        while (order := await asyncio.to_thread(hear))["do"] != "end":
            if order["do"] == "publish":
                self._publishing = asyncio.create_task(self._publish(**order["how"]))
            elif order["do"] == "crash":
                for _ in range(order["peers"]):
                    peer = self._peers.pop()
                    peer.reading.cancel()
                    await peer.node.abort()
            else:
                tell({
                    "peers": [peer.report() for peer in self._peers],
                    "join_s": self._join_s,
                    "cpu_s": sum(resource.getrusage(resource.RUSAGE_SELF)[:2]),
                })  # fmt: skip

    async def _publish(
        self, publishers: int, batches: int, events: int, size: int, every_s: float
    ) -> None:
        """The first peers publish so many batches, at even intervals."""
        began = time.monotonic()
        published: dict[str, int] = {}

        async def one(peer: BenchPeer, phase: float) -> None:
            for number in range(batches):
                due = began + (number + phase) * every_s
                await asyncio.sleep(max(0, due - time.monotonic()))
                last = await peer.topic.publish_many([b"%0*d" % (size, number)] * events)
                published[str(peer.node.id)] = last
            while peer.topic.statistics()["waiting"]:  # accepted, but not on its way yet
                await asyncio.sleep(0.01)

        chosen = self._peers[:publishers]
        await asyncio.gather(*(one(peer, n / publishers) for n, peer in enumerate(chosen)))
        tell({"published": published, "took_s": time.monotonic() - began})


def peers(
    contact: str | None, count: int, loss: float, seed: int, settings: dict[str, Any], most: str
) -> None:
    lose_datagrams(loss, seed)
    watch_bytes()

    async def main() -> None:
        process = Process(epicast.LpbcastConfig(**settings), MostFile(Path(most)))
        await process.open(contact, count)
        tell({"address": process.address})
        await process.obey()

    epicast.run(main())


if __name__ == "__main__":
    play({"peers": peers})
