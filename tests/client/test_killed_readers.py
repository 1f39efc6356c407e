"""Subscribers that resume get the whole stream, whenever they are killed and however they read."""

import asyncio
import multiprocessing
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from random import Random

import epicast
from epicast.client.watermarks import WatermarkFile
from tests.client.proxies import EmbeddedProxy, embedded_proxy, eventually
from tests.client.readers import COMMAND, WAYS, noted, read

STREAM = "prices"
_EVERY_S = 1.0
"""How often a watermark is saved if nothing else is said."""


class Reader:
    """All runs of one way of reading."""

    def __init__(self, way: str, proxy: EmbeddedProxy, folder: Path) -> None:
        self.way = way
        self._proxy = proxy
        self._folder = folder
        self._context: ForkServerContext = multiprocessing.get_context("forkserver")
        self._process: ForkServerProcess | None = None

    def start(self) -> None:
        arguments = (self.way, self._proxy.address, self._folder, STREAM)
        self._process = self._context.Process(target=read, args=arguments, daemon=True)
        self._process.start()

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self.ended()

    async def ended(self) -> None:
        process = self._process
        assert process is not None
        await eventually(lambda: process.exitcode is not None, f"{self.way} ends")

    async def opened(self, times: int) -> None:
        await eventually(lambda: len(self.places()) >= times, f"{self.way} is open")

    def places(self) -> list[int]:
        """Where each run began."""
        return [seq for what, seq in noted(self._folder, self.way) if what == "open"]

    def got(self) -> list[int]:
        return [seq for what, seq in noted(self._folder, self.way) if what == "got"]

    @property
    def saved(self) -> int:
        saved = WatermarkFile(self._folder / f"{self.way}.json").get(STREAM)
        return 0 if saved is None else saved.seq


async def publish(node: epicast.Node, count: int) -> int:
    prices = node.stream(STREAM)
    return await prices.publish_many([b"%d" % number for number in range(count)])


def test_the_union_of_all_runs_is_the_stream(tmp_path: Path) -> None:
    async def each(reader: Reader, node: epicast.Node) -> None:
        rng = Random(reader.way)
        # Killed right after it was opened, before there was an event.
        reader.start()
        await reader.opened(1)
        await reader.kill()
        await publish(node, 20)
        # Killed while events flow, at any moment, the first milliseconds included.
        for longest in (0.02, 0.2, 0.4):
            reader.start()
            await asyncio.sleep(rng.uniform(0, longest))
            await reader.kill()
            await publish(node, 5)
        # Running for longer than a watermark stays unsaved.
        runs = len(reader.places())
        reader.start()
        await reader.opened(runs + 1)
        began = reader.places()[-1]
        await asyncio.sleep(1.5 * _EVERY_S)
        await eventually(lambda: reader.saved > began, f"{reader.way}: a watermark is saved")
        assert reader.saved <= max(reader.got())
        await reader.kill()

    async def main() -> None:
        multiprocessing.get_context("forkserver").set_forkserver_preload(["tests.client.readers"])
        async with embedded_proxy() as proxy, epicast.connect(proxy.address, agent=False) as node:
            readers = [Reader(way, proxy, tmp_path) for way in WAYS]
            await publish(node, 3)

            async def flow() -> None:
                while True:
                    await publish(node, 4)
                    await asyncio.sleep(0.02)

            for first in range(0, len(readers), 3):
                some = readers[first : first + 3]
                flowing = asyncio.create_task(flow())
                await asyncio.gather(*(each(reader, node) for reader in some))
                flowing.cancel()
            end = await node.stream(STREAM).publish(b"END")
            for reader in readers:
                reader.start()
            for reader in readers:
                await eventually(lambda reader=reader: end in reader.got(), reader.way)
                if reader.way == COMMAND:
                    await reader.kill()
                else:
                    await reader.ended()
                missed = set(range(reader.places()[0] + 1, end + 1)) - set(reader.got())
                assert not missed, f"{reader.way} missed {sorted(missed)} of {end}"
                assert reader.saved <= end

    asyncio.run(main())
