"""`host:port` as people write it."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple

from epicast.core.errors import ConfigError
from epicast.deployment.quantity import shown

_HOST_NAME = re.compile(r"(?!.{254})[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_][a-z0-9_-]{0,62})*")
_EXAMPLE = "expected an address such as 'proxy.example:7400' or '[::1]:7400'"


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Whether it can be listened on but leads nowhere."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False


def parse_address(text: str) -> Address:
    """Raises `ConfigError` for anything but a host, a colon and a port from 1 to 65535."""
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise ConfigError(f"{_EXAMPLE}, found {shown(text)}: give both host and port")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and 1 <= int(port) <= 65_535):
        raise ConfigError(f"{_EXAMPLE}, found {shown(text)}: a port is a number from 1 to 65535")
    return Address(_host(host, text), int(port))


def _host(host: str, text: str) -> str:
    bracketed = host.startswith("[") and host.endswith("]")
    bare = (host[1:-1] if bracketed else host).lower()
    try:
        number = ip_address(bare)
    except ValueError:
        last_label = bare.rpartition(".")[2]
        if bracketed or last_label.isdecimal() or not _HOST_NAME.fullmatch(bare):
            what = f"{shown(host)} is neither a host name nor an IP address"
            raise ConfigError(f"{_EXAMPLE}, found {shown(text)}: {what}") from None
        return bare
    if bracketed != (number.version == 6):
        rule = "brackets are for IPv6 only" if bracketed else "an IPv6 address goes into brackets"
        raise ConfigError(f"{_EXAMPLE}, found {shown(text)}: {rule}")
    return str(number)
