"""Peers of a topic: one in a process of its own that ends and comes back, others that stay."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import epicast
from epicast import EptoConfig, Event, Gap, LpbcastConfig, PeerNode, Topic
from epicast.experiments.parts import Leader
from epicast.runtime import run
from epicast.runtime.services import serve

TOPIC = "chat"
PUBLISHED = "published"
"""Before the number of a speaker's last publication, in its file."""
MODES: dict[str, LpbcastConfig | EptoConfig] = {
    "gossip": LpbcastConfig(gossip_period_ns=30_000_000),
    "ordered": EptoConfig(round_period_ns=30_000_000),
}
_PAUSE_S = 0.1


class Speaker:
    """Publishes its own numbers, one after the other, and keeps what it gets."""

    def __init__(self, name: str, node: PeerNode, topic: Topic) -> None:
        self.name = name
        self.node = node
        self.topic = topic
        self.published = 0
        self.got: list[bytes] = []
        self.gaps: list[Gap] = []
        self._subscription = topic.subscribe()
        self._tasks = [asyncio.ensure_future(self._speak()), asyncio.ensure_future(self._listen())]

    async def _speak(self) -> None:
        while True:
            number = self.published + 1
            await self.topic.publish(f"{self.name}:{number}".encode())
            self.published = number
            await asyncio.sleep(_PAUSE_S)

    async def _listen(self) -> None:
        async for item in self._subscription:
            if isinstance(item, Event):
                self.got.append(item.payload)
            else:
                assert isinstance(item, Gap), item
                self.gaps.append(item)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.node.close()


def numbers_of(name: str, payloads: Sequence[bytes]) -> list[int]:
    """The numbers of one speaker's events, in the order in which they came."""
    found = (payload.decode().rpartition(":") for payload in payloads)
    return [int(number) for speaker, _, number in found if speaker == name]


async def speaker(name: str, mode: str, contacts: Sequence[str], listen: str) -> Speaker:
    node = await epicast.join(*contacts, listen=listen)
    topic = node.topic(TOPIC, mode, config=MODES[mode])
    await topic.joined(60)
    return Speaker(name, node, topic)


class SpeakingService:
    """A peer as a service: it writes what it has published and got to a file, line by line."""

    def __init__(self, file: Path, name: str, mode: str, contacts: Sequence[str], listen: str):
        self._file = file
        self._arguments = (name, mode, contacts, listen)
        self._speaker: Speaker | None = None

    async def start(self) -> None:
        self._speaker = await speaker(*self._arguments)

    async def wait(self) -> None:
        assert self._speaker is not None
        written = 0
        with self._file.open("ab", buffering=0) as file:
            while True:
                await asyncio.sleep(0.05)
                got = self._speaker.got[written:]
                written += len(got)
                lines = [*got, f"{PUBLISHED}:{self._speaker.published}".encode()]
                file.write(b"".join(line + b"\n" for line in lines))

    async def stop(self) -> None:
        if self._speaker is not None:
            await self._speaker.close()


def speak(
    leader: Leader, file: Path, name: str, mode: str, contacts: Sequence[str], listen: str
) -> None:
    """Run such a service until SIGTERM, or until the leading process ends."""
    service = SpeakingService(file, name, mode, contacts, listen)
    run(serve(service, ready=lambda: leader.send("ready"), lifeline=leader.fileno()))
