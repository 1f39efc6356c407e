"""pbcast: an unreliable multicast first, then gossip that repairs what it missed.

Paper: Birman, Hayden, Ozkasap, Xiao, Budiu and Minsky, "Bimodal Multicast" (1999), as section 8.2
of Eugster et al., "Lightweight Probabilistic Broadcast" (2003) uses it: over any membership, with
random or age-based purging.

An event is multicast once, without any promise. Once per round every process gossips to `fanout`
others which events it has; who lacks one of them solicits it from the gossiper and gets it. Two
limits keep old news from going round for ever: a process gossips an event in at most `repetitions`
rounds, counted from when it got it, and an event is passed on at most `max_hops` times in a row.
Whichever comes first, or a full buffer, ends its stay.

Peers come from the layer below in a stack, or from `peers`: all processes (`FullMembership`), as in
the original, or the partial views of any membership protocol.

Deviations: the original has a fixed number of rounds and hops and purges by them alone; the limit
of the buffer, and what goes when it is full, are those of lpbcast. With `inline` gossip carries the
events themselves: that is what the comparison with lpbcast assumes, in which retransmissions are
left out. `first_phase = "none"` leaves the multicast out, as the same comparison does.

Invariants: no buffer exceeds its limit; an event is delivered at most once while `SeenEvents` holds
its bounds; nothing is gossiped more than `repetitions` times or beyond `max_hops`.
"""

from epicast.protocols.pbcast.config import PbcastConfig
from epicast.protocols.pbcast.protocol import Pbcast

__all__ = ["Pbcast", "PbcastConfig"]
