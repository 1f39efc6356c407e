"""Addresses and names as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import COORDINATION_ID, ConfigError
from epicast.deployment import Address, node_id_of, parse_address, stream_id
from epicast.deployment.naming import collisions, is_name


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost:1", "localhost", 1),
        ("Proxy.EU.example:65535", "proxy.eu.example", 65535),
        ("my_service-2:80", "my_service-2", 80),
        ("127.0.0.1:7400", "127.0.0.1", 7400),
        ("[::1]:7400", "::1", 7400),
        ("[FE80:0:0::1]:7400", "fe80::1", 7400),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    address = parse_address(text)
    assert address == Address(host, port)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("localhost", "give both host and port"),
        (":7400", "give both host and port"),
        ("", "give both host and port"),
        ("h:0", "a port is a number from 1 to 65535"),
        ("h:65536", "a port is a number from 1 to 65535"),
        ("h:http", "a port is a number from 1 to 65535"),
        ("h:", "a port is a number from 1 to 65535"),
        ("h:٣", "a port is a number from 1 to 65535"),
        ("h:" + "1" * 5000, "a port is a number from 1 to 65535"),
        ("256.0.0.1:1", "neither a host name nor an IP address"),
        ("1.2.3:1", "neither a host name nor an IP address"),
        ("a b:1", "neither a host name nor an IP address"),
        ("-a:1", "neither a host name nor an IP address"),
        ("a..b:1", "neither a host name nor an IP address"),
        ("epicast://h:1", "neither a host name nor an IP address"),
        ("[h]:1", "neither a host name nor an IP address"),
        ("h" * 64 + ":1", "neither a host name nor an IP address"),
        ("h." * 127 + "h:1", "neither a host name nor an IP address"),
        ("::1:7400", "an IPv6 address goes into brackets"),
        ("[127.0.0.1]:1", "brackets are for IPv6 only"),
    ],
)
def test_not_addresses(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_address(text)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_a_config_error(text: str) -> None:
    try:
        address = parse_address(text)
    except ConfigError:
        return
    assert parse_address(str(address)) == address


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "[0:0::0]"])
def test_wildcards(host: str) -> None:
    assert parse_address(f"{host}:1").is_wildcard


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_not_wildcards(host: str) -> None:
    assert not parse_address(f"{host}:1").is_wildcard


@pytest.mark.parametrize("name", ["a", "eu-west_1", "shop.prices.v2", "a" * 64])
def test_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name", ["", "A", "1a", ".a", "a.", "a..b", "a/b", "a b", "é", "a" * 65, "a\n"]
)
def test_not_names(name: str) -> None:
    assert not is_name(name)


def test_ids_never_change() -> None:
    """They are in files and on the wire; these were computed when the rule was made."""
    assert node_id_of("us") == 800105104274665990
    assert node_id_of("eu") == 5886555191353800962
    assert stream_id("invalidations") == 1273093491275743442
    assert stream_id("us") != node_id_of("us")


@given(st.text())
def test_ids_are_positive_and_signed_integers_hold_them(name: str) -> None:
    for number in (node_id_of(name), stream_id(name)):
        assert 0 < number < 2**63
        assert number != COORDINATION_ID


def test_collisions_are_found() -> None:
    assert collisions(["a", "bb", "c", "dd", "eee"], len) == [("a", "c"), ("bb", "dd")]
    assert collisions(["a", "bb"], len) == []
