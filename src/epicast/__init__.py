"""Epicast: reliable broadcast and publish-subscribe that can prove what it delivered.

    import epicast

    async with epicast.connect("epicast://127.0.0.1:7400") as node:
        prices = node.stream("prices")
        await prices.publish(b"42.0", key=b"ACME")
        async for event in prices.subscribe(after=0):
            print(event)

`epicast.sync` has the same for code that is not asynchronous. Names are loaded when they are first
used: importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epicast.client import (
        AccessDenied,
        Closed,
        Confirmed,
        ConnectFailed,
        Gap,
        Item,
        JoinFailed,
        Node,
        NoRoom,
        PeerNode,
        PublishForbidden,
        PublishLimits,
        PublishRefused,
        Reset,
        Revised,
        Stream,
        Subscription,
        TlsOptions,
        Tombstone,
        Topic,
        TopicItem,
        TopicSubscription,
        UnknownStream,
        Watermark,
        WatermarkFile,
        WatermarkFileError,
        connect,
        join,
        sync,
    )
    from epicast.core import EpicastError, Event, EventBatch, EventKind
    from epicast.log import PredicateError
    from epicast.protocols.epto import EptoConfig
    from epicast.protocols.lpbcast import LpbcastConfig
    from epicast.protocols.sprinkler import AgentConfig, ClientConfig, StreamInfo
    from epicast.runtime import run

__all__ = [
    "AccessDenied", "AgentConfig", "ClientConfig", "Closed", "Confirmed", "ConnectFailed",
    "EpicastError", "EptoConfig",
    "Event", "EventBatch", "EventKind", "Gap", "Item", "JoinFailed", "LpbcastConfig", "NoRoom",
    "Node", "PeerNode", "PredicateError", "PublishForbidden", "PublishLimits",
    "PublishRefused", "Reset", "Revised", "Stream", "StreamInfo", "Subscription", "TlsOptions",
    "Tombstone", "Topic", "TopicItem", "TopicSubscription", "UnknownStream", "Watermark",
    "WatermarkFile", "WatermarkFileError", "connect", "join", "run", "sync",
]  # fmt: skip

_ELSEWHERE = {
    "epicast.core": ("EpicastError", "Event", "EventBatch", "EventKind"),
    "epicast.log": ("PredicateError",),
    "epicast.protocols.epto": ("EptoConfig",),
    "epicast.protocols.lpbcast": ("LpbcastConfig",),
    "epicast.protocols.sprinkler": ("AgentConfig", "ClientConfig", "StreamInfo"),
    "epicast.runtime": ("run",),
}
_HOMES = {name: home for home, names in _ELSEWHERE.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'epicast' has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "epicast.client")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
