"""One question to a running node, by a node that is there for nothing else."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from epicast.core import MAX_NODE_ID, NodeId, Peer, Protocol
from epicast.runtime import NodeDriver
from epicast.runtime.gate import NeighbourGate, Security, identity_in
from epicast.runtime.identify import find_node
from epicast.runtime.messages import Declined
from epicast.runtime.tls import Tls
from epicast.runtime.waiting import Bell


async def first_notice(
    host: str,
    port: int,
    timeout: float,
    make: Callable[[Peer], Protocol[Any]],
    *,
    tls: Tls | None = None,
    token: str = "",
) -> Any:
    """What a protocol, with the node at the address as its contact, tells first; `Declined` if it
    is not let in, None if it takes too long."""
    hello, names = await find_node(host, port, timeout, tls)
    security = None
    if tls is not None:
        identity = identity_in(names, hello.cluster)
        gate = NeighbourGate(hello.cluster, {hello.node.id: identity})
        security = Security(tls, gate, token)
    rung = Bell()
    answers: list[Any] = []

    def told(_: int, value: object) -> None:
        answers.append(value)
        rung.ring()

    def declined(_: NodeId, message: Declined) -> None:
        told(0, message)

    driver = NodeDriver(
        1 + secrets.randbelow(MAX_NODE_ID - 1), cluster=hello.cluster, listens=False,
        on_notice=told, on_declined=declined, security=security,
    )  # fmt: skip
    try:
        node = await driver.listen()
        await driver.start(make(node), [Peer(hello.node.id, host, port)])
        if not answers:
            await rung.wait(timeout)
    finally:
        await driver.stop()
    return answers[0] if answers else None
