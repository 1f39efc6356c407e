"""The coordination service as protocols see it: a peer under a reserved id that is sent messages.

On the network an adapter answers them from SQLite or etcd; in the simulator `CoordinationNode` is a
node like any other, which can be cut off and killed.
"""

from epicast.protocols.coordination.messages import Put, PutAnswer, View, ViewEntry, Watch
from epicast.protocols.coordination.node import CoordinationConfig, CoordinationNode

__all__ = [
    "CoordinationConfig", "CoordinationNode", "Put", "PutAnswer", "View", "ViewEntry", "Watch",
]  # fmt: skip
