"""lpbcast: broadcast in constant memory per process, events and membership in the same gossip.

Paper: Eugster, Guerraoui, Handurukande, Kermarrec and Kouznetsov, "Lightweight Probabilistic
Broadcast" (2003), with the adaptive publish rate of Rodrigues et al., "Adaptive Gossip-Based
Broadcast" (2003).

Once per round a node sends one gossip to `fanout` random neighbours. It carries subscriptions and
unsubscriptions (`membership.py`), events with their ages (`protocols/notifications.py`), and a
digest of what the node has delivered (`event_ids.py`). Whatever is kept has a limit:

* `view` and `subs`: who is heard of enters both; what is too much leaves at random or, optimised,
  by SELECT_PROCESS, which spares those heard of seldom. Every gossip carries the sender's own
  subscription, so the living stay in circulation and the dead fade.
* `unSubs`: a leaver's last gossip carries its unsubscription; it removes the leaver wherever it
  comes, and is passed on until its rounds are used up.
* `events`: an event is passed on in every round while it is in the buffer. When that is full,
  random purging takes any event; age-based purging takes first what is out of date (came
  `long_ago_rounds` before the newest of its source), then what is oldest: that has reached most.
* retrieval: an event that a digest names and that has not come `retrieve_after_rounds` later is
  asked for: from who named it, then from a random neighbour, then from its source.

The node a newcomer knows passes its subscription on; it subscribes again if no gossip comes. Now
and then a gossip goes to a privileged contact (the contacts of the start), which mends partitions.

Deviations, and what the paper leaves open:

* "Gossiped at most once" (3.2) contradicts the analysis (4) and the ages (6). Events are repeated
  while they are buffered; `max_age_rounds` ends that where there is room.
* Fig. 8 counts frequencies twice in one object and truncates `subs` from the view: here the view
  and `subs` have counters of their own, and what leaves is what was selected. Fig. 9(a) compares
  ids where the text means rounds.
* Unsubscriptions carry the rounds they have left, not a timestamp: nodes need no common clock. And
  members have a `life` that grows with every start: a node that comes back at once is not kept out
  by its own unsubscription, nor is one that somebody else has unsubscribed.
* Events too large for a datagram are announced by id, with their age, asked for with the next round
  and fetched over a connection. The source is asked for an event if its address is known, which is
  so while it is in the view or in `subs`.
* A source is heard of for the first time at some number: see `EventIds`. An event that nobody had
  is not asked for again for a while, however often digests name it.
* A digest has no room for all sources: half of it is for those that spoke last, and in the rest all
  take turns. What it says is believed as far as questions go, and no further.
* The gossip of a round is as many datagrams as its events need, up to `max_datagrams`; events that
  did not fit come first in the next round.

With a layer below, `Lpbcast` gossips events only; below another layer it is a membership.

Sources: the stream of a batch is its source, a node id; numbers of a source never repeat, so a node
that publishes again after a restart goes on where it was.

Invariants: no buffer exceeds its limit; the node is in none of its own; an event is delivered at
most once while `SeenEvents` holds its bounds; events in the node's own name are its own; a gossip
is no larger than `max_message_bytes`.
"""

from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.lpbcast.protocol import Lpbcast

__all__ = ["Lpbcast", "LpbcastConfig"]
