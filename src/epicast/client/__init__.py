"""The client library: `connect` to a proxy, publish to streams, subscribe to them."""

from epicast.client import sync
from epicast.client.connecting import Connecting, connect
from epicast.client.credentials import TlsOptions
from epicast.client.errors import (
    AccessDenied,
    Closed,
    ConnectFailed,
    JoinFailed,
    NoRoom,
    PublishForbidden,
    PublishRefused,
    UnknownStream,
    WatermarkFileError,
)
from epicast.client.items import Item, Reset, Tombstone, Watermark
from epicast.client.node import Node
from epicast.client.publishing import PublishLimits
from epicast.client.stream import Stream
from epicast.client.subscription import Subscription
from epicast.client.topics import (
    Confirmed,
    Gap,
    Joining,
    PeerNode,
    Revised,
    Topic,
    TopicItem,
    TopicSubscription,
    join,
)
from epicast.client.watermarks import WatermarkFile

__all__ = [
    "AccessDenied", "Closed", "Confirmed", "ConnectFailed", "Connecting", "Gap", "Item",
    "JoinFailed", "Joining", "NoRoom", "Node", "PeerNode", "PublishForbidden", "PublishLimits",
    "PublishRefused", "Reset", "Revised", "Stream", "Subscription", "TlsOptions", "Tombstone",
    "Topic", "TopicItem", "TopicSubscription", "UnknownStream", "Watermark", "WatermarkFile",
    "WatermarkFileError", "connect", "join", "sync",
]  # fmt: skip
