"""Chains of replicas as real processes: killed, stopped and robbed of their disks under load."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from epicast import Event, sync
from epicast.deployment import Geoplex, parse_geoplex
from epicast.geo.local import LocalGeoplex
from epicast.geo.ports import free_ports
from tests.geo.support import QUICK, eventually

REPLICAS = ("us/1", "us/2", "us/3")
AT_LEAST = 150
"""Events published around each thing that happens."""


def chained(data: Path, coordination: str = "", more: str = "") -> Geoplex:
    """`more` goes to the end of the file."""
    ports = free_ports(4)
    addresses = [f"127.0.0.1:{port}" for port in ports[:3]]
    service = f'[coordination]\nservice = "{coordination}"\n' if coordination else ""
    text = f"""
name = "chained"
[regions.us]
replicas = {addresses}
data = "us"
[regions.eu]
proxy = "127.0.0.1:{ports[3]}"
data = "eu"
[streams.orders]
owner = "us"
{service}{QUICK}{more}
"""
    return parse_geoplex(text, "chained.toml", str(data))


class Load:
    """A publisher that goes on whatever happens, and knows what was acknowledged."""

    def __init__(self, address: str) -> None:
        self.acknowledged = 0
        self.error: BaseException | None = None
        self._address = address
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()
        assert self.error is None

    def _work(self) -> None:
        try:
            with sync.connect(self._address, agent=False, timeout=30.0) as node:
                orders = node.stream("orders")
                while not self._over.is_set():
                    orders.publish(b"%d" % (self.acknowledged + 1))
                    self.acknowledged += 1
        except BaseException as error:  # told in the main thread
            self.error = error

    def go_on(self, count: int = AT_LEAST) -> None:
        """Until so many more were acknowledged."""
        due = self.acknowledged + count
        eventually(lambda: self.acknowledged >= due or self.error is not None)
        assert self.error is None


def places(local: LocalGeoplex) -> dict[str, int]:
    """Where in the chain its replicas are, -1 for those that are not."""
    statuses = local.status()
    return {
        name: int(statuses[name].protocol["chain_place"]) for name in REPLICAS if name in statuses
    }


def is_whole(local: LocalGeoplex) -> bool:
    return sorted(places(local).values()) == [0, 1, 2]


def replica_at(local: LocalGeoplex, place: int) -> str:
    return next(name for name, found in places(local).items() if found == place)


def read_all(address: str, count: int) -> list[bytes]:
    with sync.connect(address, agent=False, timeout=30.0) as node:
        values: list[bytes] = []
        with node.stream("orders").subscribe(after=0) as subscription:
            while len(values) < count:
                for item in subscription.pull(count - len(values)):
                    assert isinstance(item, Event), item
                    values.append(item.payload)
    return values


def check(local: LocalGeoplex, load: Load) -> None:
    """Everything that was acknowledged is everywhere, once and in order."""
    expected = [b"%d" % number for number in range(1, load.acknowledged + 1)]
    assert load.acknowledged
    for name in REPLICAS:
        address = local.geoplex.replica(name)[1].address
        assert read_all(f"epicast://{address}", len(expected)) == expected, name
    assert read_all(local.address("eu"), len(expected)) == expected


@pytest.mark.parametrize("publisher_at", ["us", "eu"])
def test_replicas_are_killed_in_turn_under_load(tmp_path: Path, publisher_at: str) -> None:
    with LocalGeoplex(chained(tmp_path)) as local:
        eventually(lambda: is_whole(local))
        load = Load(local.address(publisher_at))
        with load.running():
            load.go_on()
            for place in (0, 1, 2):
                victim = replica_at(local, place)
                local.kill(victim)
                load.go_on()
                with sync.connect(local.address("us"), agent=False, timeout=30.0) as node:
                    assert node.region == "us"  # whichever of its replicas is there
                local.start(victim)
                eventually(lambda: is_whole(local))
                load.go_on()
        check(local, load)


def test_a_head_that_was_asleep_is_not_the_head_any_more(tmp_path: Path) -> None:
    with LocalGeoplex(chained(tmp_path)) as local:
        eventually(lambda: is_whole(local))
        head = replica_at(local, 0)
        pid = local.processes[head]
        load = Load(local.address("us"))
        with load.running():
            load.go_on()
            os.kill(pid, signal.SIGSTOP)
            try:
                load.go_on()
            finally:
                os.kill(pid, signal.SIGCONT)
            load.go_on()
            eventually(lambda: is_whole(local))
            assert replica_at(local, 0) != head
            load.go_on()
        check(local, load)


def test_a_replica_without_its_disk_gets_everything_anew(tmp_path: Path) -> None:
    with LocalGeoplex(chained(tmp_path)) as local:
        eventually(lambda: is_whole(local))
        load = Load(local.address("eu"))
        with load.running():
            load.go_on()
            victim = replica_at(local, 0)
            local.kill(victim)
            _, replica = local.geoplex.replica(victim)
            assert replica.data is not None
            for folder in ("streams", "state"):
                shutil.rmtree(Path(replica.data) / folder, ignore_errors=True)
            for file in Path(replica.data).glob("*"):
                if file.is_file():
                    file.unlink()
            local.start(victim)
            eventually(lambda: is_whole(local))
            load.go_on()
        check(local, load)


def test_all_replicas_are_killed_and_started_again(tmp_path: Path) -> None:
    with LocalGeoplex(chained(tmp_path)) as local:
        eventually(lambda: is_whole(local))
        load = Load(local.address("eu"))
        with load.running():
            load.go_on()
            for name in REPLICAS:
                local.kill(name)
            for name in REPLICAS:
                local.start(name)
            eventually(lambda: is_whole(local))
            load.go_on()
        check(local, load)


@pytest.mark.parametrize("all_but_one", [False, True])
def test_all_are_started_again_and_a_bit_has_flipped(tmp_path: Path, all_but_one: bool) -> None:
    """A damaged head, or all damaged but the tail, must not make the others forget events."""
    with LocalGeoplex(chained(tmp_path)) as local:
        eventually(lambda: is_whole(local))
        load = Load(local.address("us"))
        with load.running():
            load.go_on()
        damaged = [replica_at(local, place) for place in range(2 if all_but_one else 1)]
        for name in REPLICAS:
            local.kill(name)
        for name in damaged:
            data = local.geoplex.replica(name)[1].data
            assert data is not None
            segment = min((Path(data) / "streams" / "orders").glob("*.seg"))
            content = bytearray(segment.read_bytes())
            content[len(content) // 4] ^= 1
            segment.write_bytes(content)
        for name in REPLICAS:
            local.start(name)
        eventually(lambda: is_whole(local))
        check(local, load)


def alarms(local: LocalGeoplex, asked: str) -> dict[str, str]:
    """What is said there: texts by kind."""
    return {alarm.kind: alarm.text for alarm in local.status()[asked].alarms}


def test_a_coordination_service_that_is_down_stops_nobody_else(tmp_path: Path) -> None:
    """The replicas wait for it and say so; the other region serves its own streams meanwhile."""
    [port] = free_ports(1)
    more = 'alarm_after = "300ms"\n[streams.prices]\nowner = "eu"\n'
    with LocalGeoplex(chained(tmp_path, f"etcd://127.0.0.1:{port}", more)) as local:
        assert places(local) == dict.fromkeys(REPLICAS, -1)
        with sync.connect(local.address("eu"), agent=False) as node:
            node.stream("prices").publish(b"42")
            with node.stream("prices").subscribe(after=0) as subscription:
                [event] = subscription.pull(1)
        assert isinstance(event, Event) and event.payload == b"42"
        eventually(lambda: {"coordination", "outside"} <= alarms(local, "us/1").keys())
        assert "coordination service does not answer" in alarms(local, "us/1")["coordination"]


def test_a_replica_that_is_gone_is_named(tmp_path: Path) -> None:
    with LocalGeoplex(chained(tmp_path, more='alarm_after = "300ms"\n')) as local:
        eventually(lambda: is_whole(local))
        local.kill("us/2")
        eventually(lambda: "replica" in alarms(local, "us/1"))
        assert "replica us/2 is not heard of" in alarms(local, "us/1")["replica"]
        assert "coordination" not in alarms(local, "us/1")
