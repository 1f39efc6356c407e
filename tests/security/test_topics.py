"""Topics where connections are encrypted: gossip over connections, among who has certificates, and
each doing what the file lets them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import epicast
from epicast.client import TlsOptions
from epicast.core import ConfigError
from epicast.geo.certificate_authority import describe, read_certificate
from tests.integration.runtime.support import eventually
from tests.integration.topics.support import CONFIG, take
from tests.security.support import GEOPLEX, Secured

TOPICS = """
[topics.chat]

[topics.secret]
"""
RIGHTS = """
[[security.rights]]
identities = ["*"]
topics = ["chat"]
allow = ["publish", "subscribe"]

[[security.rights]]
identities = ["one", "two"]
topics = ["secret"]
allow = ["publish", "subscribe"]

[[security.rights]]
identities = ["watcher"]
topics = ["secret"]
allow = ["subscribe"]
"""
IDENTITIES = ("one", "two", "three", "watcher")


def write(secured: Secured, more: str = "") -> None:
    secured.write(identities=IDENTITIES, rights=RIGHTS, more=more)
    secured.file.write_text(secured.file.read_text() + TOPICS)


@pytest.fixture
def secured(tmp_path: Path) -> Secured:
    secured = Secured(tmp_path)
    write(secured)
    return secured


def agent_tls(secured: Secured, name: str, role: str = "agent") -> TlsOptions:
    return secured.options(
        secured.authority.issue(role, GEOPLEX, name, hosts=["127.0.0.1"])  # type: ignore[arg-type]
    )


class Peers:
    """The first is everybody's contact. Who has no file joins by the name of the geoplex, and
    knows nobody's rights."""

    def __init__(self, secured: Secured, stack: AsyncExitStack) -> None:
        self._secured = secured
        self._stack = stack
        self._contacts: list[str] = []

    async def join(self, name: str, *, file: bool = True) -> epicast.PeerNode:
        known = {"geoplex": self._secured.file} if file else {"cluster": GEOPLEX}
        joining = epicast.join(
            *self._contacts,
            listen="127.0.0.1",
            tls=agent_tls(self._secured, name),
            **known,  # type: ignore[arg-type]
        )
        node = await self._stack.enter_async_context(joining)
        self._contacts = self._contacts or [f"epicasts://{node.address}"]
        return node


@asynccontextmanager
async def among(secured: Secured) -> AsyncIterator[Peers]:
    async with AsyncExitStack() as stack:
        yield Peers(secured, stack)


def count(node: epicast.PeerNode, what: str) -> int | float:
    return node.statistics().get(f"drop.{what}", 0)


def test_events_go_over_encrypted_connections_only(secured: Secured) -> None:
    async def main() -> None:
        async with among(secured) as peers:
            nodes = [await peers.join("one"), await peers.join("two")]
            topics = [node.topic("chat", config=CONFIG) for node in nodes]
            subscriptions = [topic.subscribe() for topic in topics]
            await topics[1].joined(30)
            await topics[1].publish(b"over TLS")
            for subscription in subscriptions:
                assert [each.payload for each in await take(subscription, 1)] == [b"over TLS"]
            for node in nodes:
                assert node.statistics()["datagrams_sent"] == 0
                assert node.statistics()["frames_sent"] > 0
            async with epicast.join(nodes[0].address, cluster=GEOPLEX) as plain:
                with pytest.raises(epicast.JoinFailed):
                    await plain.topic("chat", config=CONFIG).joined(0.5)

    epicast.run(main())


def test_rights_of_named_identities(secured: Secured) -> None:
    """Members exchange events. Who may not subscribe neither gets any nor brings any in, whatever
    it believes itself to be."""

    async def main() -> None:
        async with among(secured) as peers:
            one, two = await peers.join("one"), await peers.join("two")
            three = await peers.join("three", file=False)
            topics = [node.topic("secret", config=CONFIG) for node in (one, two, three)]
            subscriptions = [topic.subscribe() for topic in topics]
            await topics[1].joined(30)
            await topics[1].publish(b"for members")
            for subscription in subscriptions[:2]:
                assert [each.payload for each in await take(subscription, 1)] == [b"for members"]
            await eventually(lambda: count(one, "not a member of the topic") > 0)
            assert topics[2].statistics().get("delivered", 0) == 0
            assert topics[2].state == "joining"
            # It takes part in what it may, over the same connections.
            chats = [node.topic("chat", config=CONFIG) for node in (one, three)]
            heard = chats[0].subscribe()
            await chats[1].joined(30)
            await chats[1].publish(b"hello")
            assert [each.payload for each in await take(heard, 1)] == [b"hello"]

    epicast.run(main())


def test_who_has_the_file_knows_its_own_rights(secured: Secured) -> None:
    async def main() -> None:
        async with among(secured) as peers:
            three, reader = await peers.join("three"), await peers.join("watcher")
            with pytest.raises(epicast.AccessDenied, match="'three' may not subscribe to topic"):
                three.topic("secret")
            with pytest.raises(epicast.AccessDenied, match="may not subscribe to topic 'other'"):
                three.topic("other")
            topic = reader.topic("secret", config=CONFIG, contacts=[])
            for publish in (topic.publish(b"x"), topic.publish_many([b"x"])):
                with pytest.raises(epicast.AccessDenied, match="'watcher' may not publish to"):
                    await publish
            assert topic.next_sequence == 1

    epicast.run(main())


@pytest.mark.parametrize("mode", ["gossip", "ordered"])
def test_events_of_who_may_only_read(secured: Secured, mode: str) -> None:
    config = (
        CONFIG
        if mode == "gossip"
        else epicast.EptoConfig(round_period_ns=20_000_000, shuffle_period_ns=20_000_000)
    )

    async def main() -> None:
        async with among(secured) as peers:
            nodes = [await peers.join("one"), await peers.join("watcher", file=False)]
            topics = [node.topic("secret", mode, config=config) for node in nodes]
            subscriptions = [topic.subscribe() for topic in topics]
            for topic in topics:
                await topic.joined(120)  # which compiles, the first time
            await topics[1].publish(b"not allowed")
            await eventually(lambda: count(nodes[0], "published without the right") > 0)
            await topics[0].publish(b"allowed")
            [event] = await take(subscriptions[0], 1)
            assert event.payload == b"allowed"
            # It is a member nonetheless.
            heard = {each.payload for each in await take(subscriptions[1], 2)}
            assert heard == {b"not allowed", b"allowed"}
            assert topics[0].statistics().get("retrieval_asked", 0) == 0

    epicast.run(main())


def test_strangers_and_revoked_certificates(secured: Secured) -> None:
    two = secured.authority.issue("agent", GEOPLEX, "two", stem="gone", hosts=["127.0.0.1"])
    serial = describe(read_certificate(two.certificate))["serial"]
    write(secured, more=f'revoked = ["{serial}"]')

    async def main() -> None:
        async with among(secured) as peers:
            one = await peers.join("one")
            topic = one.topic("chat", config=CONFIG)
            contact = f"epicasts://{one.address}"
            for tls, reason in (
                (secured.options(two), "was revoked"),
                (agent_tls(secured, "nobody"), "is nobody's"),
            ):
                with pytest.raises(epicast.AccessDenied, match=reason):
                    await epicast.join(contact, geoplex=secured.file, tls=tls)
                before = count(one, "declined")
                async with epicast.join(contact, cluster=GEOPLEX, tls=tls) as other:
                    theirs = other.topic("chat", config=CONFIG)
                    await eventually(lambda: count(one, "declined") > before)  # noqa: B023
                    assert theirs.state == "joining"
            assert topic.statistics()["view"] == 0

    epicast.run(main())


def test_where_anyone_is_let_in_strangers_have_the_rights_of_everybody(secured: Secured) -> None:
    write(secured, more='clients = "anyone"')

    async def main() -> None:
        async with among(secured) as peers:
            one, nobody = await peers.join("one"), await peers.join("nobody")
            topics = [node.topic("chat", config=CONFIG) for node in (one, nobody)]
            subscription = topics[0].subscribe()
            await topics[1].joined(30)
            await topics[1].publish(b"x")
            assert [each.payload for each in await take(subscription, 1)] == [b"x"]
            with pytest.raises(epicast.AccessDenied, match="'agent:nobody' may not subscribe"):
                nobody.topic("secret")

    epicast.run(main())


def test_what_is_missing_is_said(secured: Secured) -> None:
    with pytest.raises(ConfigError, match=r"has a table \[security\]"):
        epicast.join(listen="127.0.0.1", geoplex=secured.file)
    with pytest.raises(ConfigError, match="by certificates, not by tokens"):
        epicast.join("epicasts://127.0.0.1:1", cluster=GEOPLEX)


def test_a_certificate_that_nobody_would_accept_is_found_out_first(secured: Secured) -> None:
    now = datetime.now(UTC)
    later = secured.authority.issue(
        "agent", GEOPLEX, "one", stem="later", valid_from=now + timedelta(days=1)
    )
    expired = secured.expired("agent", "one", "old")
    client = secured.authority.issue("client", GEOPLEX, "three")

    async def main() -> None:
        for issued, words in (
            (later, "later.pem: its certificate is not valid yet"),
            (expired, "old.pem: its certificate has expired"),
            (client, "epicast certificate agent"),
        ):
            tls = secured.options(issued)
            with pytest.raises(epicast.EpicastError, match=words):
                await epicast.join(listen="127.0.0.1", geoplex=secured.file, tls=tls)

    epicast.run(main())
