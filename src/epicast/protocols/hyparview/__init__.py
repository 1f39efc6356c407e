"""HyParView: a small symmetric view to talk through, a larger one to repair it from.

Papers: Leitão, Pereira and Rodrigues, "HyParView" (DSN 2007); the expansion factor and the
keep-alive are those of section 4.2.1 of Matos's dissertation, where Brisa stands on this
protocol.

**Active view.** The neighbours: links are symmetric, each is a connection, and the layer above
hears of them (`on_peer_up`, `on_peer_down`, `sample`, `neighbors`, `round_trip_time`). It changes
only when a node joins, leaves or fails. Its target size is `active_view`; it may grow to
`active_view * expansion_factor` before a random neighbour is evicted, and a node evicted from
somewhere looks for a replacement only if that leaves it below its target. This stops the
avalanche of evictions that a wave of joins sets off otherwise.

**Joining.** `Join` to a contact, which takes the joiner in at any price, answers `Welcome` and
starts random walks (`ForwardJoin`); where a walk ends the joiner is taken in too and welcomed,
and on its way it leaves the joiner in one passive view.

**Repair.** A failed neighbour is replaced from the passive view: connect, ask (`Neighbor`, of
high priority, which may not be refused, if we have next to no neighbours), take the next
candidate on failure (which also strikes the candidate off) or refusal. Refusals per
`repair_period_ns` are bounded. A node left with no neighbour and no candidate, or with too few
neighbours and an empty passive view, joins again through its contacts, with a doubling, jittered
wait between the rounds.

**Passive view.** Renewed by `Shuffle` walks that carry a part of both views and are answered by a
part of the passive view of the node where they end; what was given away is forgotten first.

**Keep-alive.** Every period each neighbour is sent its own clock value back and forth. That
measures round trips, and a neighbour that stays silent for some periods counts as failed although
its connection looks alive, as is so with a paused machine or a cut route.

**Symmetry.** Either side may drop a link at any moment, so views disagree while messages travel.
A node that hears from a non-neighbour what only neighbours say answers `Disconnect`; with
keep-alive on, one-sided links therefore vanish within a period and a trip. A `Disconnect` from a
node we are asking is ignored: it is older than the answer we wait for.

Deviations, and why:

* A joiner is given `active_view / expansion_factor` links (`join_links`), not one per neighbour
  of its contact. Each link counts at both ends: with room to grow, the paper's number would
  settle the mean size at `expansion_factor` times the target. As it is, the median is the target
  or one more. With factor 1 it is the paper's number.
* Links made by joins are announced by `Welcome`, which also carries a start for the passive view;
  the paper leaves open how the joiner learns of them. A joiner with too few neighbours asks for
  more after one repair period, when the walks have ended.
* High priority is for nodes with fewer than `active_view - join_links` neighbours, or none; in
  the paper for nodes with none. An expanding view takes one more without evicting anybody, and no
  node has to live on with a single neighbour because all others are content.
* A node below its target keeps asking periodically; the paper acts on failures only.
* A few neighbours that failed are tried again for an hour (`lost_memory`, with high priority)
  until one answers. Each half of a partitioned overlay repairs itself from its own nodes; when
  the partition is mended nothing else would join the halves again. The price is a link or two
  above the target after a neighbour that was merely paused comes back. Not covered: a half whose
  every node has meanwhile forgotten the other, through many failures of its own, and has enough
  neighbours.

Invariants (`check_invariants`): view sizes within bounds; the node itself in neither view; no
peer in both; below the target, an attempt is under way or one is due. Between nodes, once nothing
changes for a while: symmetric active views, and one connected overlay.
"""

from epicast.protocols.hyparview.config import HyParViewConfig
from epicast.protocols.hyparview.protocol import HyParView

__all__ = ["HyParView", "HyParViewConfig"]
