"""From an address to a node that is attached."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from epicast.client.addresses import address_towards, parse_encrypted_urls
from epicast.client.buffers import AgentBuffers
from epicast.client.credentials import Credentials, TlsOptions, credentials
from epicast.client.errors import ConnectFailed
from epicast.client.evidence import NodeEvidence
from epicast.client.node import Node
from epicast.client.publishing import PublishLimits
from epicast.client.topics.options import PeerOptions
from epicast.client.topics.peer import PeerNode, random_id
from epicast.core import MAX_NODE_ID, ConfigError, EpicastError, Peer
from epicast.deployment.addresses import Address
from epicast.deployment.certificates import CertificateNames
from epicast.protocols.sprinkler import Agent, AgentConfig, Client, ClientConfig
from epicast.runtime import NodeDriver
from epicast.runtime.gate import NeighbourGate, Security, identity_in
from epicast.runtime.identify import NotTrusted, find_node
from epicast.wire import Hello


class ConnectOptions(Struct, frozen=True, kw_only=True):
    """Everything about a connection besides the address; see `connect`."""

    agent: bool
    publisher: int | None
    timeout: float
    listen: str | None
    config: AgentConfig | ClientConfig | None
    limits: PublishLimits
    evidence: Path | None = None
    name: str | None = None
    credentials: Credentials | None = None

    def __post_init__(self) -> None:
        if self.timeout <= 0:
            raise ConfigError(f"timeout: {self.timeout} is not more than 0 seconds")
        if self.publisher is not None and not 1 <= self.publisher <= MAX_NODE_ID:
            raise ConfigError(f"publisher: {self.publisher} is not a number from 1 to 2**64 - 1")
        proof = self.credentials
        if self.agent and proof is not None and not proof.has_certificate:
            raise ConfigError(
                "agent: neighbours know an agent by its certificate: give tls= one made with "
                "`epicast certificate agent`, or say agent=False"
            )
        wanted = AgentConfig if self.agent else ClientConfig
        if self.config is not None and not isinstance(self.config, wanted):
            raise ConfigError(
                f"config: agent={self.agent} goes with {wanted.__name__}, not with "
                f"{type(self.config).__name__}"
            )


def connect(
    address: str,
    *,
    agent: bool | None = None,
    publisher: int | None = None,
    timeout: float = 5.0,
    listen: str | None = None,
    config: AgentConfig | ClientConfig | None = None,
    limits: PublishLimits | None = None,
    evidence: str | Path | None = None,
    name: str | None = None,
    token: str | None = None,
    tls: TlsOptions | None = None,
) -> Connecting:
    """Connect to a proxy: `async with connect(...) as node`, or `node = await connect(...)`.

    `address` looks like "epicast://proxy.example:7400"; several, such as those of a proxy's
    replicas, are separated by commas, and the first that answers will do. An agent takes part in
    spreading events among its neighbours, for which it listens on a port of its own, at the host
    `listen` (by default the address of this machine as seen from the proxy); with `agent=False` the
    node only talks to the proxy. If not said, it is an agent, but not over an encrypted connection,
    which takes a certificate that says so. An encrypted connection is one to "epicasts://…", to
    which the node proves who it is with a `token` or with the certificate in `tls`, by default
    those that the environment names (`epicast.client.credentials`). `publisher` is the id under
    which owners recognise events they were sent twice; random, unless the application wants that
    across its own restarts. `config` and `limits` set the protocol's and the publisher's bounds. In
    the folder `evidence` it is written down what was acknowledged and what subscriptions got, for
    `epicast audit`, under `name`, by default that of this machine and process. Raises
    `ConnectFailed` when nobody is found within `timeout` seconds.
    """
    where, encrypted = parse_encrypted_urls(address)
    proof = credentials(token, tls, encrypted=encrypted)
    options = ConnectOptions(
        agent=not encrypted if agent is None else agent,
        publisher=publisher,
        timeout=timeout,
        listen=listen,
        config=config,
        limits=limits or PublishLimits(),
        evidence=None if evidence is None else Path(evidence),
        name=name,
        credentials=proof,
    )
    return Connecting(where, options)


class Connecting:
    """A connection about to be made: to be awaited, or entered."""

    def __init__(self, addresses: Sequence[Address], options: ConnectOptions) -> None:
        self._addresses = addresses
        self._options = options
        self._node: Node | None = None

    def __await__(self) -> Generator[Any, None, Node]:
        return _open(self._addresses, self._options).__await__()

    async def __aenter__(self) -> Node:
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


async def _open(addresses: Sequence[Address], options: ConnectOptions) -> Node:
    deadline = time.monotonic() + options.timeout
    address, (proxy, names) = await _find_any(addresses, options)
    evidence = None if options.evidence is None else NodeEvidence(options.evidence, options.name)
    node = Node(options.publisher or random_id(), options.limits, evidence)
    node.geoplex = proxy.cluster
    node.make_peer = partial(_make_peer, address, proxy.cluster, options)
    driver = NodeDriver(
        random_id(),
        (options.listen or address_towards(address)) if options.agent else "",
        cluster=proxy.cluster,
        seed=random_id(),
        listens=options.agent,
        on_topic_delivery=node.on_topic_delivery,
        on_acknowledge=node.on_acknowledge,
        on_refuse=node.on_refuse,
        on_notice=node.on_notice,
        on_declined=node.on_declined,
        security=_security(proxy, names, options),
    )
    try:
        edge = _edge(await driver.listen(), driver, options)
        await driver.start(edge, [Peer(proxy.node.id, address.host, address.port)])
        node.run_on(driver, edge)
        await node.wait_attached(deadline - time.monotonic())
        if options.agent and node.at_sidecar:
            # A sidecar takes part in the region for its clients: those need not, and cannot.
            await node.close()
            return await _open([address], replace(options, agent=False, config=None))
        if evidence is not None:
            await evidence.start(proxy.cluster, node.region, node.streams())
    except BaseException:
        await (node.close() if node.is_running else driver.stop())
        raise
    return node


async def _find_any(
    addresses: Sequence[Address], options: ConnectOptions
) -> tuple[Address, tuple[Hello, CertificateNames | None]]:
    """The first who is there."""
    each = replace(options, timeout=options.timeout / len(addresses))
    for address in addresses[:-1]:
        with suppress(ConnectFailed):
            return address, await _find(address, each)
    return addresses[-1], await _find(addresses[-1], each)


async def _find(address: Address, options: ConnectOptions) -> tuple[Hello, CertificateNames | None]:
    """Who is there."""
    proof, timeout = options.credentials, options.timeout
    tls = None if proof is None else proof.for_finding()
    try:
        return await find_node(address.host, address.port, timeout, tls)
    except NotTrusted as error:
        raise ConnectFailed(str(error)) from error
    except (EpicastError, OSError, TimeoutError) as error:
        reason = str(error) or f"nobody answered within {timeout:g} seconds"
        raise ConnectFailed(
            f"no proxy at {address}: {reason}; check the address, that the proxy is up "
            "(`epicast status`), and that nothing in between blocks the port"
        ) from error


def _make_peer(address: Address, cluster: str, options: ConnectOptions) -> PeerNode:
    """For topics: at the same host as an agent, on another port."""
    return PeerNode(
        PeerOptions(
            host=options.listen or "",
            towards=address,
            cluster=cluster,
            credentials=options.credentials,
        )
    )


def _security(
    proxy: Hello, names: CertificateNames | None, options: ConnectOptions
) -> Security | None:
    """Whoever was found under the address is who is talked to from now on, and nobody else."""
    proof = options.credentials
    if proof is None:
        return None
    gate = NeighbourGate(proxy.cluster, {proxy.node.id: identity_in(names, proxy.cluster)})
    if options.agent:
        return Security(proof.for_agent(), gate)
    return Security(proof.for_finding(), gate, proof.token)


def _edge(peer: Peer, driver: NodeDriver, options: ConnectOptions) -> Agent | Client:
    rng = Random(random_id())
    config = options.config
    if options.agent:
        config = config if isinstance(config, AgentConfig) else AgentConfig()
        buffers = AgentBuffers(config.buffer_bytes)
        return Agent(peer, config, rng, make_buffer=buffers.make, is_agent=driver.is_agent)
    return Client(peer, config if isinstance(config, ClientConfig) else ClientConfig(), rng)
