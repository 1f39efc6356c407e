"""A process with many peers of one topic, for `bench gossip-peers`.

Datagrams are lost on arrival, each with the same probability, before anything looks at them.
"""

import asyncio
import resource
import time
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import epicast
from bench.rivals.processes import hear, play, tell
from epicast.runtime.datagrams import DatagramPort

TOPIC = "events"


def lose_datagrams(loss: float, seed: int) -> None:
    random = Random(seed).random
    receive = DatagramPort.datagram_received

    def lossy(self: DatagramPort, data: bytes, addr: tuple[str, int]) -> None:
        if random() >= loss:
            receive(self, data, addr)

    DatagramPort.datagram_received = lossy  # type: ignore[method-assign]


class BenchPeer:
    """A peer, what it got, and how much it sent in each second."""

    def __init__(self, node: epicast.PeerNode, topic: epicast.Topic) -> None:
        self.node = node
        self.topic = topic
        self.got: dict[int, NDArray[np.bool_]] = {}
        self.twice = 0
        self.gaps = 0
        self.most_bytes_per_s = 0.0
        self._sampled_at = 0.0
        self._sampled_bytes = 0
        self.reading = asyncio.create_task(self._read(topic.subscribe()))

    async def _read(self, subscription: epicast.TopicSubscription) -> None:
        async for batch in subscription.batches():
            if isinstance(batch, epicast.Gap):
                self.gaps += batch.events
                continue
            had = self.got.get(batch.stream)
            if had is None or len(had) <= batch.last:
                grown = np.zeros(max(1024, 2 * batch.last), dtype=np.bool_)
                if had is not None:
                    grown[: len(had)] = had
                had = self.got[batch.stream] = grown
            part = had[batch.first : batch.last + 1]
            self.twice += int(part.sum())
            part[:] = True

    def sample(self) -> None:
        now, sent = time.monotonic(), self.node.statistics()["bytes_sent"]
        if self._sampled_at:
            rate = (sent - self._sampled_bytes) / (now - self._sampled_at)
            self.most_bytes_per_s = max(self.most_bytes_per_s, rate)
        self._sampled_at, self._sampled_bytes = now, int(sent)

    def report(self) -> dict[str, Any]:
        topic, port = self.topic.statistics(), self.node.statistics()
        names = ("duplicates", "purged_young", "retrieval_asked", "retrieval_abandoned",
                 "bytes_withheld")  # fmt: skip
        return {
            "got": {str(source): int(had.sum()) for source, had in self.got.items()},
            "twice": self.twice,
            "gaps": self.gaps,
            "most_bytes_per_s": self.most_bytes_per_s,
            "bytes_sent": port["bytes_sent"],
            "datagrams_received": port["datagrams_received"],
            **{name: topic[name] for name in names},
        }


class Process:
    def __init__(self, config: epicast.LpbcastConfig) -> None:
        self._config = config
        self._peers: list[BenchPeer] = []
        self._publishing: asyncio.Task[None] | None = None

    async def open(self, contact: str | None, count: int) -> None:
        for number in range(count):
            contacts = [] if contact is None else [contact]
            node = await epicast.join(*contacts, listen="127.0.0.1")
            peer = BenchPeer(node, node.topic(TOPIC, config=self._config))
            self._peers.append(peer)
            contact = contact or node.address
            if number % 10 == 9:
                await asyncio.sleep(0.05)  # or all would ask the one contact at once
        for peer in self._peers:
            await peer.topic.joined(120)

    @property
    def address(self) -> str:
        return self._peers[0].node.address

    async def obey(self) -> None:
        sampling = asyncio.create_task(self._sample())
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
                    "cpu_s": sum(resource.getrusage(resource.RUSAGE_SELF)[:2]),
                })  # fmt: skip
        sampling.cancel()

    async def _sample(self) -> None:
        while True:
            for peer in self._peers:
                peer.sample()
            await asyncio.sleep(1)

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

        chosen = self._peers[:publishers]
        await asyncio.gather(*(one(peer, n / publishers) for n, peer in enumerate(chosen)))
        tell({"published": published, "took_s": time.monotonic() - began})


def peers(
    contact: str | None, count: int, loss: float, seed: int, settings: dict[str, Any]
) -> None:
    lose_datagrams(loss, seed)

    async def main() -> None:
        process = Process(epicast.LpbcastConfig(**settings))
        await process.open(contact, count)
        tell({"address": process.address})
        await process.obey()

    epicast.run(main())


if __name__ == "__main__":
    play({"peers": peers})
