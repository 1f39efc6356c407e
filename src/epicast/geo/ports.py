"""Port numbers that nobody uses: Epicast needs the same one for TCP and UDP."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import ExitStack

from msgspec.structs import replace

from epicast.core import EpicastError
from epicast.deployment import Address, Geoplex

_HIGHEST = 65_535
_ATTEMPTS = 100


class NoFreePort(EpicastError):
    """No port to listen on; the message says where it was looked for."""


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """So many different ports that are free now; somebody else may still be quicker."""
    with ExitStack() as held:
        ports: list[int] = []
        for _ in range(_ATTEMPTS * count):
            if len(ports) == count:
                break
            port = _hold(held, host, 0)
            if port:
                ports.append(port)
    if len(ports) < count:
        raise NoFreePort(f"no {count} free ports on {host}; end something that listens there")
    return ports


def next_free_ports(count: int, first: int, host: str = "127.0.0.1") -> list[int]:
    """The first so many free ports from `first` on."""
    with ExitStack() as held:
        ports: list[int] = []
        for port in range(first, min(first + _ATTEMPTS, _HIGHEST + 1)):
            if len(ports) == count:
                break
            if _hold(held, host, port):
                ports.append(port)
    if len(ports) < count:
        raise NoFreePort(f"no {count} free ports from {first} on; name others with --port")
    return ports


def _hold(held: ExitStack, host: str, port: int) -> int:
    """Take a port for both protocols; 0 if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        tcp = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
        # As the loop does: a port whose last connections are still dying can be listened on.
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tcp.bind((host, port))
        tcp.listen(1)
        udp = held.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        udp.bind((host, tcp.getsockname()[1]))
        return int(tcp.getsockname()[1])
    except OSError:
        return 0


def moved(geoplex: Geoplex, ports: Mapping[str, int]) -> Geoplex:
    """The same geoplex with replicas, by name, at other ports of the same hosts."""
    regions = dict(geoplex.regions)
    for name, port in ports.items():
        region, chosen = geoplex.replica(name)
        there = replace(
            chosen,
            listen=Address(chosen.listen.host, port),
            address=Address(chosen.address.host, port),
        )
        others = regions[region.name].replicas
        replicas = tuple(there if each.id == there.id else each for each in others)
        regions[region.name] = replace(region, replicas=replicas)
    return replace(geoplex, regions=regions)
