"""What all coordination services promise, asked of each of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from epicast.coordination import CoordinationError, Coordinator, NoSuchLease, open_coordinator
from epicast.coordination.memory import MemoryCoordinator, MemoryStore
from tests.coordination.servers import Etcd

Connect = Callable[[], Coordinator]
SHORT_S = 0.3


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    server = Etcd(tmp_path_factory.mktemp("etcd"))
    yield server
    server.stop()


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connect]:
    """Makes coordinators of one service, which is empty."""
    made: list[Coordinator] = []
    store = MemoryStore()

    def another() -> Coordinator:
        if request.param == "memory":
            made.append(MemoryCoordinator(store))
        elif request.param == "sqlite":
            made.append(open_coordinator(f"sqlite:{tmp_path}/coordination.db"))
        else:
            made.append(open_coordinator(request.getfixturevalue("etcd").address))
        return made[-1]

    first = another()
    for key, entry in first.read("").entries.items():
        first.remove(key, entry.revision)
    yield another
    for one in made:
        one.close()


def test_compare_and_set(connect: Connect) -> None:
    one, other = connect(), connect()
    first = one.put("chains/us", b"a", 0)
    assert first is not None
    assert other.put("chains/us", b"b", 0) is None
    assert other.put("chains/us", b"b", first + 1) is None
    second = other.put("chains/us", b"b", first)
    assert second is not None and second > first
    assert one.put("chains/us", b"c", first) is None
    entry = one.read("chains/us").entries["chains/us"]
    assert (entry.value, entry.revision, entry.lease) == (b"b", second, 0)
    assert not one.remove("chains/us", first)
    assert one.remove("chains/us", second)
    assert not one.remove("chains/us", second)
    assert not one.remove("chains/us", 0)
    assert other.put("chains/us", b"d", second) is None
    assert other.put("chains/us", b"", 0) is not None
    assert one.read("").entries["chains/us"].value == b""


def test_prefixes(connect: Connect) -> None:
    one = connect()
    names = ["a", "a/1", "a/2", "ab", "b", "zz\x7f", "ü"]
    for name in names:
        one.put(name, name.encode(), 0)
    assert list(one.read("").entries) == names
    assert list(one.read("a").entries) == ["a", "a/1", "a/2", "ab"]
    assert list(one.read("a/").entries) == ["a/1", "a/2"]
    assert list(one.read("ü").entries) == ["ü"]
    assert one.read("nothing").entries == {}
    assert one.read("nothing").revision == one.read("").revision


def test_revisions_rise_with_every_change(connect: Connect) -> None:
    one = connect()
    seen = [one.read("").revision]
    for number in range(5):
        revision = one.put(f"k{number}", b"", 0)
        assert revision is not None
        seen.append(revision)
    assert one.remove("k0", seen[1])
    seen.append(one.read("").revision)
    assert seen == sorted(set(seen))


def test_waiting(connect: Connect) -> None:
    one, other = connect(), connect()
    view = one.read("chains/")
    assert one.wait("chains/", view.revision, 0.05) is None
    other.put("elsewhere", b"", 0)
    assert one.wait("chains/", view.revision, 0.05) is None
    revision = other.put("chains/us", b"1", 0)
    assert revision is not None
    found = one.wait("chains/", view.revision, 5)
    assert found is not None and found.entries["chains/us"].value == b"1"
    later = threading.Timer(SHORT_S, lambda: other.remove("chains/us", revision))
    later.start()
    began = time.monotonic()
    found = one.wait("chains/", found.revision, 10)
    assert found is not None and found.entries == {}
    assert time.monotonic() - began > SHORT_S / 2
    later.join()
    # Who comes late hears of it at once.
    assert one.wait("chains/", view.revision, 10) is not None


def test_what_is_leased_vanishes(connect: Connect) -> None:
    one, other = connect(), connect()
    lease = one.grant(2.0)
    assert one.put("alive/1", b"", 0, lease) is not None
    assert other.read("alive/").entries["alive/1"].lease == lease
    view = other.read("alive/")
    found = other.wait("alive/", view.revision, 20)
    assert found is not None and found.entries == {}
    assert not one.keep(lease)
    with pytest.raises(NoSuchLease, match=str(lease)):
        one.put("alive/1", b"", 0, lease)


def test_what_is_kept_stays(connect: Connect) -> None:
    one, other = connect(), connect()
    lease = one.grant(3.0)
    revision = one.put("alive/1", b"", 0, lease)
    assert revision is not None
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        assert one.keep(lease)
        time.sleep(0.3)
    assert "alive/1" in other.read("alive/").entries
    freed = one.put("alive/1", b"for good", revision)  # no longer bound
    assert freed is not None
    one.revoke(lease)
    one.revoke(lease)
    assert other.read("alive/").entries["alive/1"].value == b"for good"
    second = one.grant(60)
    assert one.put("alive/2", b"", 0, second) is not None
    one.revoke(second)
    assert list(other.read("alive/").entries) == ["alive/1"]
    assert not one.keep(second)


def test_many_at_once_lose_no_update(connect: Connect) -> None:
    threads, rounds = 4, 25

    def count() -> None:
        mine = connect()
        done = 0
        while done < rounds:
            entry = mine.read("counter").entries.get("counter")
            value = int(entry.value) if entry else 0
            if mine.put("counter", b"%d" % (value + 1), entry.revision if entry else 0):
                done += 1

    workers = [threading.Thread(target=count) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert int(connect().read("counter").entries["counter"].value) == threads * rounds


@pytest.mark.parametrize(("key", "value"), [("", b""), ("a\0b", b""), ("k", bytes(1 << 17))])
def test_what_is_refused(connect: Connect, key: str, value: bytes) -> None:
    with pytest.raises(CoordinationError):
        connect().put(key, value, 0)
    assert connect().read("").entries == {}
