"""Alarms of real proxies and sidecars: a link that swallows, a full disk, a proxy that ends."""

import json
from pathlib import Path

import pytest

import epicast
from epicast import sync
from epicast.cli import main
from epicast.deployment import parse_geoplex
from epicast.geo.agent import AgentService
from epicast.geo.proxy import ProxyService
from epicast.geo.status import AgentStatus, ask_any_status, ask_status
from epicast.geo.warming import warm_up
from epicast.runtime import run
from epicast.runtime.relay import LinkRelay
from tests.geo.support import address_of, eventually, eventually_true, geoplex_text, proxy_process

LIMIT = 256 << 10


def impatient(text: str) -> str:
    return text.replace(
        "[proxies]", '[agents]\nalarm_after = "300ms"\n[proxies]\nalarm_after = "300ms"'
    )


def test_a_link_that_swallows_everything_and_one_that_is_mended() -> None:
    async def scenario() -> None:
        relays = [LinkRelay(), LinkRelay()]
        there, back = [await relay.open() for relay in relays]
        text = impatient(geoplex_text()) + (
            f'[[links]]\nfrom = "us"\nto = "eu"\nvia = "127.0.0.1:{there}"\n'
            f'[[links]]\nfrom = "eu"\nto = "us"\nvia = "127.0.0.1:{back}"\n'
        )
        geoplex = parse_geoplex(text, "test.toml")
        relays[0].target = geoplex.region("eu").address
        relays[1].target = geoplex.region("us").address
        services = {region: ProxyService(geoplex, region) for region in geoplex.regions}
        for service in services.values():
            await service.start()

        async def kinds(region: str) -> list[tuple[str, str]]:
            status = await ask_status(*geoplex.region(region).address)
            return [(alarm.kind, alarm.other) for alarm in status.alarms]

        async def all_well() -> bool:
            return not await kinds("us") and not await kinds("eu")

        async def cut_off() -> bool:
            found = [await kinds(region) for region in ("us", "eu")]
            return found == [[("unreachable", "eu")], [("unreachable", "us")]]

        async with epicast.connect(address_of(geoplex, "us"), agent=False) as node:
            await node.stream("orders").publish(b"before", level="regions=1")
            await eventually_true(all_well)
            for relay in relays:
                relay.cut()
            await node.stream("orders").publish(b"meanwhile")
            await eventually_true(cut_off)
            status = await ask_status(*geoplex.region("us").address)
            assert status.alarms[0].for_s >= 0.3
            assert "nothing is heard of eu (for" in status.alarms[0].text
            for relay in relays:
                relay.restore()
            await eventually_true(all_well)
        for service in services.values():
            await service.stop()
        for relay in relays:
            await relay.close()

    run(scenario())


def test_a_sidecar_says_how_it_is_and_that_its_proxy_is_gone() -> None:
    async def scenario() -> None:
        streams = '[streams.orders]\nowner = "us"\n'
        geoplex = parse_geoplex(impatient(geoplex_text(("us",), streams=streams)), "test.toml")
        proxy, agent = ProxyService(geoplex, "us"), AgentService(geoplex, "us")
        await proxy.start()
        await agent.start()

        async def status() -> AgentStatus:
            found = await ask_any_status(*agent.address)
            assert isinstance(found, AgentStatus)
            return found

        async def follows() -> bool:
            found = await status()
            return found.attached and [(s.name, s.head) for s in found.streams] == [("orders", 1)]

        async with epicast.connect(f"epicast://{agent.address}", agent=False) as node:
            await node.stream("orders").publish(b"value")
            await eventually_true(follows)
            found = await status()
            assert found.clients == 1 and not found.alarms and found.region == "us"
            assert found.proxy == str(geoplex.region("us").address)
        await proxy.stop()

        async def alarmed() -> bool:
            return [alarm.kind for alarm in (await status()).alarms] == ["unreachable"]

        await eventually_true(alarmed)
        assert not (await status()).attached
        await agent.stop()

    run(scenario())


def test_a_region_whose_disk_is_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warm_up()  # compiled code is kept in files, too
    file = tmp_path / "geoplex.toml"
    streams = '[streams.orders]\nowner = "us"\nack = "disk"\n'
    file.write_text(impatient(geoplex_text(("us", "eu"), tmp_path / "data", streams)))
    with proxy_process(file, "us") as us, proxy_process(file, "eu", LIMIT) as eu:

        def check(address: str) -> tuple[int, set[str], list[dict[str, object]]]:
            status = main(["status", "--from", address, "--check", "--json"])
            alarms = json.loads(capsys.readouterr().out)["alarms"]
            return status, {f"{a['seen_by']}: {a['kind']}" for a in alarms}, alarms

        eventually(lambda: check(us)[:2] == (0, set()))
        with sync.connect(us, agent=False) as node:
            node.stream("orders").publish_many([bytes(10_000)] * 60)
        wanted = {"proxy of eu: storage", "proxy of eu: stalled"}
        eventually(lambda: check(eu)[:2] == (1, wanted))
        stalled = next(alarm for alarm in check(us)[2] if alarm["kind"] == "stalled")
        assert (stalled["stream"], stalled["other"]) == ("orders", "us")
        assert 0 < int(str(stalled["behind"])) <= 60
        assert main(["status", "--from", us, "--check"]) == 1
        out = capsys.readouterr().out
        assert "ALARM, proxy of eu: orders stands still, " in out
        assert "ALARM, proxy of eu: orders cannot be stored: " in out
        assert main(["status", "--from", us]) == 0, "an alarm is no failure of the command"
        assert "ALARM" in capsys.readouterr().out
