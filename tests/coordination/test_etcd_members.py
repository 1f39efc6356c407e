"""Members of etcd that are unable are passed over, whatever is asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from epicast.coordination import CoordinationError, View, open_coordinator
from epicast.coordination.etcd import EtcdCoordinator
from tests.coordination.imposters import Imposter, Unfinished, etcd_like, http, refusal, stream
from tests.coordination.servers import PATIENCE_S, Etcd, etcd_cluster, free_ports

Outcome = TypeVar("Outcome")
SHORT_S = 0.2
UNABLE: dict[str, Callable[[str], bytes]] = {
    "hangs": lambda _: Unfinished(),
    "hangs in the middle": lambda _: Unfinished(http(b'{"header": {}}')[:-5]),
    "is a gateway": lambda _: http(b"<html>502</html>\n", 502),
    "has lost the others": lambda _: refusal(503, 14, "etcdserver: no leader"),
    "is nothing": lambda _: http(b"{}\n"),
}


@pytest.mark.parametrize("unable", UNABLE)
def test_the_next_one_is_watched_and_remembered(unable: str) -> None:
    with Imposter(UNABLE[unable]) as bad, Imposter(etcd_like) as good:
        one = EtcdCoordinator([bad.member, good.member], patience_s=SHORT_S)
        for _ in range(3):
            assert one.wait("k", 0, SHORT_S / 2) == View(5, {})
    assert bad.asked == ["watch"]
    assert good.asked == ["watch", "kv/range"] * 3


@pytest.mark.parametrize("unable", UNABLE)
def test_the_next_one_is_asked_and_remembered(unable: str) -> None:
    with Imposter(UNABLE[unable]) as bad, Imposter(etcd_like) as good:
        one = EtcdCoordinator([bad.member, good.member], patience_s=SHORT_S)
        assert one.read("k") == View(5, {})
        assert one.put("k", b"", 0) == 5
        assert one.wait("k", 0, SHORT_S) == View(5, {})
    assert bad.asked == ["kv/range"]


def test_a_watch_that_ends_goes_on_with_the_next_one() -> None:
    with Imposter(lambda _: stream({"created": True})) as bad, Imposter(etcd_like) as good:
        one = EtcdCoordinator([bad.member, good.member])
        assert one.wait("k", 0, 5) == View(5, {})


def test_who_watches_and_has_nothing_to_tell_is_able() -> None:
    def quiet(method: str) -> bytes:
        return Unfinished(stream({"created": True})) if method == "watch" else etcd_like(method)

    with Imposter(quiet) as first, Imposter(etcd_like) as second:
        one = EtcdCoordinator([first.member, second.member])
        began = time.monotonic()
        assert one.wait("k", 0, SHORT_S) is None
        assert one.wait("k", 0, SHORT_S) is None
        assert 2 * SHORT_S <= time.monotonic() - began < 2
    assert second.asked == []


def test_a_change_that_may_have_been_made_is_asked_of_nobody_else() -> None:
    with Imposter(UNABLE["hangs"]) as bad, Imposter(etcd_like) as good:
        one = EtcdCoordinator([bad.member, good.member], patience_s=SHORT_S)
        with pytest.raises(CoordinationError, match=f"{bad.member}: timed out"):
            one.put("k", b"", 0)
        assert good.asked == []
        assert one.put("k", b"", 0) == 5  # but who was unable is not asked again


def test_a_change_that_was_asked_of_nobody_is_asked_of_the_next_one() -> None:
    with Imposter(etcd_like) as good:
        one = EtcdCoordinator([f"127.0.0.1:{free_ports(1)[0]}", good.member])
        assert one.put("k", b"", 0) == 5


def test_all_are_named_with_what_they_said() -> None:
    with Imposter(UNABLE["hangs"]) as first, Imposter(UNABLE["is a gateway"]) as second:
        one = EtcdCoordinator([first.member, second.member], patience_s=SHORT_S)
        both = f"{first.member}: timed out; {second.member}: HTTP status 502: b'<html>"
        with pytest.raises(CoordinationError, match=both):
            one.read("k")
        with pytest.raises(CoordinationError, match=both):
            one.wait("k", 0, 1)


@pytest.mark.parametrize("address", ["nowhere", ":1", "h:", "h:0", "h:65536", "h:x"])
def test_what_is_no_member(address: str) -> None:
    with pytest.raises(CoordinationError, match="not HOST:PORT"):
        open_coordinator(f"etcd://{address}")


def test_a_name_that_cannot_be_one() -> None:
    with pytest.raises(CoordinationError, match=r"a\.\.b:1: "):
        open_coordinator("etcd://a..b:1").read("")


def test_members_of_a_real_cluster_hang_and_die(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path, 3) as members:
        first, *others = (server.member for server in members)
        watcher = EtcdCoordinator([first, *others], patience_s=1.0)
        writer = EtcdCoordinator(others, patience_s=1.0)
        before = watcher.read("k").revision
        with members[0].hanging():
            at_last(lambda: writer.put("k", b"v", 0) or writer.read("k").entries)
            view = at_last(lambda: watcher.wait("k", before, SHORT_S))
            assert view.entries["k"].value == b"v"
        members[1].stop()
        members[2].stop()
        says_that_it_is_alone(members[0])


def at_last(outcome: Callable[[], Outcome | None]) -> Outcome:
    """If it was the leader that hangs, another has to be elected first."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < deadline
        with suppress(CoordinationError):
            found = outcome()
            if found:
                return found


def says_that_it_is_alone(server: Etcd) -> None:
    """Instead of letting itself be watched, and never telling of what others agree on."""
    lonely = EtcdCoordinator([server.member], patience_s=1.0)
    deadline = time.monotonic() + PATIENCE_S
    with pytest.raises(CoordinationError, match="no leader"):
        while time.monotonic() < deadline:
            lonely.wait("k", 1 << 40, SHORT_S)
