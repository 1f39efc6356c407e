"""EpTO: every process delivers the same events in the same order, with no leader.

Paper: Matos, "Scalable data dissemination" (dissertation), chapter 5.

Spreading (Algorithm 4). Once per round a node sends all it has heard of since the last one, its own
events included, as one ball to K random peers. An event carries a ttl, the hops it has behind it;
of several the largest counts; after TTL it is passed on no more. Ordering (Algorithm 5): an event
waits until its ttl, which grows by one per round here, is above TTL (twice TTL under a logical
clock): then everybody has it with high probability. It is delivered once all known events before it
are. What comes when the order has passed it is never delivered: total order is certain, agreement
is likely, and a hole is reported (`Missing`).

How it is kept. Balls and all that is known are columns (`store`, `layout`): merging, ageing and
selecting are compiled loops (`kernels` for balls, `round_kernels`, `source_kernels`). An entry is a
publication, a run of events of one source with one timestamp: its events stay together. Sources
stamp their entries in strictly ascending order, so (timestamp, source) names an entry and is its
place in the order.

What the paper leaves open, or has wrong:

* The `delivered` set is not needed: what is not after the last delivered is not accepted, and the
  last number of each source (`sources`) tells repetitions from holes. Numbers of a source have no
  gaps; one that is missing is noticed with the next of its source, with the source's word on what
  it has published (every ball has it), or when it comes too late. Numbers before the first that is
  heard of are missing if the source says that it began after us.
* Events that come with their ttl used up are ordered, not dropped unread. Their ttl counts as TTL
  at most, so that one round of the node's own comes before delivery, as in the printed form: hops
  can be much faster than rounds, and without that round one event in some hundred thousand was
  missed. With a global clock one round more is waited for: the first events of a system, which wait
  for nobody before them, were still missed by one process in some hundred thousand
  (docs/decisions/0021).
* An event that this node counts as older than TTL is not passed on, with whatever ttl a slow copy
  of it comes: nodes that start from the ttl of the copy keep it going at the pace of the slowest
  hops, long after everybody has delivered it.
* Ages are rounds. A hop adds one to the ttl as long as it takes about as long as a round. Where
  messages are much faster, rounds being no shorter than `min_round_ns`, TTL hops pass in one or
  two rounds: before an event that was published earlier is sent at all, and so soon that many
  nodes never pass it on. There a hop adds nothing, only the node's own rounds do, and what is
  passed on has the age it has here (docs/decisions/0021). With `adaptive_period = false` nobody
  measures, and a hop adds one.
* K is at most n - 1, and all peers below 16. n is estimated (`sizing`), raised by its error, and
  counts as 16 at least. Up to 16, where one lost ball could be all there is of an event, a node
  repeats what is waiting while its ttl is not above TTL, whether it was heard of again or not. A
  ball for which there is no peer is sent in the next round.
* Clocks of machines (`clocks`): a timestamp is above all the node has accepted; nothing is
  delivered before the node's own clock has come to it; events too far in the future are refused,
  and move no clock; a node whose clock is off from most others' follows them. If it was ahead, and
  has stamped or delivered what they refuse, its order begins anew where theirs is: what it had
  published and nobody takes is given up and reported, and its next events are taken.
* Counters (`clocks`): every ball tells the sender's, so that a joiner of a quiet topic begins
  behind it; one out of all proportion is not believed, and a joiner goes by the middle.
* Rounds are as long as a message takes (`pace`), which nodes measure and tell each other.
* Who joins listens for TTL rounds from its first neighbour on: one that nobody knows yet would
  publish to nobody, and be late. Its order begins behind all timestamps there can be by then. What
  it publishes until then has its room kept, and is stamped then, or when it leaves before.
* What others say is looked at before it is used (`plausible`, `kernels.absorb`, `sizing`): numbers
  that cannot be are dropped and counted, entries have at most `MAX_ENTRY_EVENTS` events, and a
  round delivers at most `MAX_BATCH_EVENTS`. That is against faults, not against liars.
* Below a topic, Cyclon shuffles once per round (`topic`), so that each ball goes to other peers.

Balls that fit a few datagrams are sent as such, larger ones over connections.

Early delivery (`early`). Who wants events before their place in the order is certain is given them
when that is likely enough (`stability`), and told what was confirmed and what was not. It is by the
same rounds, sends nothing and changes nothing about delivery.

Invariants: entries are in ascending order, those up to the last delivered before all others; no
more than `max_entries` and `max_buffer_bytes` are held; what is delivered ascends, unless the order
began anew in between.
"""

from epicast.protocols.epto.config import EptoConfig
from epicast.protocols.epto.early import EarlyReader, EarlyStep
from epicast.protocols.epto.own import OwnEvents
from epicast.protocols.epto.pending import Pending
from epicast.protocols.epto.protocol import Epto
from epicast.protocols.epto.sources import Missing

__all__ = ["EarlyReader", "EarlyStep", "Epto", "EptoConfig", "Missing", "OwnEvents", "Pending"]
