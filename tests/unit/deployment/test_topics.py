"""Topics in a geoplex.toml."""

import pytest

from epicast.core import ConfigError
from epicast.deployment import Address, Geoplex, UnknownTopic, parse_geoplex, topic_id
from epicast.protocols.lpbcast import LpbcastConfig
from epicast.protocols.topic_modes import TOPIC_MODES, checked_config, declared_config

TEXT = """
name = "shop"

[regions.us]
proxy = "127.0.0.1:7400"

[topics.chat]
contacts = ["10.0.0.1:7500", "[::1]:7500"]

[topics.chat.settings]
fanout = 5
gossip_period = "50ms"
bytes_per_s = "64KiB"

[topics.news]
mode = "gossip"
description = "What is new."
"""


def geoplex(old: str = "", new: str = "") -> Geoplex:
    assert old in TEXT
    return parse_geoplex(TEXT.replace(old, new, 1), "shop.toml")


def test_topics_and_their_settings() -> None:
    found = geoplex()
    assert list(found.topics) == ["chat", "news"]
    assert found.topic("chat").contacts == (Address("10.0.0.1", 7500), Address("::1", 7500))
    assert found.topic("news").description == "What is new."
    wanted = LpbcastConfig(fanout=5, gossip_period_ns=50_000_000, bytes_per_s=65536)
    assert declared_config(found, "chat") == wanted
    assert declared_config(found, "news") == LpbcastConfig()
    with pytest.raises(UnknownTopic, match="did you mean 'chat'"):
        found.topic("chats")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("10.0.0.1:7500", "10.0.0.1", r"shop.toml:8: topics.chat.contacts\[0\]: .*port"),
        ("[topics.news]", "[topics.News]", "topics.News: a name is"),
        ('description = "What', 'descripton = "What', "did you mean 'description'"),
        ("[topics.chat.settings]", "[topics.chat.setting]", "did you mean 'settings'"),
    ],
)
def test_mistakes_are_told_with_their_place(old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        geoplex(old, new)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("fanout = 5", "fanuot = 5", r"shop.toml:11: .*fanuot: unknown key; did you mean 'fanout'"),
        ('"50ms"', "50", r"shop.toml:12: topics.chat.settings.gossip_period: expected a duration"),
        ("fanout = 5", "fanout = 500", "fanout: 500 is not between"),
        ("[topics.chat]", '[topics.chat]\nmode = "tree"', "topics.chat.mode: .*no topic mode"),
    ],
)
def test_mistakes_in_settings_are_told_by_who_knows_them(old: str, new: str, message: str) -> None:
    found = geoplex(old, new)
    with pytest.raises(ConfigError, match=message):
        declared_config(found, "chat")


def test_numbers_never_change() -> None:
    assert topic_id("chat", "gossip") == topic_id("chat", "gossip") != topic_id("chat", "tree")
    numbers = [topic_id(f"topic-{n}", "gossip") for n in range(1000)]
    assert len(set(numbers)) == 1000 and all(1 <= number < 2**32 for number in numbers)
    assert topic_id("chat", "gossip") == 1459339927


@pytest.mark.parametrize("name", TOPIC_MODES)
def test_every_mode_has_defaults_and_a_largest_event(name: str) -> None:
    config = checked_config(name, None)
    assert TOPIC_MODES[name].largest_event(config) > 0


def test_an_event_that_no_budget_would_send_is_too_large() -> None:
    largest = TOPIC_MODES["gossip"].largest_event
    assert largest(LpbcastConfig(max_event_bytes=50_000)) == 50_000
    assert largest(LpbcastConfig(max_event_bytes=50_000, bytes_per_s=20_000)) < 20_000
