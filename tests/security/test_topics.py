"""Topics where connections are encrypted: gossip over connections, among who has certificates."""

from pathlib import Path

import pytest

import epicast
from epicast.client import TlsOptions
from epicast.core import ConfigError
from tests.integration.topics.support import CONFIG, take
from tests.security.support import GEOPLEX, Secured

TOPICS = """
[topics.chat]

[topics.secret]
"""
RIGHT = """
[[security.rights]]
identities = ["*"]
topics = ["chat"]
allow = ["publish", "subscribe"]

[[security.rights]]
identities = ["shop"]
topics = ["secret"]
allow = ["publish", "subscribe"]
"""


@pytest.fixture
def secured(tmp_path: Path) -> Secured:
    secured = Secured(tmp_path)
    secured.write(rights=RIGHT)
    secured.file.write_text(secured.file.read_text() + TOPICS)
    return secured


def agent_tls(secured: Secured, name: str, role: str = "agent") -> TlsOptions:
    issued = secured.authority.issue(role, GEOPLEX, name, hosts=["127.0.0.1"])
    ca = secured.certificates / "ca.pem"
    return TlsOptions(ca=ca, certificate=issued.certificate, key=issued.key)


def test_events_go_over_encrypted_connections_only(secured: Secured) -> None:
    async def main() -> None:
        first = await epicast.join(
            listen="127.0.0.1", geoplex=secured.file, tls=agent_tls(secured, "one")
        )
        contact = f"epicasts://{first.address}"
        second = await epicast.join(contact, cluster=GEOPLEX, tls=agent_tls(secured, "two"))
        try:
            topics = [node.topic("chat", config=CONFIG) for node in (first, second)]
            subscriptions = [topic.subscribe() for topic in topics]
            await topics[1].joined(30)
            await topics[1].publish(b"over TLS")
            for subscription in subscriptions:
                assert [each.payload for each in await take(subscription, 1)] == [b"over TLS"]
            for node in (first, second):
                assert node.statistics()["datagrams_sent"] == 0
                assert node.statistics()["frames_sent"] > 0
            with pytest.raises(epicast.AccessDenied, match="peers cannot check"):
                first.topic("secret")
            async with epicast.join(first.address, cluster=GEOPLEX) as plain:
                with pytest.raises(epicast.JoinFailed):
                    await plain.topic("chat", config=CONFIG).joined(0.5)
        finally:
            await second.close()
            await first.close()

    epicast.run(main())


def test_what_is_missing_is_said(secured: Secured) -> None:
    with pytest.raises(ConfigError, match=r"has a table \[security\]"):
        epicast.join(listen="127.0.0.1", geoplex=secured.file)
    with pytest.raises(ConfigError, match="by certificates, not by tokens"):
        epicast.join("epicasts://127.0.0.1:1", cluster=GEOPLEX)
