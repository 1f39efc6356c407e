"""A process with many peers of one ordered topic, for `bench ordered-peers`.

Peers are stable, or come and go: then the process replaces some of them in every round. Each writes
down what it publishes and what is delivered to it, for `ordered_logs`.
"""

import asyncio
import resource
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import epicast
from bench.rivals.processes import hear, play, tell

TOPIC = "orders"
_PATIENCE_S = 120
_LOOK_S = 0.05
SUMMED = ("epto.missing", "epto.withheld", "epto.dropped_full", "epto.refused", "cyclon.silent")


class LoggedPeer:
    """A peer and its log."""

    def __init__(
        self, kind: str, node: epicast.PeerNode, config: epicast.EptoConfig, folder: Path
    ) -> None:
        self.node = node
        self.topic = node.topic(TOPIC, "ordered", config=config)
        self.delivered = 0
        self._log = (folder / f"{kind}-{node.id}.log").open("w")
        self._reading = asyncio.create_task(self._read(self.topic.subscribe()))

    async def _read(self, subscription: epicast.TopicSubscription) -> None:
        async for batch in subscription.batches():
            if isinstance(batch, epicast.Gap):
                self._write(f"G {batch.source} {batch.events}")
                continue
            self.delivered += batch.rows
            name = f"{batch.stream} {batch.first} {batch.last}"
            self._write(f"D {name} {crc32(batch.data):x} {time.time_ns()}")

    def _write(self, line: str) -> None:
        self._log.write(line + "\n")

    async def publish(self, events: int, size: int) -> None:
        first = self.topic.next_sequence
        payloads = [b"%0*d" % (size, number) for number in range(first, first + events)]
        checksum = crc32(b"".join(payloads))
        self._write(f"P {first} {first + events - 1} {checksum:x} {time.time_ns()}")
        await self.topic.publish_many(payloads)

    @property
    def settled(self) -> bool:
        return bool(self.topic.statistics().get("epto.settled"))

    async def end(self, *, politely: bool) -> None:
        await (self.node.close() if politely else self.node.abort())
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._log.close()

    def figures(self) -> Counter[str]:
        topic, port = self.topic.statistics(), self.node.statistics()
        dropped = {name: int(count) for name, count in port.items() if name.startswith("drop.")}
        return Counter(
            {name: int(topic.get(name, 0)) for name in SUMMED}
            | {"bytes_sent": int(port.get("bytes_sent", 0)), **dropped}
        )

    def state(self) -> dict[str, Any]:
        topic = self.topic.statistics()
        names = ("epto.fanout", "epto.ttl", "epto.round_period_ns", "epto.system_size")
        return {"delivered": self.delivered, **{name: topic.get(name, 0) for name in names}}


class Process:
    def __init__(self, kind: str, settings: dict[str, Any], folder: str, seed: int) -> None:
        self._kind = kind
        self._config = epicast.EptoConfig(**settings)
        self._folder = Path(folder)
        self._rng = Random(seed)
        self._peers: list[LoggedPeer] = []
        self._contacts: list[str] = []
        self._gone: Counter[str] = Counter()
        """Figures of peers that are no more."""
        self._left = self._crashed = 0
        self._cpu_before = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    # -- peers -----------------------------------------------------------------------------------

    async def open(self, contacts: list[str], count: int) -> None:
        """The first of all waits for nobody; then all at once."""
        self._contacts = contacts
        for _ in range(count):
            await self._add()
            if not self._contacts:
                self._contacts = [self._peers[0].node.address]
        for peer in self._peers:
            await peer.topic.joined(_PATIENCE_S)

    async def _add(self) -> None:
        contacts = self._rng.sample(self._contacts, min(3, len(self._contacts)))
        node = await epicast.join(*contacts, listen="127.0.0.1")
        self._peers.append(LoggedPeer(self._kind, node, self._config, self._folder))

    async def _replace(self, peer: LoggedPeer, *, politely: bool) -> None:
        self._gone.update(peer.figures())
        self._left += politely
        self._crashed += not politely
        await asyncio.gather(peer.end(politely=politely), self._add())

    async def _all_settled(self) -> None:
        until = time.monotonic() + _PATIENCE_S
        while not all(peer.settled for peer in self._peers):
            if time.monotonic() > until:
                raise RuntimeError(f"the order did not begin everywhere in {_PATIENCE_S} s")
            await asyncio.sleep(_LOOK_S)

    # -- orders ----------------------------------------------------------------------------------

    async def obey(self) -> None:
        while (order := await asyncio.to_thread(hear))["do"] != "end":
            what = order.pop("do")
            if what == "know":
                self._contacts = order["contacts"]
            elif what == "settle":
                await self._all_settled()
                self._cpu_before = _cpu_s()
                tell({"settled": len(self._peers)})
            elif what == "work":
                self._start(self._work(**order))
            else:
                tell(self._report())
        for peer in self._peers:
            await peer.end(politely=False)
        tell({"logs": "closed"})

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(
        self, rounds: int, round_s: float, churn: float, events: int, size: int
    ) -> None:
        """In every round each peer publishes once, at its own time; and some are replaced."""
        began = time.monotonic()
        owed, seats = 0.0, len(self._peers)
        for number in range(rounds):
            until = began + (number + 1) * round_s
            for peer in self._peers:
                if peer.settled:
                    self._start(self._publish(peer, self._rng.random() * round_s, events, size))
            owed += churn * seats
            # Fewer than owed where joining takes longer than rounds: these are replaced later.
            for victim in self._rng.sample(self._peers, min(int(owed), len(self._peers))):
                owed -= 1
                self._peers.remove(victim)
                politely = self._left < self._crashed
                self._start(self._replace(victim, politely=politely))
            await asyncio.sleep(max(0, until - time.monotonic()))
        took_s = time.monotonic() - began
        while self._tasks - {asyncio.current_task()}:
            await asyncio.sleep(_LOOK_S)
        tell({"took_s": took_s})

    async def _publish(self, peer: LoggedPeer, pause_s: float, events: int, size: int) -> None:
        await asyncio.sleep(pause_s)
        if peer in self._peers:
            try:
                await peer.publish(events, size)
            except epicast.Closed:
                if self._kind == "stable":
                    raise

    def _report(self) -> dict[str, Any]:
        figures = self._gone.copy()
        for peer in self._peers:
            figures.update(peer.figures())
        return {
            "peers": [peer.state() for peer in self._peers],
            "figures": dict(figures),
            "left": self._left,
            "crashed": self._crashed,
            "cpu_s": _cpu_s() - self._cpu_before,
        }


def _cpu_s() -> float:
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def peers(
    kind: str, contacts: list[str], count: int, settings: dict[str, Any], folder: str, seed: int
) -> None:
    async def main() -> None:
        process = Process(kind, settings, folder, seed)
        await process.open(contacts, count)
        tell({"addresses": [peer.node.address for peer in process._peers]})
        await process.obey()

    epicast.run(main())


if __name__ == "__main__":
    play({"peers": peers})
