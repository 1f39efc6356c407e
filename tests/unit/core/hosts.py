"""A host whose topics are probes, and ways to prod them."""

from random import Random
from typing import Any

from epicast.core import Effects, Host, HostConfig, Layered, Peer, Recovered
from tests.unit.core.probes import NODE, Note, Probe


def host_with(fx: Effects, *topics: tuple[int, Probe], **config: int) -> Host:
    """A started host; the logs of its topics are empty."""
    host = Host(NODE, HostConfig(**config), Random(1))
    for number, protocol in topics:
        host.add(number, protocol)
    host.on_start(0, (Peer(2),), Recovered(incarnation=1), fx)
    for _, protocol in topics:
        protocol.log.clear()
    return host


def asks(fx_call: str, *arguments: Any) -> Any:
    return lambda probe, now, subject, fx: getattr(fx, fx_call)(*arguments)


def poke(host: Host, topic: int, fx: Effects) -> None:
    """Let a topic do what its `messages` reaction says."""
    host.on_messages(0, 99, (Layered(topic, Note("poke")),), fx)


def told(probe: Probe) -> list[tuple[str, Any]]:
    return [(what, subject) for _, what, subject in probe.log if what != "messages"]
