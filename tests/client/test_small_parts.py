"""Addresses, watermark files, freshness, errors, the node's own calls."""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.client.addresses import (
    address_towards,
    each_url,
    parse_encrypted_url,
    parse_encrypted_urls,
)
from epicast.client.connecting import connect
from epicast.client.errors import ConnectFailed, PublishRefused, UnknownStream, WatermarkFileError
from epicast.client.freshness import Freshness
from epicast.client.items import Watermark
from epicast.client.watermarks import WatermarkFile
from epicast.core import ConfigError, Peer
from epicast.deployment import Address
from epicast.pipeline.lake.connections import parse_proxies
from epicast.protocols.sprinkler import AgentConfig
from epicast.protocols.sprinkler.notices import Detached
from tests.client.fakes import EPOCH, PRICES, World, run, turns


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("epicast://127.0.0.1:7400", ("127.0.0.1", 7400)),
        ("epicast://proxy.example:7401/", ("proxy.example", 7401)),
        ("epicast://proxy.example", ("proxy.example", 7400)),
        ("localhost:9", ("localhost", 9)),
        ("epicast://[::1]:7", ("::1", 7)),
        ("[::1]", ("::1", 7400)),
    ],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert parse_encrypted_url(text) == (expected, False)


@pytest.mark.parametrize(
    "text",
    ["", "epicast://", "http://host:1", "epicast://host:0", "epicast://host:x", "host:70000",
     "epicast://host/path", "epicast://user@host:1", "::1", "a b:1"],
)  # fmt: skip
def test_what_is_no_address_is_told_what_one_looks_like(text: str) -> None:
    with pytest.raises(ConnectFailed, match="looks like epicast://"):
        parse_encrypted_url(text)


def test_the_way_to_loopback_is_loopback() -> None:
    assert address_towards(parse_encrypted_url("epicast://127.0.0.1:1")[0]) == "127.0.0.1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout"),
        ({"publisher": 0}, "publisher"),
        ({"publisher": 2**64}, "publisher"),
        ({"agent": False, "config": AgentConfig()}, "ClientConfig"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        connect("epicast://localhost", **options)  # type: ignore[arg-type]


def test_watermarks_survive_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    file = WatermarkFile(path)
    assert file.get("prices") is None
    file.save("prices", Watermark(3, 41))
    file.save("audit", Watermark(1, 2))
    file.save("prices", Watermark(3, 42))
    again = WatermarkFile(path)
    assert again.get("prices") == Watermark(3, 42)
    assert again.get("audit") == Watermark(1, 2)
    assert json.loads(path.read_text()) == {"prices": [3, 42], "audit": [1, 2]}
    assert [entry.name for entry in tmp_path.iterdir()] == ["seen.json"]


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    WatermarkFile(path).save("prices", Watermark(3, 41))
    (tmp_path / ".seen.json.new").write_text('{"pri')
    assert WatermarkFile(path).get("prices") == Watermark(3, 41)
    WatermarkFile(path).save("prices", Watermark(3, 42))
    assert WatermarkFile(path).get("prices") == Watermark(3, 42)


@pytest.mark.parametrize("content", ["", "[]", '{"prices": 3}', '{"prices": [1]}', "\xff"])
def test_a_file_of_something_else_is_not_overwritten(tmp_path: Path, content: str) -> None:
    path = tmp_path / "seen.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(WatermarkFileError, match=r"seen\.json"):
        WatermarkFile(path)
    assert path.read_text(encoding="latin-1") == content


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(WatermarkFileError, match="nowhere"):
        WatermarkFile(tmp_path / "nowhere" / "seen.json").save("prices", Watermark(1, 1))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=40))
def test_freshness_never_claims_too_much(steps: list[tuple[int, int]]) -> None:
    """Heads and positions advance by steps; claims are compared with all heartbeats there were."""
    freshness = Freshness()
    head = position = 0
    heard: list[tuple[int, int]] = []
    for now, (news, consumed) in enumerate(steps, start=1):
        head += news
        heard.append((now, head))
        freshness.heard(now, Watermark(EPOCH, head))
        position = min(head, position + consumed)
        reached = [asked_at for asked_at, seq in heard if seq <= position]
        claim = freshness.reached_at(Watermark(EPOCH, position))
        assert claim is None or claim in reached
        if len(heard) <= 16 or position == head:
            assert claim == (max(reached) if reached else None)


def test_unknown_streams_are_answered_with_those_there_are() -> None:
    async def main() -> None:
        world = World()
        with pytest.raises(UnknownStream, match=r"did you mean 'prices'.*audit, prices"):
            world.node.stream("price")
        assert [info.name for info in world.node.streams()] == ["audit", "prices"]
        assert world.node.stream("prices") is world.node.stream("prices")
        assert world.node.stream("prices").info == PRICES
        with pytest.raises(PublishRefused, match="continues at 1"):
            world.node.stream("prices", first_sequence=7)
        with pytest.raises(ConfigError, match="first_sequence"):
            world.node.stream("audit", first_sequence=0)
        await world.node.close()

    run(main)


def test_a_node_says_how_it_is() -> None:
    async def main() -> None:
        world = World()
        node = world.node
        assert (node.region, node.attached, node.publisher) == ("us", True, 99)
        node.on_notice(0, Detached("gone", Peer(1, "h", 1)))
        assert not node.attached
        node.stream("prices").publish_nowait(b"x")
        statistics = node.statistics()
        assert statistics["driver"] == statistics["edge"] == 1
        assert statistics["unacknowledged_events"] == 1
        await node.close()
        assert not node.attached
        await node.close()

    run(main)


def test_the_head_is_one_asked_for_after_the_call() -> None:
    async def main() -> None:
        import time

        world = World(prices=5)
        asking = asyncio.ensure_future(world.node.stream("prices").head())
        await turns()
        world.heartbeat(1, 6)
        await turns()
        assert not asking.done()
        world.heartbeat(time.monotonic_ns(), 7)
        assert await asking == (EPOCH, 7)
        await world.node.close()

    run(main)


def test_refusals_keep_code_and_detail() -> None:
    refused = PublishRefused.from_text("STORAGE: disk: full")
    assert (refused.code, refused.detail) == ("STORAGE", "disk: full")


def test_several_addresses_of_one_proxy() -> None:
    assert parse_encrypted_urls("epicasts://a:1,b,[::1]:3") == (
        [Address("a", 1), Address("b", 7400), Address("::1", 3)],
        True,
    )
    assert parse_encrypted_urls("a:1,b:2") == ([Address("a", 1), Address("b", 2)], False)
    with pytest.raises(ConnectFailed, match="not a host"):
        parse_encrypted_urls("epicast://a:1,,b:2")


def test_a_scheme_holds_for_every_address() -> None:
    encrypted = ("epicasts://a:1", "epicasts://b:7400", "epicasts://[::1]:3")
    for text in ("epicasts://a:1, b,[::1]:3", "epicasts://a:1, epicasts://b ,epicasts://[::1]:3"):
        assert each_url(text) == encrypted
        assert parse_proxies(f"{text},") == encrypted
    for mixed in ("epicasts://a,epicast://b", "epicast://a,epicasts://b", "a,epicasts://b"):
        for parse in (parse_encrypted_urls, parse_proxies):
            with pytest.raises(ConnectFailed, match="either all addresses begin with epicasts"):
                parse(mixed)
