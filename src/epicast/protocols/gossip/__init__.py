"""Push gossip: every event is passed on once, at once, to a few random peers.

The infect-and-die form of rumour mongering that section 4.3.5 of Matos's dissertation uses as
SimpleGossip's first phase: a node that gets an event for the first time delivers it and sends it to
`fanout` peers drawn from the layer below; whatever it has had before it ignores. With a fanout of
ln(n) + c all n nodes are reached with probability about exp(-exp(-c)); nothing repairs what is
missed, so this is the yardstick for protocols that do.

Works on batches: a batch of which a part was seen is delivered and forwarded in its new parts only,
so behaviour does not depend on how events were batched. Small batches travel as datagrams, larger
ones over connections made on demand.

Invariants: an event is delivered at most once (while `SeenEvents` holds its bounds) and forwarded
exactly when delivered.
"""

from epicast.protocols.gossip.config import PushGossipConfig
from epicast.protocols.gossip.messages import Rumor
from epicast.protocols.gossip.protocol import PushGossip

__all__ = ["PushGossip", "PushGossipConfig", "Rumor"]
