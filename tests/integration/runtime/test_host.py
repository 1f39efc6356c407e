"""Topics of a host on a real network: each gets its own events, over one connection."""

from collections import defaultdict
from random import Random

from epicast.core import EventBatch
from epicast.core.host import Host, HostConfig
from epicast.protocols.catalog import stack_factory
from epicast.runtime import NodeDriver
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import eventually

FACTORY = stack_factory(["hyparview", "flood"], {})


def test_topics_share_a_connection_and_nothing_else(run: Run) -> None:
    async def main() -> None:
        got: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        drivers: list[NodeDriver] = []
        hosts: list[Host] = []
        for identity in (1, 2):

            def take(topic: int, batch: EventBatch, identity: int = identity) -> None:
                got[identity, topic] += batch.payloads()

            driver = NodeDriver(identity, on_topic_delivery=take)
            peer = await driver.listen()
            host = Host(peer, HostConfig(), Random(identity))
            host.add(7, FACTORY(peer, Random(identity)))
            await driver.start(host, [drivers[0].node] if drivers else [])
            drivers.append(driver)
            hosts.append(host)
        for host, driver in zip(hosts, drivers, strict=True):  # another topic, while running
            host.add(8, FACTORY(driver.node, Random(driver.node.id + 10)))
            driver.wake()
        await eventually(
            lambda: all(
                (p := host.protocol(topic)) is not None and p.neighbors()
                for host in hosts
                for topic in (7, 8)
            ),
            "both topics have neighbours",
        )
        await drivers[0].publish(EventBatch.build(1, 1, [b"seven"]), topic=7)
        await drivers[1].publish(EventBatch.build(2, 1, [b"eight"]), topic=8)
        await eventually(lambda: len(got) == 4, "all deliveries")
        assert got == {
            (1, 7): [b"seven"], (2, 7): [b"seven"], (1, 8): [b"eight"], (2, 8): [b"eight"],
        }  # fmt: skip
        assert [driver.statistics()["connections"] for driver in drivers] == [1, 1]
        for driver in drivers:
            await driver.stop()

    run(main())
