"""Peers of topics, ended in every way while others publish and subscribe."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

import pytest

import epicast
from epicast.experiments.parts import Part, Team
from epicast.geo.ports import free_ports
from tests.integration.endings.clients import WITHIN_S
from tests.integration.endings.stage import START_S, STOPPED_S
from tests.integration.endings.topic_peers import (
    MODES,
    PUBLISHED,
    Speaker,
    numbers_of,
    speak,
    speaker,
)

STAYING = ("ann", "bob", "cid")


class Guest:
    """The peer that ends and comes back at its address, each time as another node."""

    def __init__(self, team: Team, folder: Path, mode: str, port: int) -> None:
        self._team = team
        self._folder = folder
        self._mode = mode
        self.address = f"127.0.0.1:{port}"
        self.contacts: list[str] = []
        self.lives = 0

    @property
    def name(self) -> str:
        return f"guest-{self.lives}"

    @property
    def _file(self) -> Path:
        return self._folder / f"{self._mode}-{self.name}"

    async def start(self) -> None:
        self.lives += 1
        self._part: Part = self._team.start(
            speak, self._file, self.name, self._mode, self.contacts, self.address
        )
        assert await asyncio.to_thread(self._part.hear, START_S) == "ready"

    async def end(self, number: signal.Signals) -> None:
        os.kill(self._part.pid, number)
        while self._part.is_running:
            await asyncio.sleep(0.01)
        await self.start()

    async def stop_for_a_while(self) -> None:
        os.kill(self._part.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(STOPPED_S)
        finally:
            os.kill(self._part.pid, signal.SIGCONT)

    @property
    def got(self) -> list[bytes]:
        *lines, _ = self._file.read_bytes().split(b"\n") if self._file.exists() else [b""]
        return lines

    @property
    def published(self) -> int:
        return max(numbers_of(PUBLISHED, self.got), default=0)


ENDINGS = {
    "killed": lambda guest: guest.end(signal.SIGKILL),
    "in good order": lambda guest: guest.end(signal.SIGTERM),
    "stopped": Guest.stop_for_a_while,
}
ROLES = ("the only contact", "any other peer")
"""The guest's part among the peers. An only contact that comes back knows no other peer."""


async def settle(what: str, guest: Guest, staying: Sequence[Speaker]) -> None:
    """Wait until an event that each peer publishes now has reached all of them."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def until(missing: Callable[[], list[str]]) -> None:
        while left := missing():
            assert loop.time() - began < WITHIN_S, f"{what}: " + "; ".join(left)
            await asyncio.sleep(0.05)

    names = [guest.name, *(each.name for each in staying)]
    before = {guest.name: guest.published, **{each.name: each.published for each in staying}}

    def unheard() -> list[str]:
        got = {guest.name: guest.got, **{each.name: each.got for each in staying}}
        return [
            f"{reader} has nothing new of {name}"
            for reader in names
            for name in names
            if max(numbers_of(name, got[reader]), default=0) < before[name] + 2
        ]

    await until(unheard)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("mode", MODES)
def test_a_peer_that_ends_and_comes_back_is_heard_again(tmp_path: Path, mode: str) -> None:
    async def main() -> None:
        for role in ROLES:
            with Team() as team:
                await play(team, role)

    async def play(team: Team, role: str) -> None:
        folder = tmp_path / role.replace(" ", "-")
        folder.mkdir()
        guest_port, first_port = free_ports(2)
        guest = Guest(team, folder, mode, guest_port)
        async with AsyncExitStack() as stack:
            first = f"127.0.0.1:{first_port}"
            if role == "the only contact":
                await guest.start()
                contacts = [guest.address]
            else:
                contacts = guest.contacts = [first]
            staying: list[Speaker] = []
            for name in STAYING:
                is_first = not staying and role != "the only contact"
                listen = first if is_first else "127.0.0.1"
                each = await speaker(name, mode, [] if is_first else contacts, listen)
                stack.push_async_callback(each.close)
                staying.append(each)
            if role != "the only contact":
                await guest.start()
            await settle(f"{mode}: {role} at the start", guest, staying)
            for ending, end in ENDINGS.items():
                await end(guest)
                await settle(f"{mode}: {role}, {ending}", guest, staying)
            check(staying)

    def check(staying: Sequence[Speaker]) -> None:
        """Check that the staying peers have all of each other's events, each once, from the first
        that they received. The guest's last events may be lost with it."""
        ids = {each.node.id for each in staying}
        for each in staying:
            assert len(each.got) == len(set(each.got)), f"{each.name} got something twice"
            for name in STAYING:
                numbers = numbers_of(name, each.got)
                ordered = numbers if mode == "ordered" else sorted(numbers)
                assert ordered == list(range(ordered[0], ordered[0] + len(ordered))), (
                    f"{each.name} lacks events of {name}: {numbers}"
                )
            assert not [gap for gap in each.gaps if gap.source in ids]
        if mode == "ordered":
            for one, other in pairwise(staying):
                common = set(one.got) & set(other.got)
                assert [p for p in one.got if p in common] == [p for p in other.got if p in common]

    epicast.run(main())
