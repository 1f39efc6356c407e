"""What a real geoplex wrote down, audited: nothing is wrong, until somebody makes it so."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.numpy_audit import audit_in_memory
from epicast import sync
from epicast.geo.local import LocalGeoplex
from epicast.runtime import run
from tests.geo.support import eventually
from tests.geo.test_chains import REPLICAS, chained, is_whole, replica_at
from tests.geo.test_evidence import geoplex, use


def test_a_real_geoplex(tmp_path: Path) -> None:
    with LocalGeoplex(geoplex(tmp_path), any_ports=True) as local:
        run(use(local.address("us"), local.address("eu"), tmp_path))
    evidence = tmp_path / "evidence"
    result = audit_in_memory(evidence)
    assert result.violations == {}
    assert result.holds
    assert result.is_complete
    counts = result.totals.counts
    assert counts.acked == result.events == 356
    # Two applications follow the prices.
    assert counts.owed == 2 * 355
    assert counts.tombstoned > 0
    assert {line.stream for line in result.subscribers} == {"prices"}

    [owner] = evidence.glob("owner-us-*")
    shutil.rmtree(owner)
    result = audit_in_memory(evidence)
    assert result.ownerless == ["prices"]
    assert result.totals.counts.unjudged == 2 * 355 + 355
    assert not result.holds


EVIDENCE = """
[streams.prices]
owner = "us"
ack = "disk"
latest_per_key = true
[evidence]
folder = "evidence"
"""
KEYS = [b"key %d" % number for number in range(40)]


class Users:
    """An application in each region that publishes, and one that follows, whatever happens."""

    def __init__(self, local: LocalGeoplex, evidence: Path) -> None:
        self.acknowledged = 0
        self._evidence = evidence
        self._errors: list[BaseException] = []
        self._over, self._end = threading.Event(), 0
        self._lock = threading.Lock()
        addresses = [local.address("us"), local.address("eu")]
        self._publishers, self._followers = (
            [threading.Thread(target=self._guarded, args=(work, each)) for each in addresses]
            for work in (self._publish, self._follow)
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """In the end everybody has got everything."""
        for thread in (*self._followers, *self._publishers):
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in (*self._publishers, *self._followers):
                thread.join()
        assert not self._errors

    def go_on(self, count: int = 500) -> None:
        due = self.acknowledged + count
        eventually(lambda: self.acknowledged >= due or self._errors)
        assert not self._errors

    def _guarded(self, work: Callable[[Any], None], address: str) -> None:
        try:
            with sync.connect(address, agent=False, timeout=60.0, evidence=self._evidence) as node:
                work(node.stream("prices"))
        except BaseException as error:  # told in the main thread
            self._errors.append(error)

    def _publish(self, prices: Any) -> None:
        while not self._over.is_set():
            last = prices.publish_many(KEYS, KEYS)
            with self._lock:
                self._end = max(self._end, last)
                self.acknowledged += len(KEYS)

    def _follow(self, prices: Any) -> None:
        with prices.subscribe(after=0) as subscription:
            while not self._errors:
                published = not any(thread.is_alive() for thread in self._publishers)
                if published and subscription.watermark.seq >= self._end:
                    return
                subscription.pull(timeout=0.2)


def test_a_chain_whose_replicas_are_killed(tmp_path: Path) -> None:
    """The head under load, and then all of them at once."""
    evidence = tmp_path / "evidence"
    with LocalGeoplex(chained(tmp_path, more=EVIDENCE)) as local:
        eventually(lambda: is_whole(local))
        users = Users(local, evidence)
        with users.running():
            users.go_on()
            victim = replica_at(local, 0)
            local.kill(victim)
            users.go_on()
            local.start(victim)
            eventually(lambda: is_whole(local))
            users.go_on()
            for name in REPLICAS:
                local.kill(name)
            for name in REPLICAS:
                local.start(name)
            users.go_on()
    result = audit_in_memory(evidence)
    assert result.violations == {}
    assert len(result.truncated) == 4
    assert all(log.covered for log in result.truncated)
    assert result.holds
    counts = result.totals.counts
    assert counts.acked == result.events == users.acknowledged
    assert counts.owed == 2 * users.acknowledged == counts.delivered + counts.tombstoned
