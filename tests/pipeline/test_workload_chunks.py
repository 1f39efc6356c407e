"""What generated workloads consist of, against models that are slow and plain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from epicast.experiments.ranked_keys import RankedKeys
from epicast.experiments.zipf import BoundedZipf
from epicast.pipeline.workloads.chunks import ChunkMaker, Columns, Op
from epicast.pipeline.workloads.errors import WorkloadError
from epicast.pipeline.workloads.growing_zipf import GrowingZipf
from epicast.pipeline.workloads.popularity import Popularity
from epicast.pipeline.workloads.sizes import draw_sizes
from epicast.pipeline.workloads.spec import LIFETIME_CUT, NS_PER_S, Sizes, WorkloadSpec
from epicast.pipeline.workloads.temporary import FIRST_TEMPORARY

ZIPF = WorkloadSpec(model="zipf", events=9_500, keys=300, skew=1.1, chunk_events=1_000, seed=5)
ZETA = WorkloadSpec(model="zeta", events=9_500, skew=1.2, chunk_events=1_000, seed=5)


def whole(spec: WorkloadSpec) -> Columns:
    maker = ChunkMaker(spec.check())
    made = [maker.make(chunk) for chunk in range(spec.chunks)]
    return Columns(*(np.concatenate(columns) for columns in zip(*made, strict=True)))


def same(one: Columns, other: Columns) -> bool:
    return all((a == b).all() for a, b in zip(one, other, strict=True))


SPECS = [
    ZIPF,
    replace(ZIPF, insertions=20.0, sizes=Sizes("uniform", 1, 9)),
    replace(ZETA, insertions=20.0, temporary=10.0, lifetime=7.0),
]


@pytest.mark.parametrize("spec", SPECS)
def test_chunks_do_not_depend_on_what_was_made_before(spec: WorkloadSpec) -> None:
    in_order = ChunkMaker(spec)
    made = [in_order.make(chunk) for chunk in range(spec.chunks)]
    backwards = ChunkMaker(spec)
    for chunk in reversed(range(spec.chunks)):
        assert same(made[chunk], backwards.make(chunk))
    assert same(made[4], ChunkMaker(spec).make(4))
    assert not (ChunkMaker(replace(spec, seed=6)).make(4).key[:900] == made[4].key[:900]).all()


@pytest.mark.parametrize("spec", SPECS)
def test_a_shorter_workload_is_the_beginning_of_a_longer_one(spec: WorkloadSpec) -> None:
    long, short = whole(spec), whole(replace(spec, events=3_210))
    assert same(short, long.part(0, len(short.time)))


@pytest.mark.parametrize("spec", SPECS)
def test_time_never_goes_back_and_has_the_rate(spec: WorkloadSpec) -> None:
    columns = whole(spec)
    assert (np.diff(columns.time) >= 0).all()
    assert columns.time[0] > 0
    events = columns.time[columns.key < FIRST_TEMPORARY]
    assert len(events) == spec.events
    assert events[-1] / NS_PER_S == pytest.approx(spec.events / spec.total_rate, rel=0.05)


def test_arrivals_are_a_poisson_process() -> None:
    """Gaps are exponential, across the ends of chunks, too; counts vary as much as they are."""
    spec = replace(ZIPF, events=200_000, chunk_events=50)
    gaps = np.diff(whole(spec).time) * (spec.rate / NS_PER_S)
    for part in (gaps, gaps[49::50]):
        order = np.sort(part)
        distance = np.abs(np.arange(1, len(part) + 1) / len(part) + np.expm1(-order)).max()
        assert distance < 2.2 / np.sqrt(len(part))  # Kolmogorov-Smirnov, one in 10,000
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 0.01
    seconds = whole(spec).time // NS_PER_S
    counts = np.bincount(seconds)[:-1]
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.2)


class ListedKeys:
    """Keys in order of popularity, as a list."""

    def __init__(self, originals: int) -> None:
        self.keys = list(range(1, originals + 1))
        self.inserted = 0

    def insert(self, rank: int) -> int:
        self.inserted += 1
        self.keys.insert(rank - 1, -self.inserted)
        return -self.inserted


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.integers(1, 40), max_size=12), max_size=9),
    st.lists(st.integers(1, 60), min_size=1),
)
def test_popularity_is_that_of_a_list(chunks: list[list[int]], asked: list[int]) -> None:
    model, popularity = ListedKeys(300), Popularity()
    for ranks in chunks:
        ranked = RankedKeys()
        ranked.apply(np.array(ranks, dtype=np.int64), np.ones(len(ranks), dtype=np.bool_))
        at, keys = ranked.listed()
        popularity.add(at, keys - popularity.inserted)
        for rank in ranks:
            model.insert(rank)
    found = popularity.keys_at(np.array(asked))
    assert found.tolist() == [model.keys[rank - 1] for rank in asked]
    assert popularity.inserted == model.inserted


def test_insertions_are_those_of_one_long_sequence() -> None:
    """Chunk by chunk is the same as one `RankedKeys` over all events."""
    spec = replace(ZIPF, insertions=40.0)
    maker, ranked = ChunkMaker(spec), RankedKeys()
    drawn: list[np.ndarray] = []
    real = maker._draw

    def noting(*arguments: object) -> np.ndarray:
        drawn.append(real(*arguments))  # type: ignore[arg-type]
        return drawn[-1].copy()

    maker._draw = noting  # type: ignore[assignment, method-assign]
    for chunk in range(9):
        columns = maker.make(chunk)
        inserted, updated = drawn[-2:]
        marks = columns.op == Op.INSERT
        ranks = updated.copy()
        ranks[marks] = inserted
        assert columns.key.tolist() == ranked.apply(ranks, marks).tolist()
    assert ranked.inserted > 1_000


def test_shares_and_order_of_insertions() -> None:
    columns = whole(replace(ZIPF, events=100_000, insertions=20.0, chunk_events=5_000))
    inserted = columns.key[columns.op == Op.INSERT]
    assert inserted.tolist() == list(range(-1, -len(inserted) - 1, -1))
    assert len(inserted) / 100_000 == pytest.approx(1 / 11, rel=0.05)
    known = np.cumsum(columns.op == Op.INSERT)
    assert (columns.key >= -known).all() and columns.key.max() <= 300


@pytest.mark.parametrize("skew", [0.0, 0.7, 1.0, 1.1, 3.0])
@pytest.mark.parametrize("table", [1, 20])
def test_growing_zipf_has_the_probabilities_of_a_table(skew: float, table: int) -> None:
    rng = np.random.default_rng(3)
    count = 200_000
    drawn = GrowingZipf(50, skew, table).draw(rng, np.full(count, 60))
    expected = BoundedZipf(60, skew).probabilities() * count
    found = np.bincount(drawn, minlength=61)[1:]
    assert len(found) == 60 and found.sum() == count
    often = expected >= 5
    surprise = ((found - expected)[often] ** 2 / expected[often]).sum()
    degrees = often.sum()
    assert surprise < degrees + 5 * np.sqrt(2 * degrees)


def test_growing_zipf_keeps_to_each_bound() -> None:
    rng = np.random.default_rng(3)
    bounds = rng.integers(30, 10**9, 50_000)
    drawn = GrowingZipf(30, 0.9, 20).draw(rng, bounds)
    assert (drawn >= 1).all() and (drawn <= bounds).all()
    assert drawn.max() > 10**8


def test_temporary_keys_are_inserted_once_and_deleted_once_after_their_life() -> None:
    spec = replace(ZIPF, events=40_000, temporary=30.0, lifetime=9.0)
    columns = whole(spec)
    temporary = columns.key >= FIRST_TEMPORARY
    born = columns.key[temporary & (columns.op == Op.INSERT)]
    gone = columns.key[columns.op == Op.DELETE]
    assert len(np.unique(born)) == len(born) and len(np.unique(gone)) == len(gone)
    assert np.isin(gone, born).all()
    assert len(born) == pytest.approx(spec.temporary * spec.events / spec.rate, rel=0.05)
    times = dict(zip(born.tolist(), columns.time[columns.op == Op.INSERT].tolist(), strict=True))
    ends = zip(gone.tolist(), columns.time[columns.op == Op.DELETE].tolist(), strict=True)
    lives = np.array([end - times[key] for key, end in ends]) / NS_PER_S
    assert (lives > 0).all() and lives.max() <= LIFETIME_CUT * spec.lifetime
    still = len(born) - len(gone)
    assert still == pytest.approx(spec.temporary * spec.lifetime, rel=0.3)  # Little's law
    assert (columns.size[columns.op == Op.DELETE] == 0).all()


def test_sizes() -> None:
    rng = np.random.default_rng(1)
    assert set(draw_sizes(rng, Sizes.parse("7"), 10).tolist()) == {7}
    uniform = draw_sizes(rng, Sizes.parse("uniform:3:5"), 1_000)
    assert set(uniform.tolist()) == {3, 4, 5}
    drawn = draw_sizes(rng, Sizes.parse("lognormal:100:0.5"), 10_000)
    assert np.median(drawn) == pytest.approx(100, rel=0.05)
    assert np.log(drawn).std() == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "uniform:5:3", "uniform:1", "lognormal:0:1", "1e9"]
)
def test_bad_sizes(text: str) -> None:
    with pytest.raises(WorkloadError, match=r"sizes: .* is not a number of bytes"):
        Sizes.parse(text)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (replace(ZIPF, events=0), "events: 0 is not between 1 and"),
        (replace(ZIPF, keys=None), "the Zipf model needs"),
        (replace(ZETA, keys=3), "infinitely many; leave it out"),
        (replace(ZETA, skew=1.0), "skew: 1 is not above 1"),
        (replace(ZIPF, rate=float("nan")), "rate: nan is not between"),
        (replace(ZIPF, seed=-1), "seed: -1 is not between"),
        (replace(ZIPF, events=10**9, rate=1e-3), "more than nanoseconds can count"),
    ],
)
def test_bad_descriptions(spec: WorkloadSpec, words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        spec.check()
