"""What is special about each backend: failures, restarts, and a comparison with the model."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from epicast.coordination import CoordinationError, NoSuchLease, open_coordinator
from epicast.coordination.memory import MemoryCoordinator, MemoryStore
from epicast.coordination.sqlite import SqliteCoordinator
from tests.coordination.servers import Etcd, free_ports


@pytest.mark.parametrize("seed", range(20))
def test_sqlite_does_what_the_model_does(seed: int, tmp_path: Path) -> None:
    """Under a clock that both are shown."""
    rng, now = random.Random(seed), [0.0]
    model = MemoryCoordinator(MemoryStore(lambda: now[0]))
    real = SqliteCoordinator(tmp_path / "db", lambda: now[0])
    keys, leases = ["a", "a/b", "a/c", "b"], [0, 99]
    for _ in range(120):
        now[0] += rng.choice([0, 0, 0.4])
        key, lease = rng.choice(keys), rng.choice(leases)
        known = model.read("").entries.get(key)
        revision = rng.choice([0, known.revision if known else 0, known.revision if known else 7])
        name, *arguments = rng.choice(
            [
                ("put", key, bytes(rng.randrange(3)), revision, lease),
                ("put", key, b"", revision),
                ("remove", key, revision),
                ("grant", rng.choice([0.3, 1.0, 3.0])),
                ("keep", lease),
                ("revoke", rng.choice(leases)),
            ]
        )
        outcomes = []
        for one in (model, real):
            try:
                outcomes.append(getattr(one, name)(*arguments))
            except NoSuchLease:
                outcomes.append("no such lease")
        assert outcomes[0] == outcomes[1], (name, arguments)
        if name == "grant":
            leases.append(outcomes[0])
        after = rng.randrange(model.read("").revision + 1)
        for prefix in ("", "a/", "b"):
            assert model.read(prefix) == real.read(prefix)
            assert model.wait(prefix, after, 0) == real.wait(prefix, after, 0)
    real.close()


def test_sqlite_forgets_removals_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epicast.coordination.sqlite._KEPT_REMOVALS", 3)
    one = open_coordinator(f"sqlite:{tmp_path}/db")
    begin = one.read("").revision
    for number in range(6):
        revision = one.put(f"k{number}", b"", 0)
        assert revision is not None
        one.remove(f"k{number}", revision)
    assert one.wait("k0", begin, 0) is not None  # it may have changed: better twice than never
    assert one.wait("k0", one.read("").revision, 0) is None
    one.close()


KILLED = """
import os, sys
from pathlib import Path
from epicast.coordination.sqlite import SqliteCoordinator

one = SqliteCoordinator(Path(sys.argv[1]))
with one._changing():
    one._change("torn", b"half")
    os.kill(os.getpid(), 9)
"""


def test_a_process_killed_in_the_middle_of_a_change(tmp_path: Path) -> None:
    file = tmp_path / "db"
    one = SqliteCoordinator(file)
    assert one.put("k", b"1", 0) == 1
    subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False)
    assert list(one.read("").entries) == ["k"]
    assert one.put("torn", b"whole", 0) == 2
    one.close()


def test_leases_do_not_survive_a_restart_of_the_machine(tmp_path: Path) -> None:
    one = SqliteCoordinator(tmp_path / "db")
    assert one.put("alive", b"", 0, one.grant(1e6)) is not None
    assert one.put("kept", b"", 0) is not None
    one.close()
    with sqlite3.connect(tmp_path / "db") as database:
        database.execute("UPDATE facts SET value = 'another' WHERE name = 'boot'")
    database.close()
    again = SqliteCoordinator(tmp_path / "db")
    assert list(again.read("").entries) == ["kept"]
    again.close()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("something else altogether" * 100)
    with pytest.raises(CoordinationError, match="not a database"):
        open_coordinator(f"sqlite:{tmp_path}/db")


@pytest.mark.parametrize("address", ["", "zookeeper://h:1", "sqlite:", "etcd:"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(CoordinationError, match="sqlite:FILE, etcd:"):
        open_coordinator(address)


def test_nobody_there() -> None:
    (port,) = free_ports(1)
    one = open_coordinator(f"etcd://127.0.0.1:{port}")
    for ask in (lambda: one.read(""), lambda: one.grant(1), lambda: one.wait("", 0, 1)):
        with pytest.raises(CoordinationError, match=f"127.0.0.1:{port}: .*refused"):
            ask()


def test_etcd_is_killed_and_comes_back(tmp_path: Path) -> None:
    server = Etcd(tmp_path)
    try:
        one = open_coordinator(f"etcd://127.0.0.1:{free_ports(1)[0]},{server.address[7:]}")
        revision = one.put("k", b"1", 0)
        assert revision is not None
        server.stop()
        with pytest.raises(CoordinationError, match="no member of etcd answers"):
            one.put("k", b"2", revision)
        server.start()
        deadline = time.monotonic() + 20
        while True:
            try:
                second = one.put("k", b"2", revision)
                break
            except CoordinationError:
                assert time.monotonic() < deadline
        assert second is not None and second > revision
        assert one.read("k").entries["k"].value == b"2"
        one.close()
    finally:
        server.stop()


def test_more_changes_than_an_answer_may_tell_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits needs to know of one."""
    monkeypatch.setattr("epicast.coordination.etcd_member._MOST_BYTES", 4 << 20)
    server = Etcd(tmp_path)
    try:
        one = open_coordinator(server.address)
        before = one.read("k").revision
        known = 0
        for _ in range(100):
            revision = one.put("k", bytes(60_000), known)
            assert revision is not None
            known = revision
        view = one.wait("k", before, 10)
        assert view is not None and view.revision == known
    finally:
        server.stop()
