"""Three regions with a proxy each; in each of them somebody publishes and somebody reads.

How long publishers wait while a stream is handed over, in a simulated network with 40 ms one way:

    python -m tests.protocols.sprinkler.moving.world
"""

from __future__ import annotations

from itertools import pairwise

from epicast.core import EventBatch, NodeId, Publication
from epicast.deployment import parse_geoplex
from epicast.protocols.sprinkler import AgentConfig, ClientConfig, MovableProxy, ProxyConfig
from epicast.protocols.sprinkler.alarms import AlarmKind
from epicast.protocols.sprinkler.moving.messages import MoveReply
from epicast.protocols.sprinkler.notices import Restarted
from epicast.sim.checkers import check_nodes
from epicast.sim.geoplex import SimGeoplex
from epicast.sim.node import SimNode

MS = 1_000_000
SECOND = 1000 * MS
REGIONS = ("a", "b", "c")
TEXT = """
name = "moving"
[regions.a]
proxy = "a:1"
data = "a"
[regions.b]
proxy = "b:1"
data = "b"
[regions.c]
proxy = "c:1"
data = "c"
[regions.bare]
proxy = "bare:1"
[streams.s]
owner = "a"
ack = "disk"
"""


class MovingWorld:
    def __init__(self, seed: int = 1) -> None:
        self.geo = SimGeoplex(
            parse_geoplex(TEXT, "moving"), seed, sync_ns=2 * MS,
            proxy_config=ProxyConfig(), agent_config=AgentConfig(acknowledge_within_ns=SECOND),
            check_addresses=True,
        )  # fmt: skip
        self.simulation = self.geo.simulation
        self.stream = self.geo.streams["s"].id
        self.read: dict[str, list[bytes]] = {}
        self.resets: dict[str, int] = {}
        self.acknowledged: list[bytes] = []
        self.acknowledged_at: dict[NodeId, list[int]] = {}
        self.replies: list[MoveReply] = []
        self._names: dict[NodeId, str] = {}
        self._writers: dict[str, SimNode] = {}
        self._published: dict[str, int] = {}
        self.simulation.on_topic_delivery = self._on_delivery
        self.simulation.on_notice = self._on_notice
        self.simulation.on_acknowledge = self._on_acknowledge
        for region in REGIONS:
            config = ClientConfig(acknowledge_within_ns=SECOND)
            self._writers[region] = self.geo.add_client(region, f"{region}/writer", config)
            add = self.geo.add_agent if region == "b" else self.geo.add_client
            reader = add(region, f"{region}/reader")
            self._names[reader.id] = region
            self.read[region], self.resets[region] = [], 0
            self.geo.subscribe(reader, 1, "s")
        self.run(SECOND)

    # -- what happens ----------------------------------------------------------------------------

    def run(self, duration_ns: int) -> None:
        end = self.simulation.now + duration_ns
        while self.simulation.now < end:
            self.simulation.run_until(min(end, self.simulation.now + 200 * MS))
            check_nodes(self.simulation)

    def publish(self, region: str, count: int = 1, level: str = "") -> None:
        for _ in range(count):
            number = self._published.get(region, 0) + 1
            self._published[region] = number
            payload = b"%s%d" % (region.encode(), number)
            batch = EventBatch.build(self.stream, number, [payload])
            self.geo.publish(self._writers[region], batch, level)

    def publish_everywhere(self, rounds: int = 20) -> None:
        for _ in range(rounds):
            for region in REGIONS:
                self.publish(region)
            self.run(10 * MS)

    def move(self, to: str, *, at: str = "a", force: bool = False) -> None:
        self.geo.ask_to_move("s", to, self.geo.proxies[to if force else at], force=force)

    def moved(self, to: str, *, at: str = "a", force: bool = False) -> MoveReply:
        before = len(self.replies)
        self.move(to, at=at, force=force)
        self.run(15 * SECOND)
        assert len(self.replies) == before + 1, "it was not answered"
        return self.replies[-1]

    def crash(self, region: str, *, lose_disk: bool = False) -> None:
        self.simulation.crash(self.geo.proxies[region], lose_disk=lose_disk)

    def start(self, region: str) -> None:
        self.geo.restart(self.geo.proxies[region])

    def isolate(self, region: str) -> object:
        """From the other proxies; `mend` undoes it."""
        alone = self.geo.proxies[region].id
        proxies = {node.id for node in self.geo.proxies.values()}

        def is_cut(source: int, target: int) -> bool:
            return alone in (source, target) and {source, target} <= proxies

        self.simulation.network.cut(is_cut)
        return is_cut

    def mend(self, cut: object) -> None:
        self.simulation.network.mend(cut)  # type: ignore[arg-type]

    # -- what is observed ------------------------------------------------------------------------

    def _on_delivery(self, _: int, node: NodeId, number: int, batch: EventBatch) -> None:
        self.read[self._names[node]] += batch.payloads()
        self.geo.consumed(self.simulation.nodes[node], number, batch.last)

    def _on_notice(self, _: int, node: NodeId, __: int, value: object) -> None:
        if isinstance(value, Restarted):
            self.resets[self._names[node]] += 1
            self.read[self._names[node]].clear()
        elif isinstance(value, MoveReply):
            self.replies.append(value)

    def _on_acknowledge(self, node: NodeId, publication: Publication, __: int) -> None:
        self.acknowledged += publication.batch.payloads()
        self.acknowledged_at.setdefault(node, []).append(self.simulation.now)

    def longest_wait_ms(self, region: str) -> float:
        """Between two acknowledgements in a row."""
        times = self.acknowledged_at[self._writers[region].id]
        return max(later - earlier for earlier, later in pairwise(times)) / MS

    def proxy(self, region: str) -> MovableProxy:
        protocol = self.geo.proxies[region].protocol
        assert isinstance(protocol, MovableProxy)
        return protocol

    def owners(self) -> set[tuple[str, int]]:
        """As all who live say."""
        nodes = {region: self.geo.proxies[region] for region in REGIONS}
        return {self.proxy(r).owner_of(self.stream) for r, node in nodes.items() if node.alive}

    def numbering(self) -> list[str]:
        return [r for r in REGIONS if self.proxy(r).owns(self.stream)]

    def epochs(self) -> set[int]:
        return {self.proxy(region).progress()["s"][0].epoch for region in REGIONS}

    def losses(self, region: str) -> list[int]:
        alarms = self.proxy(region).alarms(self.simulation.now)
        return [alarm.behind for alarm in alarms if alarm.kind is AlarmKind.LOST]

    def check_all_read(self, *, but: int = 0) -> None:
        """Everybody has read the same, each once, and of what was acknowledged all but so many."""
        one = self.read["a"]
        assert one and len(set(one)) == len(one)
        assert all(self.read[region] == one for region in REGIONS)
        assert len(set(self.acknowledged) - set(one)) == but
        assert len(self.acknowledged) == sum(self._published.values()), "not all was answered"


if __name__ == "__main__":
    world = MovingWorld()
    world.publish_everywhere(50)
    world.move("b")
    world.publish_everywhere(50)
    world.run(3 * SECOND)
    for region in REGIONS:
        print(f"{region}: {world.longest_wait_ms(region):.0f} ms")
