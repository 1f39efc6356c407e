"""Topics among peers: `join`, then `node.topic(name)`; no proxy is needed.

A peer listens on one port, TCP and UDP, and runs any number of topics there, each with the protocol
of its mode (`epicast.protocols.topic_modes`). Nothing in this package knows any mode.
"""

from epicast.client.topics.joining import Joining, join
from epicast.client.topics.peer import PeerNode
from epicast.client.topics.subscription import Gap, TopicItem, TopicSubscription
from epicast.client.topics.topic import Topic

__all__ = ["Gap", "Joining", "PeerNode", "Topic", "TopicItem", "TopicSubscription", "join"]
