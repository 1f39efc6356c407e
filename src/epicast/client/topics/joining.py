"""`join`: from addresses to a peer."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

from epicast.client.addresses import parse_contacts
from epicast.client.credentials import TlsOptions, credentials
from epicast.client.topics.options import PeerOptions
from epicast.client.topics.peer import PeerNode
from epicast.core import ConfigError
from epicast.deployment import Geoplex, load_geoplex, parse_address
from epicast.deployment.addresses import Address
from epicast.runtime.limits import Limits

DEFAULT_CLUSTER = "epicast"


def join(
    *contacts: str,
    listen: str | None = None,
    cluster: str | None = None,
    geoplex: str | Path | None = None,
    tls: TlsOptions | None = None,
    limits: Limits | None = None,
) -> Joining:
    """Become a peer: `async with join("10.0.0.7:7500") as node`, or `node = await join(...)`.

    Any peer will do as a contact, and one is enough; without any, this is the first, or topics know
    their contacts from `geoplex`, a geoplex.toml with tables `[topics.NAME]`. The node listens on
    `listen` ("host:port"; port 0, or none, is any free one), by default at the address this
    machine has towards the first contact, TCP and UDP on the same port. Peers of another `cluster`
    (by default the geoplex's name, or "epicast") are not talked to. Contacts given as
    epicasts://HOST:PORT are talked to over encrypted connections only, for which `tls` names an
    agent's certificate.
    """
    addresses, encrypted = parse_contacts(contacts)
    read = None if geoplex is None else load_geoplex(Path(geoplex))
    name = cluster or (read.name if read is not None else DEFAULT_CLUSTER)
    if tls is not None:
        encrypted = encrypted or not contacts
    if encrypted and read is None and cluster is None:
        raise ConfigError("cluster: certificates are of one geoplex; say its name")
    host, port = parse_listen(listen) if listen is not None else ("", 0)
    options = PeerOptions(
        host=host,
        port=port,
        towards=_first_contact(addresses, read),
        contacts=addresses,
        cluster=name,
        geoplex=read,
        credentials=credentials(None, tls, encrypted=encrypted),
        limits=limits,
    )
    return Joining(options)


class Joining:
    """A peer about to be: to be awaited, or entered."""

    def __init__(self, options: PeerOptions) -> None:
        self._options = options
        self._node: PeerNode | None = None

    def __await__(self) -> Generator[Any, None, PeerNode]:
        return self._open().__await__()

    async def _open(self) -> PeerNode:
        node = PeerNode(self._options)
        try:
            await node.ready()
        except BaseException:
            await node.close()
            raise
        return node

    async def __aenter__(self) -> PeerNode:
        self._node = await self
        return self._node

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._node is not None
        await self._node.close()


def _first_contact(contacts: Sequence[Address], geoplex: Geoplex | None) -> Address | None:
    topics = () if geoplex is None else geoplex.topics.values()
    return next(chain(contacts, *(topic.contacts for topic in topics)), None)


def parse_listen(text: str) -> tuple[str, int]:
    """`host:port`, or a host alone for any port."""
    bare = text.strip()
    if bare.endswith(":0"):
        bare = bare[:-2]
    has_port = ":" in bare and not bare.endswith("]")
    address = parse_address(bare if has_port else f"{bare}:1")
    if address.is_wildcard:
        raise ConfigError(
            f"listen: {text!r} leads nowhere, and other peers are told of it: give the address "
            "they reach this machine under"
        )
    return address.host, address.port if has_port else 0
