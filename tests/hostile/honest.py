"""The honest nodes of a geoplex under attack, in a process of their own.

    python -m tests.hostile.honest OWNER ANOTHER SIDECAR

A client at the owner publishes; it, an agent at another proxy and a client of the sidecar subscribe
from the beginning; three peers take part in a topic of each mode. It writes where it listens as
JSON; once its standard input ends, it publishes a last time and writes what everybody got.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

import msgspec

import epicast
from epicast import Event, Reset, Tombstone
from epicast.runtime import run

CLUSTER = "besieged"
PUBLISHER = 4242
STREAM = "orders"
EVERY_S = 0.02
PATIENCE_S = 60.0


class Listening(msgspec.Struct):
    agent: tuple[str, int]
    peers: list[tuple[str, int]]
    topics: list[int]


class Outcome(msgspec.Struct):
    acknowledged: int
    """Publications, each with its own number as payload."""
    got: dict[str, list[tuple[int, int, str]]]
    """By subscriber: first and last number, and the payload, or what else it is."""
    reached: list[int]
    """How many peers got each of the topics' last events."""


async def subscribe(node: epicast.Node, got: list[tuple[int, int, str]]) -> None:
    async for item in node.stream(STREAM).subscribe(after=0):
        if isinstance(item, Event):
            got.append((item.seq, item.seq, item.payload.hex()))
        elif isinstance(item, Tombstone):
            got.append((item.first, item.last, "tombstone"))
        elif isinstance(item, Reset):
            got.append((item.watermark.epoch, item.watermark.seq, "reset"))


async def main(owner: str, another: str, sidecar: str) -> None:
    stopped = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    async with (
        epicast.connect(owner, agent=False, publisher=PUBLISHER, timeout=PATIENCE_S) as first,
        epicast.connect(another, agent=True, timeout=PATIENCE_S) as agent,
        epicast.connect(sidecar, agent=False, timeout=PATIENCE_S) as behind,
    ):
        nodes = {"owner": first, "agent": agent, "sidecar": behind}
        got: dict[str, list[tuple[int, int, str]]] = {name: [] for name in nodes}
        tasks = [asyncio.create_task(subscribe(node, got[name])) for name, node in nodes.items()]
        contact = await epicast.join(listen="127.0.0.1", cluster=CLUSTER)
        peers = [contact, *[await epicast.join(contact.address, cluster=CLUSTER) for _ in range(2)]]
        topics = [[peer.topic("chat", mode) for peer in peers] for mode in ("gossip", "ordered")]
        heard = [[topic.subscribe() for topic in same] for same in topics]
        for same in topics:
            for topic in same:
                await topic.joined(PATIENCE_S)
        listening = Listening(
            (agent._driver.node.host, agent._driver.node.port),
            [(peer.peer.host, peer.peer.port) for peer in peers],
            [same[0].number for same in topics],
        )
        print(msgspec.json.encode(listening).decode(), flush=True)
        stream = first.stream(STREAM)
        acknowledged = 0
        while not stopped.done():
            await stream.publish(b"%d" % (acknowledged + 1), key=b"k")
            acknowledged += 1
            for same in topics:
                await same[0].publish(b"now")
            await asyncio.sleep(EVERY_S)
        last = await stream.publish(b"%d" % (acknowledged + 1))
        acknowledged += 1
        for each in got.values():
            with suppress(TimeoutError):
                await asyncio.wait_for(_until(each, last), PATIENCE_S)
        reached = [
            await _reaches(same, subscribed) for same, subscribed in zip(topics, heard, strict=True)
        ]
        print(msgspec.json.encode(Outcome(acknowledged, got, reached)).decode(), flush=True)
        for task in tasks:
            task.cancel()
        for peer in peers:
            await peer.close()


async def _until(got: list[tuple[int, int, str]], seq: int) -> None:
    while not got or got[-1][1] < seq:
        await asyncio.sleep(0.02)


async def _reaches(topics: list[epicast.Topic], subscribed: list[epicast.TopicSubscription]) -> int:
    """How many peers get an event that is published now."""
    await topics[0].publish(b"the last")

    async def wait(subscription: epicast.TopicSubscription) -> bool:
        while True:
            item = await subscription.get(timeout=15)
            if isinstance(item, Event) and item.payload == b"the last":
                return True

    found = await asyncio.gather(*map(wait, subscribed), return_exceptions=True)
    return sum(each is True for each in found)


if __name__ == "__main__":
    run(main(*sys.argv[1:4]))
