"""Keys by popularity against a plain list, and the workload built on them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import ConfigError, EventBatch
from epicast.experiments.key_workload import KeyWorkload, encode_events
from epicast.experiments.ranked_keys import BLOCK, RankedKeys


class ListedKeys:
    """What `RankedKeys` is, said as a list: the originals, as far as anybody looks."""

    def __init__(self, originals: int) -> None:
        self.keys = list(range(1, originals + 1))
        self.inserted = 0

    def apply(self, rank: int, insertion: bool) -> int:
        if insertion:
            self.inserted += 1
            self.keys.insert(rank - 1, -self.inserted)
        return self.keys[rank - 1]


def compare(ranks: np.ndarray, insertions: np.ndarray, cut: int) -> RankedKeys:
    """`cut` divides the operations into two calls."""
    model = ListedKeys(int(ranks.max()))
    expected = [model.apply(*one) for one in zip(ranks.tolist(), insertions.tolist(), strict=True)]
    ranked = RankedKeys()
    found = [ranked.apply(ranks[part], insertions[part]) for part in np.s_[:cut, cut:]]
    assert np.concatenate(found).tolist() == expected
    return ranked


@given(st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1), st.integers(0, 20))
def test_few_keys(operations: list[tuple[int, bool]], cut: int) -> None:
    ranks, insertions = zip(*operations, strict=True)
    compare(np.array(ranks), np.array(insertions), cut)


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.sampled_from([1, 40, 3000]), st.floats(0.2, 1.0))
def test_many_keys_fill_many_blocks(seed: int, highest: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    ranks = rng.integers(1, highest + 1, 6000)
    ranked = compare(ranks, rng.random(6000) < share, 2500)
    assert ranked.inserted > 4 * BLOCK or share < 0.3


def test_ranks_without_end() -> None:
    ranked = RankedKeys()
    far = 1 << 62
    ranks = np.array([far, 5, far, far + 1, far + 2, 4, 5])
    insertions = np.array([True, True, False, False, False, False, False])
    # The key inserted at 5 moves the one far away to far + 1.
    assert ranked.apply(ranks, insertions).tolist() == [-1, -2, far - 1, -1, far, 4, -2]


def workload(keys: int | None, insertions: float, seed: int = 1) -> KeyWorkload:
    return KeyWorkload(
        keys=keys, skew=1.1, insertions=insertions, invalidations=100, events=200_000, seed=seed
    )


@pytest.mark.parametrize("keys", [None, 500])
def test_arrivals_have_the_rates_asked_for(keys: int | None) -> None:
    arrivals = workload(keys, 10).draw(200_000)
    assert (np.diff(arrivals.times) >= 0).all()
    assert arrivals.times[-1] == pytest.approx(200_000 / 110, rel=0.02)
    assert arrivals.insertions.mean() == pytest.approx(1 / 11, rel=0.05)
    inserted = arrivals.keys[arrivals.insertions]
    assert inserted.tolist() == list(range(-1, -len(inserted) - 1, -1))


def test_a_key_is_named_only_once_it_is_there() -> None:
    arrivals = workload(500, 10).draw(100_000)
    known = np.cumsum(arrivals.insertions)
    assert (arrivals.keys >= -known).all()
    assert arrivals.keys.max() <= 500
    assert (arrivals.keys < 0).sum() > 2 * arrivals.insertions.sum()  # new keys are popular, too


def test_blocks_do_not_matter_to_what_is_inserted_where() -> None:
    """The seed decides; a workload drawn twice alike is the same."""
    first, second = workload(None, 10), workload(None, 10)
    for count in (1, 7, 1000):
        assert (first.draw(count).keys == second.draw(count).keys).all()
    assert (workload(None, 10, 2).draw(1000).keys != workload(None, 10).draw(1000).keys).any()


def test_events_are_what_build_would_make() -> None:
    keys = np.array([3, -1, 3, 1 << 62])
    encoded = [int(key).to_bytes(8, "little", signed=True) for key in keys]
    assert encode_events(7, 11, keys) == EventBatch.build(7, 11, [b""] * 4, keys=encoded)


def test_bad_parameters() -> None:
    with pytest.raises(ConfigError, match="no rates"):
        workload(None, -1.0)
    with pytest.raises(ConfigError, match="only 200000 left"):
        workload(None, 1.0).draw(200_001)
