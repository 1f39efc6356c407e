"""Flooding: every event goes over every link of the overlay once, or nearly.

As in section 4.2.1 of Matos's dissertation: a node that gets an event for the first time delivers
it and forwards it to all neighbours but the one it came from. On an overlay that is connected and
symmetric, such as HyParView's, everybody gets everything; each node gets about as many duplicates
as it has neighbours beyond two. Nothing repairs what is lost while the overlay changes, so this
is the yardstick of what a structure saves (Brisa starts from here).

Neighbours are what the layer below says; a flood from a node that is none is taken all the same,
as links come and go at both ends at different moments. A batch of which a part was seen is
delivered and forwarded in its new parts only, so behaviour does not depend on how events were
batched. All of it goes over connections (DATA).

Invariants: an event is delivered at most once (while `SeenEvents` holds its bounds) and forwarded
exactly when delivered.
"""

from epicast.protocols.flood.config import FloodConfig
from epicast.protocols.flood.messages import Flooded
from epicast.protocols.flood.protocol import Flood

__all__ = ["Flood", "FloodConfig", "Flooded"]
