"""Scamp: views whose size follows the size of the system, although nobody knows that.

Paper: Ganesh, Kermarrec and Massoulié, "Peer-to-peer membership management for gossip-based
protocols" (2003).

A node subscribes at a member, which passes the subscription to everybody in its view and to
`extra_copies` (c) more of them. Who gets a subscription keeps it with probability 1 / (1 + size of
its view), else passes it on to a random neighbour; so every subscription is kept by somebody, and
views grow to about (c + 1) ln n. The subscriber learns who keeps it (its in-view).

* Leaving: the leaver has most of those that keep it replace it by one of its own neighbours, and
  the last c + 1 forget it, so that views shrink as the system does.
* Leases: a subscription ends with its lease, and its owner subscribes again, through a neighbour.
  That rebalances views and forgets the dead.
* Isolation: nodes send heartbeats to their neighbours; who has heard none for some periods
  subscribes again.
* Indirection: a subscription first walks some hops at random, and a newcomer's view begins with the
  member where the walk ended: a contact everybody joins through does not become a hub.

Deviations: a node that nobody is left to asks its contacts and its former neighbours; every
`contact_every`-th subscription is made at a contact of the start, without which the sides of a
split network would never meet again; the walk has a fixed length, where the paper weighs neighbours
by the sizes of views; a subscription that was passed on `max_forwards` times is kept, if it can be;
and a view that is full (`max_view`) keeps nobody. A node that subscribes again keeps its view.
Messages are datagrams: a lost one is made good by the next lease.

Invariants: at most `max_view` neighbours, never the node itself.
"""

from epicast.protocols.scamp.config import ScampConfig
from epicast.protocols.scamp.protocol import Scamp

__all__ = ["Scamp", "ScampConfig"]
