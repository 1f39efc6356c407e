"""Chains of replicas that agree through a real etcd: they fail, it fails, and both at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from epicast.geo.local import LocalGeoplex
from tests.coordination.servers import Etcd
from tests.geo.support import eventually
from tests.geo.test_chains import (
    REPLICAS,
    Load,
    chained,
    check,
    is_whole,
    places,
    replica_at,
)

LONG_ENOUGH_S = 1.0
"""For replicas to notice that another has died, and to propose to go on without it."""


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    server = Etcd(tmp_path)
    yield server
    server.stop()


@contextmanager
def chain_under_load(data: Path, etcd: Etcd) -> Iterator[tuple[LocalGeoplex, Load]]:
    """In the end everything that was acknowledged is everywhere, once and in order."""
    with LocalGeoplex(chained(data, etcd.address)) as local:
        eventually(lambda: is_whole(local))
        load = Load(local.address("us"))
        with load.running():
            load.go_on()
            yield local, load
        check(local, load)
        heads = {name: status.streams[0].head for name, status in local.status().items()}
        assert heads == dict.fromkeys((*REPLICAS, "eu"), load.acknowledged)


def kill(local: LocalGeoplex, place: int) -> str:
    victim = replica_at(local, place)
    local.kill(victim)
    return victim


def start_again(local: LocalGeoplex, *replicas: str) -> None:
    for replica in replicas:
        local.start(replica)
    eventually(lambda: is_whole(local))


def test_two_of_three_replicas_are_killed(tmp_path: Path, etcd: Etcd) -> None:
    with chain_under_load(tmp_path, etcd) as (local, load):
        head = kill(local, 0)
        load.go_on()
        eventually(lambda: sorted(places(local).values()) == [0, 1])
        tail = kill(local, 1)
        load.go_on()
        eventually(lambda: list(places(local).values()) == [0])
        start_again(local, head, tail)
        load.go_on()


def test_etcd_hangs_and_nothing_else_happens(tmp_path: Path, etcd: Etcd) -> None:
    with chain_under_load(tmp_path, etcd) as (local, load):
        with etcd.hanging():
            before = places(local)
            load.go_on()
            assert places(local) == before
        start_again(local, kill(local, 0))
        load.go_on()


def test_the_head_dies_while_etcd_is_down(tmp_path: Path, etcd: Etcd) -> None:
    """It cannot be removed until etcd is there again, with what it had on its disk."""
    with chain_under_load(tmp_path, etcd) as (local, load):
        etcd.stop()
        before = places(local)
        load.go_on()
        assert places(local) == before
        head = kill(local, 0)
        acknowledged = load.acknowledged
        time.sleep(LONG_ENOUGH_S)
        assert load.acknowledged <= acknowledged + 1  # which was on its way
        etcd.start()
        load.go_on()
        start_again(local, head)
        load.go_on()
