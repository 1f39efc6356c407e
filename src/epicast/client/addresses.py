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


def parse_url(text: str) -> Address:
    """`epicast://host:port`; the scheme and the port may be left out."""
    return parse_encrypted_url(text)[0]


def parse_encrypted_url(text: str) -> tuple[Address, bool]:
    """The same, and whether the scheme is `epicasts`: an encrypted connection."""
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
    """`epicast://host:port,host:port`: any of several, such as the replicas of a proxy."""
    scheme, separator, rest = text.strip().rpartition("://")
    found = [parse_encrypted_url(f"{scheme}{separator}{each}") for each in rest.split(",")]
    return [address for address, _ in found], found[0][1]


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
