"""Universes: what they look like, that they are the same for a seed, and what is refused."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from epicast.cli import main
from epicast.pipeline import session
from epicast.pipeline.universes.generating import EDGES, generate, read_universe
from epicast.pipeline.universes.grid import grid_edges, places_of, radii
from epicast.pipeline.universes.spec import (
    CELL_TOPICS,
    CELL_USERS,
    UniverseError,
    UniverseSpec,
)
from epicast.pipeline.universes.websphere import websphere_edges

GRID = UniverseSpec(model="grid", users=700, topics=80, places=20, chunk_users=256, seed=3)


def test_who_is_near_subscribes() -> None:
    """Against all distances, one by one."""
    places = places_of(GRID)
    found = set()
    for chunk in range(GRID.chunks):
        user, topic = grid_edges(GRID, chunk)
        pairs = list(zip(user.tolist(), topic.tolist(), strict=True))
        assert pairs == sorted(set(pairs))
        found.update(pairs)
        rng = np.random.default_rng([GRID.seed, 1, chunk])
        x, y, chance = rng.random((3, GRID.chunk_users))
        radius = radii(places.scale, GRID.tail, chance)
        for row in range(min(GRID.chunk_users, GRID.users - chunk * GRID.chunk_users)):
            dx, dy = abs(places.x - x[row]), abs(places.y - y[row])
            distance = np.hypot(np.minimum(dx, 1 - dx), np.minimum(dy, 1 - dy))
            near = set(places.topic[distance <= radius[row]].tolist())
            number = row + chunk * GRID.chunk_users
            assert {topic for user, topic in pairs if user == number} == near
    assert {user for user, _ in found} <= set(range(GRID.users))
    assert len(found) / GRID.users == pytest.approx(GRID.subscriptions, rel=0.15)


def test_popular_topics_and_keen_users(spark: Any, tmp_path: Path) -> None:
    spec = UniverseSpec(model="grid", users=20_000, topics=500, subscriptions=8.0)
    made = generate(spark, spec, tmp_path / "grid")
    assert made == read_universe(tmp_path / "grid")
    assert made.users.mean * made.users.number == pytest.approx(made.edges, rel=1e-3)
    assert made.topics.mean * made.topics.number == pytest.approx(made.edges, rel=1e-3)
    assert made.edges / spec.users == pytest.approx(8.0, rel=0.1)
    assert made.users.most > 5 * made.users.mean
    assert made.topics.most > 5 * made.topics.mean
    table = pq.read_table(tmp_path / "grid" / EDGES)
    assert table.num_rows == made.edges
    by_topic = np.bincount(table["topic"].to_numpy(), minlength=500)
    assert by_topic.max() == made.topics.most
    assert by_topic[:5].mean() > 4 * by_topic[100:].mean()


def test_a_cell() -> None:
    spec = UniverseSpec(model="websphere", users=3 * CELL_USERS + 5)
    user, topic = websphere_edges(spec, 0)
    assert user.max() < spec.users
    for cell in range(3):
        mine = (topic // CELL_TOPICS) == cell
        assert set((user[mine] // CELL_USERS).tolist()) == {cell}
        sizes = np.bincount(topic[mine] - cell * CELL_TOPICS, minlength=CELL_TOPICS)
        assert (sizes[:26] >= 121).all() and (sizes[:26] <= 127).all()
        assert (sizes[26:] >= 2).all() and (sizes[26:] <= 10).all()
    per_user = np.bincount(user)[: 3 * CELL_USERS]
    assert 60 < per_user.mean() < 95


def test_the_same_whatever_the_tasks(spark: Any, tmp_path: Path) -> None:
    made = [generate(spark, GRID, tmp_path / name) for name in ("a", "b")]
    assert made[0] == made[1]
    whole = pq.read_table(tmp_path / "a" / EDGES)
    parts = [grid_edges(GRID, chunk) for chunk in reversed(range(GRID.chunks))][::-1]
    assert whole["topic"].to_pylist() == np.concatenate([part[1] for part in parts]).tolist()
    other = generate(
        spark, UniverseSpec(model="grid", users=700, topics=80, seed=4), tmp_path / "c"
    )
    assert other.digest != made[0].digest


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"users": 0}, "users: 0 is not between"),
        ({"topics": 5, "subscriptions": 6.0}, "subscriptions: 6 is not between"),
        ({"topics": 50, "subscriptions": 49.0, "places": 1}, "at most 39 can be had"),
        ({"tail": 0.5}, "tail"),
    ],
)
def test_what_cannot_be_made(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    spec = UniverseSpec(**{"model": "grid", "users": 10, "topics": 100} | options)
    with pytest.raises(UniverseError, match=words):
        generate(None, spec, tmp_path / "out")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_the_command(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: nullcontext(spark))
    out = str(tmp_path / "cells")
    assert main(["universe", "generate", "websphere", "--users", "300", "--out", out]) == 0
    assert "subscriptions" in capsys.readouterr().out
    assert main(["universe", "show", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["users"]["number"] == 300
    assert main(["universe", "generate", "grid", "--out", out]) == 2
    assert "there already" in capsys.readouterr().err
    assert main(["universe", "show", str(tmp_path)]) == 2
    assert "holds no universe" in capsys.readouterr().err
