"""Random wishes, sends, cut connections and restarts; the promises of the contract hold throughout.

What happens depends on the timing of real sockets, so a seed does not reproduce a run; but whatever
happens must keep the rules that `Judge` checks.
"""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from epicast.core import CONTROL, DATA, DATAGRAM, AnyMessage, Effects, NodeId, Peer, Recovered
from epicast.runtime import Limits, MemoryStorage, NodeDriver
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import Node, Scripted, eventually, start
from tests.unit.wire.samples import Fields

NERVOUS = Limits(
    idle_close_ns=15_000_000, backoff_first_ns=1_000_000, backoff_max_ns=5_000_000,
    connect_timeout_ns=300_000_000, connect_attempts=3, transport_buffer_bytes=4096,
    receive_block_bytes=8192, data_queue_bytes=200_000, stop_timeout_ns=500_000_000,
)  # fmt: skip
NOT_ASKED, ASKED, UP = "not asked", "asked", "up"
CHANNELS = {"control": CONTROL, "data": DATA, "datagram": DATAGRAM}


class Judge(Scripted):
    """Keeps the books of one node and complains, by raising, which fails the driver."""

    def __init__(self, node: Peer) -> None:
        super().__init__(node)
        self.state: dict[NodeId, str] = {}
        self.incarnation = 0
        self.sent = 0
        self.newest: dict[tuple[NodeId, str], tuple[int, int]] = {}
        self.final: set[NodeId] = set()

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        self.incarnation = recovered.incarnation

    def connect(self, peer: Peer, fx: Effects) -> None:
        self.state[peer.id] = ASKED
        fx.connect(peer)

    def disconnect(self, peer: Peer, fx: Effects) -> None:
        self.state[peer.id] = NOT_ASKED
        fx.disconnect(peer.id)

    def send(self, to: Peer, channel: str, size: int, fx: Effects) -> None:
        self.sent += 1
        fx.know(to)
        message = Fields(self.sent, f"{self.incarnation} {channel}", bytes(size))
        fx.send(to.id, message, CHANNELS[channel])

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        assert self.state.get(peer) == ASKED, f"up of {peer}: {self.state.get(peer)}"
        self.state[peer] = UP

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        assert self.state.get(peer) in (ASKED, UP), f"down of {peer}: {self.state.get(peer)}"
        self.state[peer] = NOT_ASKED

    def on_messages(
        self, now: int, source: NodeId, messages: Sequence[AnyMessage], fx: Effects
    ) -> None:
        for message in messages:
            assert isinstance(message, Fields)
            incarnation, channel = message.text.split()
            if channel == "datagram":
                continue
            if message.data == b"final":
                self.final.add(source)
            key, stamp = (source, channel), (int(incarnation), message.number)
            assert stamp > self.newest.get(key, (0, 0)), f"{channel} of {source} not in order"
            self.newest[key] = stamp


async def start_judge(node_id: NodeId, port: int, storage: MemoryStorage) -> Node:
    driver = NodeDriver(node_id, port=port, limits=NERVOUS, storage=storage)
    return await start(driver, make=Judge)


def random_wish(rng: Random, judge: Judge, other: Peer, fx: Effects) -> None:
    choice = rng.random()
    if choice < 0.15:
        judge.connect(other, fx)
    elif choice < 0.25:
        judge.disconnect(other, fx)
    else:
        size = rng.choice((0, 0, 100, 5_000, 60_000))
        channel = rng.choice(sorted(CHANNELS)) if size < 1000 else "data"
        judge.send(other, channel, size, fx)


def cut_a_connection(rng: Random, victim: Node) -> None:
    links = [link for link in victim.driver._links.links.values() if link.connection]
    if links:
        connection = rng.choice(links).connection
        assert connection is not None
        connection.transport.abort()


@pytest.mark.parametrize("seed", range(3))
def test_rules_hold_whatever_happens(run: Run, seed: int) -> None:
    async def main() -> None:
        rng = Random(seed)
        storages = {node_id: MemoryStorage() for node_id in (1, 2, 3, 4)}
        nodes = {node_id: await start_judge(node_id, 0, storages[node_id]) for node_id in storages}
        for _ in range(300):
            one, other = rng.sample(sorted(nodes), 2)
            node, peer = nodes[one], nodes[other].peer
            judge = node.protocol
            assert isinstance(judge, Judge)
            node.do(lambda fx, judge=judge, peer=peer: random_wish(rng, judge, peer, fx))
            choice = rng.random()
            if choice < 0.02:
                port = node.peer.port
                await node.driver.stop()
                nodes[one] = await start_judge(one, port, storages[one])
            elif choice < 0.05:
                cut_a_connection(rng, node)
            elif choice < 0.5:
                await asyncio.sleep(rng.choice((0, 0.001, 0.02)))
        await settle(nodes)
        for node in nodes.values():
            await node.driver.stop()

    run(main())


async def settle(nodes: dict[NodeId, Node]) -> None:
    """In the end everybody can still reach everybody."""

    def reach_out(judge: Judge, fx: Effects) -> None:
        for peer in (node.peer for node in nodes.values()):
            if peer.id != judge.node.id:
                judge.sent += 1
                fx.know(peer)
                fx.send(peer.id, Fields(judge.sent, f"{judge.incarnation} data", b"final"), DATA)

    judges = [node.protocol for node in nodes.values()]
    for _ in range(200):  # a connection that is just being cut may take a message with it
        for node, judge in zip(nodes.values(), judges, strict=True):
            assert isinstance(judge, Judge)
            node.do(lambda fx, judge=judge: reach_out(judge, fx))
        await asyncio.sleep(0.01)
        if all(isinstance(j, Judge) and len(j.final) == len(nodes) - 1 for j in judges):
            break
    await eventually(
        lambda: all(isinstance(j, Judge) and len(j.final) == len(nodes) - 1 for j in judges),
        "everybody has heard from everybody",
    )
    await eventually(
        lambda: all(isinstance(j, Judge) and ASKED not in j.state.values() for j in judges),
        "every connect is answered",
    )
