"""The ground everything stands on: events, batches, effects, the protocol contract. Pure code."""

from epicast.core.batch import EventBatch, part_of
from epicast.core.batch_layout import Buffer, Run
from epicast.core.effects import (
    CONTROL,
    DATA,
    DATAGRAM,
    Channel,
    Effects,
    Notice,
    Publication,
    TopicDelivery,
)
from epicast.core.errors import (
    BatchError,
    ConfigError,
    EpicastError,
    InvariantViolation,
    WireError,
)
from epicast.core.event import Event, EventKind
from epicast.core.host import Host, HostConfig
from epicast.core.ids import COORDINATION_ID, MAX_HOST_CHARACTERS, MAX_NODE_ID, Group, NodeId, Peer
from epicast.core.intervals import IntervalSet
from epicast.core.message import AnyMessage, BodyCodec, Layered, Message
from epicast.core.protocol import Config, PeerSampler, Protocol, Recovered, handles
from epicast.core.stack import Stack
from epicast.core.timers import NEVER, TimerTable
from epicast.core.trace import Trace, TraceKind

__all__ = [
    "CONTROL", "COORDINATION_ID", "DATA", "DATAGRAM", "MAX_HOST_CHARACTERS", "MAX_NODE_ID", "NEVER",
    "AnyMessage", "BatchError", "BodyCodec", "Buffer", "Channel", "Config", "ConfigError",
    "Effects",
    "EpicastError", "Event", "EventBatch", "EventKind", "Group", "Host", "HostConfig",
    "IntervalSet", "InvariantViolation", "Layered", "Message", "NodeId", "Notice", "Peer",
    "PeerSampler", "Protocol", "Publication", "Recovered", "Run", "Stack", "TimerTable",
    "TopicDelivery", "Trace", "TraceKind", "WireError", "handles", "part_of",
]  # fmt: skip
