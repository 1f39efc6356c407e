"""How a proxy's process asks the service for its replica: whatever that says, it goes on asking."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import pytest

from epicast.core import AnyMessage
from epicast.geo.coordinating import Coordination
from epicast.protocols.coordination import Put, PutAnswer, View, Watch
from tests.coordination.imposters import Imposter, etcd_like, http

PATIENCE_S = 30.0
KEY = "chains/us"
PAGE = http(b"<html>502 Bad Gateway</html>\n", 502)
UNPROMISED = {"page": PAGE, "nothing": http(b"{}"), "list": http(b"[]\n"), "no HTTP": b"what?"}


class Replica:
    """Notes what it hears."""

    def __init__(self, address: str) -> None:
        self.heard: list[AnyMessage] = []
        self.service = Coordination(address, self.heard.append)

    def hears(self, kind: type[AnyMessage], count: int = 1) -> None:
        eventually(lambda: sum(isinstance(one, kind) for one in self.heard) >= count)


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def etcd() -> Iterator[Imposter]:
    with Imposter(etcd_like) as one:
        yield one


@pytest.fixture
def replica(etcd: Imposter, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replica]:
    monkeypatch.setattr("epicast.geo.coordinating._PAUSE_S", 0.02)
    one = Replica(f"etcd://{etcd.member}")
    one.service.start()
    yield one
    one.service.stop()


@pytest.mark.parametrize("unpromised", UNPROMISED)
def test_watching_goes_on_after_any_answer(
    etcd: Imposter, replica: Replica, unpromised: str
) -> None:
    said = UNPROMISED[unpromised]
    etcd.says = lambda method: said if method == "watch" else etcd_like(method)
    replica.service.send(Watch(KEY))
    replica.hears(View)  # as it has asked
    etcd.is_asked("watch", 3)
    etcd.says = etcd_like
    replica.hears(View, 2)  # without having asked


@pytest.mark.parametrize("unpromised", UNPROMISED)
def test_asking_goes_on_after_any_answer(etcd: Imposter, replica: Replica, unpromised: str) -> None:
    etcd.says = lambda _: UNPROMISED[unpromised]
    replica.service.send(Watch(KEY))
    replica.service.send(Put(1, KEY, b"", 0))
    eventually(lambda: etcd.asked == ["kv/range", "kv/txn"])
    etcd.says = etcd_like
    replica.service.send(Put(2, KEY, b"", 0))
    replica.hears(PutAnswer)
    assert replica.heard == [PutAnswer(2, KEY, 5)]


def test_a_watch_that_never_works_is_complained_of_once(
    etcd: Imposter, replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    """Although everything else works in between."""
    caplog.set_level(logging.WARNING, "epicast.geo")
    etcd.says = lambda method: PAGE if method == "watch" else etcd_like(method)
    for count in range(1, 6):
        replica.service.send(Watch(KEY))
        replica.hears(View, count)
        etcd.is_asked("watch", 2)
    [complaint] = caplog.messages
    assert f"etcd://{etcd.member}: no member of etcd answers as it should" in complaint
    assert "502 Bad Gateway" in complaint


def test_who_tells_of_nothing_over_and_over_is_not_asked_without_a_pause(
    etcd: Imposter, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epicast.geo.coordinating._PAUSE_S", 60.0)
    replica.service.send(Watch(KEY))
    replica.hears(View, 2)
    eventually(lambda: etcd.asked.count("watch") == 2)  # of which the second tells nothing new
    time.sleep(0.2)
    assert etcd.asked.count("watch") == 2
