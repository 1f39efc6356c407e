"""Reinforced views: random views that forget whoever no longer speaks for itself.

Paper: Allavena, Demers and Hopcroft, "Correctness of a gossip based membership protocol" (2005),
the membership Sprinkler uses inside a region. Here it stands alone, below any layer that samples
peers; agents and proxies of Sprinkler use the same view and the same message (`view.py` says how
views mix, and where we deviate).

Once per period a node exchanges views with a random neighbour: each adopts some of the other's, and
always the other itself. Now and then the partner is a contact given at the start, without which the
sides of a split network would never meet again; a node that knows nobody always asks a contact.

Invariants: at most `view_size` neighbours, never the node itself.
"""

from epicast.protocols.reinforcement.config import ReinforcementConfig
from epicast.protocols.reinforcement.protocol import Reinforcement

__all__ = ["Reinforcement", "ReinforcementConfig"]
