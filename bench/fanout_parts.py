"""The processes of `bench fanout` besides the proxy: one that publishes, and some with many agents
each."""

import asyncio
import resource
import time
from collections import Counter as Tally
from random import Random

import epicast
from bench.peer_ways import BatchCheck, Expected
from bench.rivals.events import events
from bench.rivals.processes import hear, play, tell
from epicast.core import EventBatch, Peer
from epicast.deployment import stream_id
from epicast.protocols.sprinkler import Agent, AgentConfig, Attached
from epicast.runtime import Limits, NodeDriver, identify

STREAM = "events"
BATCH = 10_000
FIRST = 1000
"""Events published before the clock runs, so that neighbours have connected to each other."""
_FIRST_AGENT = 1_000_000
_PATIENCE_S = 60.0
_LOOK_S = 0.05
_SECOND = 1_000_000_000

CONFIG = AgentConfig(
    view_size=12,
    fanout=4,
    # A new choice of neighbours costs connections: with this many agents on one machine they are
    # dear, and one set of neighbours lasts the whole run.
    shuffle_time_ns=600 * _SECOND,
    gossip_every_ns=2 * _SECOND,
    # Two cores for a thousand agents: everything takes its time.
    request_timeout_ns=10 * _SECOND,
    acknowledge_within_ns=60 * _SECOND,
    silence=10,
    buffer_bytes=2 << 20,
    early_bytes=1 << 20,
)
LIMITS = Limits(
    receive_block_bytes=32 << 10, connect_timeout_ns=30 * _SECOND, idle_close_ns=600 * _SECOND
)
_WINDOW_BYTES = 8 << 20


class Follower:
    """One agent and the application it is part of."""

    def __init__(self, number: int, expected: Expected) -> None:
        self.last = 0
        self.error = ""
        self.attached = False
        self._check = BatchCheck(0, expected)
        self._agent: Agent
        self._number = number
        self._driver: NodeDriver

    async def start(self, proxy: Peer, cluster: str) -> None:
        self._driver = NodeDriver(
            self._number,
            limits=LIMITS,
            cluster=cluster,
            seed=self._number,
            on_topic_delivery=self._on_delivery,
            on_notice=self._on_notice,
        )
        node = await self._driver.listen()
        self._agent = Agent(node, CONFIG, Random(self._number))
        self._agent.subscribe(1, stream_id(STREAM), 0, 0, _WINDOW_BYTES)
        await self._driver.start(self._agent, [proxy])

    def _on_notice(self, _: int, notice: object) -> None:
        self.attached = self.attached or isinstance(notice, Attached)

    def _on_delivery(self, number: int, batch: EventBatch) -> None:
        try:
            self._check.take(batch)
        except AssertionError as error:
            self.error = self.error or repr(error)
        else:
            self.last = batch.last
        self._agent.consumed(number, batch.last)
        self._driver.wake()

    def statistics(self) -> dict[str, int | float]:
        return {**self._driver.statistics(), **self._agent.statistics()}

    async def stop(self) -> None:
        await self._driver.stop()


def follow(host: str, port: int, first: int, count: int) -> None:
    """Run agents until every one of them has everything, or time is up."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def main() -> None:
        hello = await identify(host, port, _PATIENCE_S)
        proxy = Peer(hello.node.id, host, port)
        expected = Expected()
        followers = [Follower(_FIRST_AGENT + first + n, expected) for n in range(count)]
        for follower in followers:
            await follower.start(proxy, hello.cluster)
        deadline = time.monotonic() + _PATIENCE_S
        while not all(f.attached for f in followers) and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_S)
        tell(sum(f.attached for f in followers))
        await until(followers, *await asyncio.to_thread(hear))
        tell("first")
        wanted, seconds = await asyncio.to_thread(hear)
        before = total(followers)
        await until(followers, wanted, seconds)
        finished = time.monotonic()
        counted = total(followers)
        counted.subtract(before)
        tell(
            {
                "finished": finished,
                "lost": sum(wanted - f.last for f in followers),
                "errors": [f.error for f in followers if f.error],
                "statistics": dict(counted),
            }
        )
        await asyncio.to_thread(hear)  # others may still need what is here
        await asyncio.gather(*(f.stop() for f in followers))

    epicast.run(main())


async def until(followers: list[Follower], wanted: int, seconds: float) -> None:
    """Everybody has so many events, or time is up."""
    deadline = time.monotonic() + seconds
    while any(f.last < wanted for f in followers) and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_S)


def total(followers: list[Follower]) -> Tally[str]:
    added: Tally[str] = Tally()
    for follower in followers:
        added.update(follower.statistics())
    return added


def publish(address: str, count: int, rate: int) -> None:
    """Batches at a steady rate."""
    limits = epicast.PublishLimits(batch_events=BATCH)

    async def main() -> None:
        async with epicast.connect(address, agent=False, limits=limits) as node:
            stream = node.stream(STREAM)
            columns = epicast.EventBatch.build(1, 1, events(BATCH))
            tell("ready")
            hear()
            await stream.publish_many(columns.slice(1, FIRST))
            hear()
            start = time.monotonic()
            for number in range(0, count, BATCH):
                await asyncio.sleep(max(0.0, start + number / rate - time.monotonic()))
                await stream.publish_many(columns.slice(1, min(BATCH, count - number)))
            tell({"started": start, "batch_bytes": columns.wire_size()})

    epicast.run(main())


if __name__ == "__main__":
    play({"follow": follow, "publish": publish})
