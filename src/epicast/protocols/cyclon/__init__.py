"""Cyclon: a view that is always changing, random enough to sample from, cheap enough for anybody.

Paper: Voulgaris, Gavidia and van Steen, "CYCLON" (2005), with its enhanced shuffling.

Every period a node takes its oldest neighbour out of its view and sends it a few entries of that
view with a fresh one of itself; the partner answers with as many of its own. Each puts what it
did not have into empty places first, then in place of what it gave away, and discards itself and
what it has. So entries move rather than multiply: every node stays in about as many views as its
own view has places. As the oldest is tried first, entries of nodes that are gone disappear within
about `view_size` periods without any failure detection.

Shuffles are datagrams. A lost request or answer costs the entry of the partner, which a node that
is gone deserves; a live one is found in others' views. A node whose view ran empty starts again
through its contacts. A late or repeated answer is dropped: the entries it would replace are not
those given.

Joining is by random walks, not by simply shuffling with the contact: the contact sends one walk
to each of its neighbours, and the node where a walk ends gives the joiner an entry of its view
and puts the joiner in its place. The joiner has a full view at once, stands in as many views as
anybody else, and a contact that everybody joins through does not become the hub of a star. A node
with a free place gives an entry of itself and loses none, which is how the first views grow.

Where peers come and go faster than that, views may be looked after (`ping_period_ns`, off as in
the paper): every neighbour that has not spoken by itself is asked whether it is there. One that
has not answered for a period is passed over, neither sampled nor given to others; one that never
does is thrown out, if any other does: a node whose network is gone keeps what it has. The place is
for who asks next: it is alive, and who is in few views finds its way into more. As views forget
the far side of a split so much faster, those thrown out last are tried now and then like contacts.

The layer above is told of neighbours, but they have no connections: `sample` is what it is for.

Deviations: now and then (`contact_every`) a node shuffles with one of the contacts it was started
with instead of its oldest neighbour. The two sides of a split network forget each other within
`view_size` periods, and nothing else would ever bring them together again. Requests are numbered;
a partner that has answered comes back into a place that is still empty (as a fresh entry),
without which small overlays lose a link whenever they swap what both have; joins start as many
walks as the contact has neighbours, which is `view_size` once its view is full.

Invariants: at most `view_size` neighbours, never the node itself.
"""

from epicast.protocols.cyclon.config import CyclonConfig
from epicast.protocols.cyclon.protocol import Cyclon

__all__ = ["Cyclon", "CyclonConfig"]
