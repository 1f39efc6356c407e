"""Views with reinforcement: bounds of one view, and what many of them are together."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from epicast.core import Peer
from epicast.protocols.reinforcement.view import ReinforcedView
from epicast.sim.overlay import Overlay

peers = st.lists(st.integers(0, 15).map(Peer), max_size=12)


@given(st.integers(1, 8), st.lists(st.tuples(st.integers(1, 15), peers), max_size=20))
def test_a_view_is_bounded_and_has_whoever_spoke_last(
    size: int, heard: list[tuple[int, list[Peer]]]
) -> None:
    view = ReinforcedView(0, size, Random(1))
    for sender, members in heard:
        before = set(view.ids())
        view.merge(Peer(sender), members)
        after = set(view.ids())
        assert len(after) <= size
        assert 0 not in after
        assert sender in after
        assert after <= before | {peer.id for peer in members} | {sender}
        possible = len((before | {peer.id for peer in members} | {sender}) - {0})
        assert len(after) >= min(size, len(before), possible)


def test_a_view_that_is_not_full_takes_everything() -> None:
    view = ReinforcedView(0, 10, Random(1))
    view.merge(Peer(1), [Peer(identity) for identity in range(2, 8)])
    assert sorted(view.ids()) == [1, 2, 3, 4, 5, 6, 7]


def test_a_full_view_keeps_most_of_what_it_has() -> None:
    view = ReinforcedView(0, 20, Random(1))
    view.merge(Peer(1), [Peer(identity) for identity in range(2, 21)])
    view.merge(Peer(50), [Peer(identity) for identity in range(60, 79)])
    assert len(view) == 20 and 50 in view
    assert sum(60 <= identity < 79 for identity in view.ids()) == 2


class Crowd:
    """Nodes that know node 0 only, and gossip in rounds."""

    def __init__(self, nodes: int, size: int) -> None:
        self.views = {n: ReinforcedView(n, size, Random(n)) for n in range(nodes)}
        self._rng = Random(7)
        for node in range(1, nodes):
            self.views[node].add(Peer(0))

    def gossip(self, rounds: int) -> None:
        for _ in range(rounds):
            for node in self._rng.sample(sorted(self.views), len(self.views)):
                partner = self.views[node].random_member()
                if partner is not None and partner.id in self.views:
                    self.views[partner.id].merge(Peer(node), self.views[node].members())
                    self.views[node].merge(partner, self.views[partner.id].members())

    def counts(self) -> Counter[int]:
        """In how many views each node is."""
        counts = Counter(dict.fromkeys(self.views, 0))
        counts.update(peer for view in self.views.values() for peer in view.ids())
        return counts


def test_everybody_is_known_to_several_others() -> None:
    crowd = Crowd(300, 20)
    crowd.gossip(40)
    assert max(crowd.counts().values()) < 100  # node 0 is no star any more
    metrics = Overlay.from_views({n: v.ids() for n, v in crowd.views.items()}).measure(1)
    assert metrics.strongly_connected
    assert metrics.clustering < 0.2  # 0.13 if views were drawn at random
    lonely = 0
    for _ in range(20):
        crowd.gossip(2)
        lonely += sum(count < 2 for count in crowd.counts().values())
    assert lonely <= 0.002 * 20 * 300


def test_nodes_that_are_gone_are_forgotten() -> None:
    crowd = Crowd(200, 20)
    crowd.gossip(30)
    for node in range(150, 200):
        del crowd.views[node]
    before = sum(crowd.counts()[node] for node in range(150, 200))
    crowd.gossip(80)
    assert sum(crowd.counts()[node] for node in range(150, 200)) < before / 4
    crowd.gossip(240)
    assert sum(crowd.counts()[node] for node in range(150, 200)) == 0
