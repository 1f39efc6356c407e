"""Addresses as applications write them."""

from __future__ import annotations

import socket

from epicast.client.errors import ConnectFailed
from epicast.core import ConfigError
from epicast.deployment.addresses import Address, parse_address

SCHEME = "epicast"
DEFAULT_PORT = 7400
_EXAMPLE = "an address looks like epicast://proxy.example:7400"


def parse_url(text: str) -> Address:
    """`epicast://host:port`; the scheme and the port may be left out."""
    scheme, separator, rest = text.strip().rpartition("://")
    if separator and scheme != SCHEME:
        raise ConnectFailed(f"{text!r}: the scheme {scheme!r} is not {SCHEME!r}; {_EXAMPLE}")
    rest = rest.removesuffix("/")
    if not rest or any(character in rest for character in "/@?#"):
        raise ConnectFailed(f"{text!r} is not a host and a port; {_EXAMPLE}")
    has_port = not rest.endswith("]") and ":" in rest
    try:
        return parse_address(rest if has_port else f"{rest}:{DEFAULT_PORT}")
    except ConfigError as error:
        raise ConnectFailed(f"{text!r}: {error}; {_EXAMPLE}") from error


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
