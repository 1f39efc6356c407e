"""Topics declared in a geoplex.toml, and topics of a node that is connected to a proxy."""

import socket
from pathlib import Path

import pytest

import epicast
from epicast.core import ConfigError
from tests.client.proxies import embedded_proxy
from tests.integration.runtime.conftest import Run
from tests.integration.topics.support import CONFIG, LOOPBACK, peers, take


def declared(folder: Path, contact: str, settings: str = "") -> Path:
    file = folder / "geoplex.toml"
    file.write_text(f"""
name = "shop"
[regions.us]
proxy = "127.0.0.1:7400"
[topics.chat]
contacts = ["{contact}"]
[topics.chat.settings]
gossip_period = "20ms"
{settings}
""")
    return file


def test_mode_contacts_and_settings_come_from_the_file(run: Run, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        contact = f"{LOOPBACK}:{free.getsockname()[1]}"
    file = declared(tmp_path, contact)

    async def main() -> None:
        async with (
            epicast.join(listen=contact, geoplex=file) as first,  # its own contact
            epicast.join(geoplex=file) as second,
        ):
            topics = [node.topic("chat") for node in (first, second)]
            assert topics[1].config == CONFIG
            await topics[0].joined(20)
            await topics[1].joined(20)
            subscription = topics[0].subscribe()
            await topics[1].publish(b"declared")
            assert [each.payload for each in await take(subscription, 1)] == [b"declared"]
            elsewhere = second.topic("undeclared", contacts=[])
            await elsewhere.joined(20)

    run(main())


def test_a_mistake_in_the_settings_is_told_with_its_place(run: Run, tmp_path: Path) -> None:
    file = declared(tmp_path, "127.0.0.1:7500", settings="fanuot = 3")

    async def main() -> None:
        async with epicast.join(geoplex=file, listen=LOOPBACK) as node:
            with pytest.raises(ConfigError, match=r"geoplex.toml:9: .*did you mean 'fanout'"):
                node.topic("chat")

    run(main())


def test_a_connected_node_has_topics_too(run: Run) -> None:
    async def main() -> None:
        async with embedded_proxy() as proxy:
            node = await epicast.connect(proxy.address, agent=False)
            async with peers(1, cluster=node.geoplex) as [peer]:
                other = peer.topic("chat", config=CONFIG)
                got = other.subscribe()
                topic = node.topic("chat", config=CONFIG, contacts=[peer.address])
                await topic.publish(b"from a client")
                assert [each.payload for each in await take(got, 1)] == [b"from a client"]
                subscription = topic.subscribe()
                await node.close()
                assert topic.state == "left"
                with pytest.raises(epicast.Closed):
                    await subscription.get()
                with pytest.raises(epicast.Closed):
                    node.topic("chat")

    run(main())
