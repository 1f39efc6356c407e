"""Addresses as applications write them."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from epicast.client.errors import ConnectFailed
from epicast.core import ConfigError
from epicast.deployment.addresses import Address, parse_address
from epicast.deployment.tokens import without_tokens

SCHEME = "epicast"
ENCRYPTED_SCHEME = "epicasts"
DEFAULT_PORT = 7400
_EXAMPLE = "an address looks like epicast://proxy.example:7400"


def parse_encrypted_url(text: str) -> tuple[Address, bool]:
    """`epicast://host:port`, and whether the scheme is `epicasts`: an encrypted connection. The
    scheme and the port may be left out."""
    named = repr(without_tokens(text))
    scheme, separator, rest = text.strip().rpartition("://")
    if separator and scheme not in (SCHEME, ENCRYPTED_SCHEME):
        raise ConnectFailed(f"{named}: the scheme is not {SCHEME!r}; {_EXAMPLE}")
    rest = rest.removesuffix("/")
    if not rest or any(character in rest for character in "/@?#"):
        raise ConnectFailed(f"{named} is not a host and a port; {_EXAMPLE}")
    has_port = not rest.endswith("]") and ":" in rest
    try:
        address = parse_address(rest if has_port else f"{rest}:{DEFAULT_PORT}")
        return address, scheme == ENCRYPTED_SCHEME
    except ConfigError as error:
        raise ConnectFailed(f"{named}: {error}; {_EXAMPLE}") from error


def parse_encrypted_urls(text: str) -> tuple[list[Address], bool]:
    """Parse `epicast://host:port,host:port`: several addresses, such as the replicas of a proxy.

    The scheme of the first address holds for all. The others may repeat it; a different scheme is
    refused, because part of the connections would not be encrypted.
    """
    urls = text.split(",")
    scheme, separator, _ = urls[0].strip().rpartition("://")
    found = [
        parse_encrypted_url(url if "://" in url else f"{scheme}{separator}{url.strip()}")
        for url in urls
    ]
    if len({encrypted for _, encrypted in found}) > 1:
        raise ConnectFailed(
            f"{without_tokens(text)!r}: either all addresses begin with {ENCRYPTED_SCHEME}:// or "
            "none does"
        )
    return [address for address, _ in found], found[0][1]


def each_url(text: str) -> tuple[str, ...]:
    """Return the addresses in `text`, each with its scheme, for callers that try one by one."""
    addresses, encrypted = parse_encrypted_urls(text)
    scheme = ENCRYPTED_SCHEME if encrypted else SCHEME
    return tuple(f"{scheme}://{address}" for address in addresses)


def parse_contacts(contacts: Sequence[str]) -> tuple[tuple[Address, ...], bool]:
    """Addresses of peers, and whether they are reached over encrypted connections."""
    if isinstance(contacts, str):
        raise ConfigError(f"contacts: a list of addresses, such as [{without_tokens(contacts)!r}]")
    found = [parse_encrypted_url(text) for text in contacts]
    schemes = {encrypted for _, encrypted in found}
    if len(schemes) > 1:
        raise ConfigError("contacts: either all begin with epicasts:// or none does")
    return tuple(address for address, _ in found), schemes == {True}


def address_towards(address: Address) -> str:
    """The address of this machine that others on the way to `address` can reach it under."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, target = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)  # chooses a route; a datagram socket sends nothing for it
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConnectFailed(f"{address}: no way to get there from here ({error})") from error
