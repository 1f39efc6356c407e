"""Proxies and clients with security, over real sockets: who gets in, who does what."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import epicast
from epicast.client import ConnectFailed
from epicast.deployment import Geoplex
from epicast.geo.agent import AgentService
from epicast.geo.certificate_authority import Issued
from epicast.geo.proxy import ProxyService
from epicast.geo.status import StatusUnknown, ask_status
from epicast.runtime.tls import Tls, TlsError, TlsFiles, dialing_context
from tests.geo.support import eventually_true
from tests.security.support import GEOPLEX, RIGHTS, Secured, address_of, new_token

PATIENCE_S = 30.0


@asynccontextmanager
async def running(geoplex: Geoplex, *regions: str) -> AsyncIterator[dict[str, ProxyService]]:
    services = {region: ProxyService(geoplex, region) for region in regions}
    try:
        for service in services.values():
            await service.start()
        yield services
    finally:
        for service in services.values():
            await service.stop()


async def connected(services: dict[str, ProxyService]) -> None:
    async def all_of_them() -> bool:
        return all(s.status().proxies == len(services) - 1 for s in services.values())

    await eventually_true(all_of_them, "the proxies do not find each other")


def heads(services: dict[str, ProxyService]) -> dict[str, int]:
    return {s.name: s.head for service in services.values() for s in service.status().streams}


def test_a_publication_crosses_regions_encrypted(secured: Secured) -> None:
    async def main() -> None:
        geoplex = secured.geoplex
        async with running(geoplex, "us", "eu") as services:
            await connected(services)
            token, ca = secured.tokens["shop"], secured.ca
            async with (
                epicast.connect(address_of(geoplex, "us"), token=token, tls=ca) as here,
                epicast.connect(address_of(geoplex, "eu"), token=token, tls=ca) as there,
            ):
                assert await here.stream("prices").publish(b"from us to eu") == 1
                assert await there.stream("orders").publish(b"x", level="regions=1") == 1
                for node in (here, there):
                    event = await node.stream("prices").subscribe(after=0).get(PATIENCE_S)
                    assert event is not None and event.payload == b"from us to eu"  # type: ignore[union-attr]
            for service in services.values():
                counts = service.driver.statistics()
                assert counts["datagrams_sent"] == counts["datagrams_received"] == 0

    epicast.run(main())


def test_what_is_not_allowed_changes_nothing(secured: Secured) -> None:
    async def main() -> None:
        geoplex = secured.geoplex
        async with running(geoplex, "us", "eu") as services:
            await connected(services)
            options = {"token": secured.tokens["reader"], "tls": secured.ca}
            async with epicast.connect(address_of(geoplex, "us"), **options) as node:  # type: ignore[arg-type]
                for stream in ("orders", "prices"):  # owned here, and elsewhere
                    with pytest.raises(epicast.PublishForbidden) as caught:
                        await node.stream(stream).publish(b"x")
                    assert caught.value.code == "FORBIDDEN"
                    assert "'reader' may not publish" in caught.value.detail
                with pytest.raises(epicast.PublishForbidden):
                    await node.stream("orders").collect("seq < 10")
                assert heads(services) == {"orders": 0, "prices": 0}
                assert services["us"].status().protocol["relayed"] == 0
                # Others are not affected, nor is what this one may do.
                options["token"] = secured.tokens["shop"]
                async with epicast.connect(address_of(geoplex, "us"), **options) as shop:  # type: ignore[arg-type]
                    assert await shop.stream("orders").publish(b"x") == 1
                assert await node.stream("orders").subscribe(after=0).get(PATIENCE_S)

    epicast.run(main())


def test_a_subscription_without_the_right(secured: Secured) -> None:
    async def main() -> None:
        geoplex = secured.geoplex
        async with running(geoplex, "us") as services:
            options = {"token": secured.tokens["operator"], "tls": secured.ca}
            async with epicast.connect(address_of(geoplex, "us"), **options) as node:  # type: ignore[arg-type]
                subscription = node.stream("orders").subscribe(after=0)
                with pytest.raises(epicast.AccessDenied, match="may not subscribe to stream 'o"):
                    await subscription.get(PATIENCE_S)
                assert services["us"].status().subscriptions == 0
                allowed = node.stream("prices").subscribe(after=0)
                assert await allowed.get(0.1) is None  # open, and nothing there
                assert services["us"].status().subscriptions == 1

    epicast.run(main())


def test_status_is_for_operators(secured: Secured) -> None:
    async def main() -> None:
        geoplex = secured.geoplex
        async with running(geoplex, "us"):
            files = secured.certificates / "ca.pem"
            from epicast.runtime.tls import TlsFiles

            tls = Tls(dialing_context(TlsFiles(str(files)), by_host=True))
            address = geoplex.region("us").address
            status = await ask_status(*address, tls=tls, token=secured.tokens["operator"])
            assert status.region == "us"
            with pytest.raises(StatusUnknown, match="'shop' may not act as an administrator"):
                await ask_status(*address, tls=tls, token=secured.tokens["shop"])
            with pytest.raises(StatusUnknown, match="need an identity"):
                await ask_status(*address, tls=tls)

    epicast.run(main())


def test_who_is_not_let_in_is_told_why(secured: Secured, tmp_path: Path) -> None:
    stranger = Secured(tmp_path / "elsewhere")
    billing = secured.authority.issue("client", GEOPLEX, "billing")
    foreign = epicast.TlsOptions(
        ca=secured.certificates / "ca.pem",
        certificate=stranger.authority.issue("client", GEOPLEX, "billing").certificate,
        key=stranger.certificates / "billing.key",
    )
    elsewhere = epicast.TlsOptions(ca=secured.certificates / "ca.pem", server_name="elsewhere")
    expired = secured.options(secured.expired("client", "billing", "old"))
    nobody = secured.options(secured.authority.issue("client", GEOPLEX, "stranger"))
    other = secured.options(secured.authority.issue("client", "other", "x"))
    shop = secured.tokens["shop"]
    cases = [
        ("need an identity", {"tls": secured.ca}),
        ("token is unknown", {"tls": secured.ca, "token": new_token("shop")}),
        ("not trusted here: check the CA", {"tls": stranger.ca, "token": shop}),
        ("our certificate, which has expired", {"tls": expired}),
        ("does not trust the authority that made it", {"tls": foreign}),
        ("'stranger' is nobody's", {"tls": nobody}),
        ("another geoplex", {"tls": other}),
        ("another host", {"tls": elsewhere, "token": shop}),
    ]

    async def main() -> None:
        geoplex = secured.geoplex
        async with running(geoplex, "us") as services:
            address = address_of(geoplex, "us")
            good = {"tls": secured.options(billing)}
            async with epicast.connect(address, **good) as steady:  # type: ignore[arg-type]
                subscription = steady.stream("prices").subscribe(after=0)
                for reason, options in cases:
                    with pytest.raises(ConnectFailed) as caught:
                        await epicast.connect(address, timeout=PATIENCE_S, **options)  # type: ignore[arg-type]
                    assert reason in str(caught.value), str(caught.value)
                with pytest.raises(ConnectFailed, match="epicasts://"):
                    await epicast.connect(address.replace("epicasts", "epicast"), timeout=1.0)
                assert steady.attached and not subscription.closed
                assert services["us"].status().attached == 1

    epicast.run(main())


def test_plain_proxy_says_so_to_an_encrypted_client(secured: Secured) -> None:
    plain = secured.file.read_text().split("[security]")[0]
    secured.file.write_text(plain)

    async def main() -> None:
        geoplex = secured.geoplex
        assert geoplex.security is None
        async with running(geoplex, "us"):
            with pytest.raises(ConnectFailed, match="does not speak TLS"):
                await epicast.connect(address_of(geoplex, "us"), tls=secured.ca)

    epicast.run(main())


@pytest.mark.parametrize("fault", ["another region's", "expired", "another authority's"])
def test_a_proxy_with_a_wrong_certificate_is_no_proxy(
    secured: Secured, tmp_path: Path, fault: str
) -> None:
    """It is refused, says so, and the other regions go on."""
    if fault == "another region's":
        for kind in ("pem", "key"):
            source = secured.certificates / f"us.{kind}"
            (secured.certificates / f"eu.{kind}").write_bytes(source.read_bytes())
    elif fault == "expired":
        issued = secured.expired("region", "eu", "old")
        issued.certificate.replace(secured.certificates / "eu.pem")
        issued.key.replace(secured.certificates / "eu.key")
    else:
        stranger = Secured(tmp_path / "elsewhere")
        for kind in ("pem", "key"):
            source = stranger.certificates / f"eu.{kind}"
            (secured.certificates / f"eu.{kind}").write_bytes(source.read_bytes())

    async def main() -> None:
        geoplex = secured.geoplex
        async with running(geoplex, "us", "eu") as services:
            us = services["us"]

            async def refused() -> bool:
                counts = us.driver.statistics()
                return counts.get("drop.declined", 0) + counts.get("drop.not encrypted", 0) >= 2

            await eventually_true(refused)
            assert us.status().proxies == 0
            options = {"token": secured.tokens["shop"], "tls": secured.ca}
            async with epicast.connect(address_of(geoplex, "us"), **options) as node:  # type: ignore[arg-type]
                assert await node.stream("orders").publish(b"x") == 1
            assert heads({"eu": services["eu"]})["orders"] == 0

    epicast.run(main())


def test_a_proxy_needs_its_files(secured: Secured) -> None:
    geoplex = secured.geoplex
    (secured.certificates / "us.key").write_bytes((secured.certificates / "eu.key").read_bytes())
    with pytest.raises(TlsError, match="belongs to the certificate"):
        ProxyService(geoplex, "us")
    (secured.certificates / "us.pem").unlink()
    with pytest.raises(TlsError, match=r"us\.pem.*epicast certificate"):
        ProxyService(geoplex, "us")
    (secured.certificates / "ca.pem").write_text("nonsense")
    with pytest.raises(TlsError, match="expected PEM"):
        ProxyService(geoplex, "eu")


def test_an_identity_that_is_taken_away(secured: Secured) -> None:
    """After the restart with another file its node ends; others find the proxy again."""

    async def main() -> None:
        geoplex = secured.geoplex
        first = ProxyService(geoplex, "us")
        await first.start()
        address, ca = address_of(geoplex, "us"), secured.ca
        shop = await epicast.connect(address, token=secured.tokens["shop"], tls=ca)
        reader = await epicast.connect(address, token=secured.tokens["reader"], tls=ca)
        subscription = shop.stream("orders").subscribe(after=0)
        await first.stop()
        kept = ("reader", "operator", "sidecar", "billing")
        async with running(secured.write(identities=kept), "us"):
            with pytest.raises(epicast.AccessDenied, match="token is unknown"):
                await asyncio.wait_for(subscription.get(PATIENCE_S), PATIENCE_S)
            with pytest.raises(epicast.AccessDenied):
                await shop.stream("orders").publish(b"x")

            async def back() -> bool:
                return reader.attached

            await eventually_true(back)
            await shop.close()
            await reader.close()

    epicast.run(main())


def test_a_certificate_that_was_revoked(secured: Secured) -> None:
    from epicast.geo.certificate_authority import describe, read_certificate

    issued = secured.authority.issue("client", GEOPLEX, "billing")
    serial = describe(read_certificate(issued.certificate))["serial"]
    geoplex = secured.write(more=f'revoked = ["{serial}"]\n')

    async def main() -> None:
        async with running(geoplex, "us"):
            with pytest.raises(epicast.AccessDenied, match="revoked"):
                await epicast.connect(address_of(geoplex, "us"), tls=secured.options(issued))

    epicast.run(main())


def test_the_same_rules_at_a_sidecar(secured: Secured) -> None:
    issued = secured.authority.issue(
        "agent", GEOPLEX, "sidecar", hosts=["127.0.0.1"], stem="agent-us"
    )
    assert issued.certificate.exists()

    async def main() -> None:
        geoplex = secured.geoplex
        async with running(geoplex, "us"):
            sidecar = AgentService(geoplex, "us")
            await sidecar.start()
            try:
                address = f"epicasts://{sidecar.address}"
                with pytest.raises(epicast.AccessDenied, match="need an identity"):
                    await epicast.connect(address, tls=secured.ca)
                shop = {"token": secured.tokens["shop"], "tls": secured.ca}
                reader = {"token": secured.tokens["reader"], "tls": secured.ca}
                operator = {"token": secured.tokens["operator"], "tls": secured.ca}
                async with (
                    epicast.connect(address, **shop) as writing,  # type: ignore[arg-type]
                    epicast.connect(address, **reader) as reading,  # type: ignore[arg-type]
                    epicast.connect(address, **operator) as other,  # type: ignore[arg-type]
                ):
                    assert writing.at_sidecar
                    assert await writing.stream("orders").publish(b"x") == 1
                    with pytest.raises(epicast.PublishForbidden, match="'reader' may not"):
                        await reading.stream("orders").publish(b"x")
                    event = await reading.stream("orders").subscribe(after=0).get(PATIENCE_S)
                    assert event is not None
                    with pytest.raises(epicast.AccessDenied, match="'operator' may not"):
                        await other.stream("orders").subscribe(after=0).get(PATIENCE_S)
                    # Not everybody may read it: the proxy serves it, agents do not pass it on.
                    assert sidecar.protocol is not None
                    assert sidecar.protocol.statistics()["followed"] == 1
            finally:
                await sidecar.stop()

    epicast.run(main())


def test_a_sidecar_can_do_no_more_than_it_may(secured: Secured) -> None:
    secured.authority.issue("agent", GEOPLEX, "sidecar", hosts=["127.0.0.1"], stem="agent-us")
    rights = """
[[security.rights]]
identities = ["shop"]
streams = ["*"]
allow = ["publish", "subscribe"]
"""
    geoplex = secured.write(rights=rights)

    async def main() -> None:
        async with running(geoplex, "us"):
            sidecar = AgentService(geoplex, "us")
            await sidecar.start()
            try:
                options = {"token": secured.tokens["shop"], "tls": secured.ca}
                async with epicast.connect(f"epicasts://{sidecar.address}", **options) as node:  # type: ignore[arg-type]
                    with pytest.raises(epicast.PublishForbidden, match="'sidecar' may not"):
                        await node.stream("orders").publish(b"x")
                    with pytest.raises(epicast.AccessDenied, match="sidecar's own rights"):
                        await node.stream("orders").subscribe(after=0).get(PATIENCE_S)
            finally:
                await sidecar.stop()

    epicast.run(main())


def test_agents_gossip_encrypted_and_only_what_everybody_may_read(secured: Secured) -> None:
    names = tuple(f"agent-{number}" for number in range(4))
    identities = ("shop", "reader", "operator", "sidecar", "billing", *names)
    rights = """
[[security.rights]]
identities = ["*"]
streams = ["prices"]
allow = ["subscribe"]
[[security.rights]]
identities = ["shop", "agent-0"]
streams = ["*"]
allow = ["publish", "subscribe"]
"""
    geoplex = secured.write(identities=identities, rights=rights)
    issued = [secured.authority.issue("agent", GEOPLEX, name) for name in names]

    async def main() -> None:
        async with running(geoplex, "us", "eu") as services:
            await connected(services)
            address = address_of(geoplex, "us")
            config = epicast.AgentConfig(gossip_every_ns=20_000_000)
            agents = [
                await epicast.connect(address, agent=True, tls=secured.options(each), config=config)
                for each in issued
            ]
            shop = await epicast.connect(address, token=secured.tokens["shop"], tls=secured.ca)
            try:

                async def know_each_other() -> bool:
                    return all(agent.statistics()["view"] >= 3 for agent in agents)

                await eventually_true(know_each_other, "views stay small")
                subscriptions = [agent.stream("prices").subscribe(after=0) for agent in agents]
                secret = agents[0].stream("orders").subscribe(after=0)
                denied = agents[1].stream("orders").subscribe(after=0)
                with pytest.raises(epicast.AccessDenied):
                    await denied.get(PATIENCE_S)
                for number in range(50):
                    await shop.stream("prices").publish(b"%d" % number)
                    await shop.stream("orders").publish(b"%d" % number)
                for subscription in [*subscriptions, secret]:
                    got: list[bytes] = []
                    while len(got) < 50:
                        item = await subscription.get(PATIENCE_S)
                        assert isinstance(item, epicast.Event)
                        got.append(item.payload)
                    assert got == [b"%d" % number for number in range(50)]
                counts = [agent.statistics() for agent in agents]
                assert sum(each["notified"] for each in counts) > 0, "nobody told a neighbour"
                assert all(each["followed"] == 1 for each in counts), "orders was followed"
                assert all(each["datagrams_sent"] == 0 for each in counts)
            finally:
                for node in (*agents, shop):
                    await node.close()

    epicast.run(main())


def test_an_agent_lets_in_agents_only(secured: Secured) -> None:
    identities = ("shop", "reader", "operator", "sidecar", "billing", "one")
    geoplex = secured.write(identities=identities)
    one = secured.authority.issue("agent", GEOPLEX, "one", hosts=["127.0.0.1"])
    billing = secured.authority.issue("client", GEOPLEX, "billing")

    async def main() -> None:
        async with running(geoplex, "us"):
            address = address_of(geoplex, "us")
            agent = await epicast.connect(address, agent=True, tls=secured.options(one))
            try:
                there = agent._driver.node  # type: ignore[attr-defined]
                knock = f"epicasts://{there.host}:{there.port}"
                with pytest.raises(ConnectFailed):
                    await epicast.connect(knock, tls=secured.ca, token=secured.tokens["shop"])
                with pytest.raises(epicast.AccessDenied, match="only agents and proxies"):
                    await epicast.connect(knock, tls=secured.options(billing))
            finally:
                await agent.close()

    epicast.run(main())


def test_an_agent_needs_a_certificate(secured: Secured) -> None:
    with pytest.raises(epicast.EpicastError, match="epicast certificate agent"):
        epicast.connect("epicasts://127.0.0.1:1", agent=True, token=secured.tokens["shop"])
    with pytest.raises(epicast.EpicastError, match="epicasts://"):
        epicast.connect("epicast://127.0.0.1:1", token=secured.tokens["shop"])


def test_a_sidecar_started_again_is_known_by_its_host(secured: Secured) -> None:
    """A client names a host. The id of the sidecar may change, and its identity as well."""
    identities = ("shop", "reader", "operator", "sidecar", "billing", "spare")
    rights = RIGHTS.replace('identities = ["sidecar"]', 'identities = ["sidecar", "spare"]')
    geoplex = secured.write(identities=identities, rights=rights)
    authority = secured.authority
    first = authority.issue("agent", GEOPLEX, "sidecar", hosts=["127.0.0.1"], stem="agent-us")
    spare = authority.issue("agent", GEOPLEX, "spare", hosts=["127.0.0.1"])
    elsewhere = authority.issue("agent", GEOPLEX, "spare", hosts=["10.0.0.1"], stem="elsewhere")

    async def main() -> None:
        async with running(geoplex, "us"):
            files = [files_of(secured, each) for each in (first, elsewhere, spare)]
            sidecar = AgentService(geoplex, "us", files=files[0])
            await sidecar.start()
            port = sidecar.address.port
            options = {"token": secured.tokens["shop"], "tls": secured.ca}
            async with epicast.connect(f"epicasts://{sidecar.address}", **options) as node:  # type: ignore[arg-type]
                orders = node.stream("orders")
                assert await orders.publish(b"before") == 1
                await sidecar.stop()
                impostor = AgentService(geoplex, "us", port=port, files=files[1])
                await impostor.start()
                before = node.statistics()["dial_attempts"]
                waiting = asyncio.ensure_future(orders.publish(b"after"))

                async def tried_again() -> bool:
                    return node.statistics()["dial_attempts"] > before + 3

                await eventually_true(tried_again)
                assert not node.attached and not waiting.done()
                await impostor.stop()
                other = AgentService(geoplex, "us", port=port, files=files[2])
                await other.start()
                try:
                    assert await asyncio.wait_for(waiting, PATIENCE_S) == 2
                finally:
                    await other.stop()

    epicast.run(main())


def test_an_agent_stays_with_the_identity_it_found(secured: Secured) -> None:
    """Agents know proxies by their role, not by their host: another agent may not stand in."""
    identities = ("shop", "reader", "operator", "sidecar", "billing", "one")
    geoplex = secured.write(identities=identities)
    secured.authority.issue("agent", GEOPLEX, "sidecar", hosts=["127.0.0.1"], stem="agent-us")
    one = secured.authority.issue("agent", GEOPLEX, "one", hosts=["127.0.0.1"])

    async def main() -> None:
        async with running(geoplex, "us"):
            agent = await epicast.connect(
                address_of(geoplex, "us"), agent=True, tls=secured.options(one)
            )

        async def refused() -> bool:
            return agent.statistics().get("drop.declined", 0) > 0

        async def attached() -> bool:
            return agent.attached

        stand_in = AgentService(geoplex, "us", port=geoplex.region("us").address.port)
        try:
            await stand_in.start()
            await eventually_true(refused, "whoever answered was let in")
            assert not agent.attached
            await stand_in.stop()
            async with running(geoplex, "us"):
                await eventually_true(attached)
        finally:
            await stand_in.stop()
            await agent.close()

    epicast.run(main())


def files_of(secured: Secured, issued: Issued) -> TlsFiles:
    return TlsFiles(str(secured.certificates / "ca.pem"), str(issued.certificate), str(issued.key))
