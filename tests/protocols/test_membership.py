"""Full membership, and stacks by name."""

from collections import Counter
from random import Random

import pytest

from epicast.core import ConfigError, Peer
from epicast.protocols.catalog import LAYERS, stack_factory
from epicast.protocols.flood import Flood
from epicast.protocols.gossip import PushGossip, PushGossipConfig
from epicast.protocols.hyparview import HyParView, HyParViewConfig
from epicast.protocols.membership import FullMembership


@pytest.mark.parametrize("k", [1, 3, 5, 9, 10, 50])
def test_samples_are_distinct_others(k):
    everybody = list(range(1, 11))
    members = FullMembership(4, everybody, Random(1))
    for _ in range(200):
        chosen = members.sample(k)
        assert len(chosen) == len(set(chosen)) == min(k, 9)
        assert set(chosen) <= set(everybody) - {4}


@pytest.mark.parametrize("k", [2, 6])
def test_samples_are_uniform_and_drawn_from_the_seed(k):
    everybody = list(range(20))
    members = FullMembership(4, everybody, Random(1))
    counts = Counter(peer for _ in range(5000) for peer in members.sample(k))
    for peer in set(everybody) - {4}:
        assert counts[peer] == pytest.approx(5000 * k / 19, rel=0.15)
    again = FullMembership(4, everybody, Random(1))
    assert again.sample(k) == FullMembership(4, everybody, Random(1)).sample(k)


def test_alone_there_is_nobody_to_sample():
    assert FullMembership(1, [1], Random(1)).sample(3) == []
    assert FullMembership(1, [], Random(1)).sample(3) == []


def test_a_stack_is_made_from_names():
    config = PushGossipConfig(fanout=9)
    make = stack_factory(["hyparview", "gossip"], {"gossip": config})
    stack = make(Peer(1), Random(1))
    below, above = stack.layers
    assert isinstance(below, HyParView) and isinstance(above, PushGossip)
    assert above.below is below
    assert above.config is config and below.config == HyParViewConfig()
    assert below.rng is not above.rng
    assert below.rng.random() != above.rng.random()


def test_layers_draw_from_the_seed_of_their_node():
    make = stack_factory(["hyparview", "flood"], {})

    def drawn(seed: int) -> list[float]:
        return [layer.rng.random() for layer in make(Peer(1), Random(seed)).layers]

    assert drawn(1) == drawn(1) != drawn(2)
    assert isinstance(make(Peer(1), Random(1)).layers[1], Flood)


def test_every_layer_has_defaults():
    assert {name: config() for name, (config, _) in LAYERS.items()}.keys() == LAYERS.keys()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "stack: empty; known layers: hyparview, cyclon, lpbcast"),
        (["hyparview", "smoke"], r"stack: \['smoke'\]; known layers"),
        (["flood"], "the bottom layer is one of"),
        (["hyparview", "cyclon"], "stack: one of"),
        (["cyclon", "flood"], "put it on hyparview"),
        (["hyparview", "gossip", "gossip"], "stack: one of"),
    ],
)
def test_impossible_stacks_are_refused(names, message):
    with pytest.raises(ConfigError, match=message):
        stack_factory(names, {})
