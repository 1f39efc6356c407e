"""Topics among peers: `join`, then `node.topic(name)`; no proxy is needed.

A peer listens on one port, TCP and UDP, and runs any number of topics there, each with the protocol
of its mode (`epicast.protocols.topic_modes`). What only ordered topics have is in `early`.
"""

from epicast.client.topics.items import Confirmed, Gap, Revised, TopicItem
from epicast.client.topics.joining import Joining, join
from epicast.client.topics.peer import PeerNode
from epicast.client.topics.subscription import TopicSubscription
from epicast.client.topics.topic import Topic

__all__ = [
    "Confirmed", "Gap", "Joining", "PeerNode", "Revised", "Topic", "TopicItem",
    "TopicSubscription", "join",
]  # fmt: skip
