"""Seeded choices: distinct, uniform, and the same in every process."""

import os
import subprocess
import sys
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core.sampling import choose, derive_seed, sample, sample_except


@given(st.integers(0, 120), st.integers(-1, 130), st.integers(0, 2**32))
def test_distinct_members_of_the_population(n: int, k: int, seed: int) -> None:
    population = [f"peer{i}" for i in range(n)]
    chosen = sample(Random(seed), population, k)
    assert len(chosen) == len(set(chosen)) == max(0, min(k, n))
    assert set(chosen) <= set(population)
    assert chosen == sample(Random(seed), population, k)
    assert population == [f"peer{i}" for i in range(n)]  # not shuffled in place


def chi_square(observed: Counter[object], categories: int) -> float:
    expected = observed.total() / categories
    seen = sum((count - expected) ** 2 / expected for count in observed.values())
    return seen + (categories - len(observed)) * expected


def limit(categories: int) -> float:
    """The 99.99th percentile of chi-square, by Wilson and Hilferty's cube."""
    freedom = categories - 1
    return freedom * (1 - 2 / (9 * freedom) + 3.72 * (2 / (9 * freedom)) ** 0.5) ** 3


# Each way through `sample`: one of many, few of many, a large part, more than 20, all.
@pytest.mark.parametrize(("n", "k"), [(40, 1), (40, 3), (40, 10), (6, 4), (200, 25), (7, 7)])
def test_every_member_is_as_likely_in_every_place(n: int, k: int) -> None:
    rng = Random(derive_seed("uniform", n, k))
    population = list(range(100, 100 + n))
    rounds = 200 * n
    places: list[Counter[object]] = [Counter() for _ in range(k)]
    for _ in range(rounds):
        for place, member in enumerate(sample(rng, population, k)):
            places[place][member] += 1
    assert all(chi_square(place, n) < limit(n) for place in places)
    assert chi_square(sum(places, Counter()), n) < limit(n)


def test_pairs_are_as_likely_as_each_other() -> None:
    rng = Random(5)
    pairs = Counter(tuple(sorted(sample(rng, range(12), 2))) for _ in range(8000))
    assert chi_square(pairs, 66) < limit(66)


def test_the_measure_would_notice_a_bias() -> None:
    rng = Random(5)
    biased = Counter(int(rng.random() ** 1.1 * 40) for _ in range(40 * 200))
    assert chi_square(biased, 40) > limit(40)


@given(st.sets(st.integers(0, 30)), st.integers(0, 31), st.integers(0, 2**32))
def test_excluded_members_are_never_chosen(barred: set[int], k: int, seed: int) -> None:
    chosen = sample_except(Random(seed), range(30), k, iter(barred))
    allowed = set(range(30)) - barred
    assert set(chosen) <= allowed
    assert len(chosen) == min(k, len(allowed))


def test_choose_is_uniform() -> None:
    rng = Random(3)
    assert chi_square(Counter(choose(rng, "abcdefghij") for _ in range(3000)), 10) < limit(10)


def test_seeds_tell_names_apart() -> None:
    paths = [(), (1,), ("1",), (1, 2), (12,), ("1", "2"), (1, "2"), (2, 1), ("12",), (-1,)]
    assert len({derive_seed(*path) for path in paths}) == len(paths)
    assert all(0 <= derive_seed(*path) < 2**64 for path in paths)


SCRIPT = """
from random import Random
from epicast.core.sampling import choose, derive_seed, sample, sample_except
seed = derive_seed("run", 7, "node", 3)
rng = Random(seed)
names = [f"peer{i}" for i in range(50)]
barred = {f"peer{i}" for i in range(0, 50, 3)}
print(seed, sample(rng, names, 3), sample(rng, names, 30), sample(rng, names, 99)[:5],
      sample_except(rng, names, 4, barred), choose(rng, names))
"""


def test_the_same_whatever_the_hash_seed() -> None:
    outputs = set()
    for hash_seed in ("0", "1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        outputs.add(subprocess.check_output([sys.executable, "-c", SCRIPT], env=environment))
    assert len(outputs) == 1
    assert outputs.pop().startswith(b"%d " % derive_seed("run", 7, "node", 3))
