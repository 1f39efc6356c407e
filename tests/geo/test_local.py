"""A geoplex as real processes: killed, restarted, and never left behind."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from epicast import Event, sync
from epicast.core import EpicastError
from epicast.geo.local import LocalGeoplex
from epicast.geo.nursery_process import StartFailed
from tests.geo.support import eventually, is_alive, make_geoplex, parent_of

REGIONS = ("us", "eu", "ap")


def values_everywhere(local: LocalGeoplex, stream: str, count: int) -> dict[str, list[bytes]]:
    """The first so many events of a stream as each region has them."""
    found = {}
    for region in local.geoplex.regions:
        with sync.connect(local.address(region), agent=False) as node:
            events: list[bytes] = []
            with node.stream(stream).subscribe(after=0) as subscription:
                while len(events) < count:
                    for item in subscription.pull(count - len(events)):
                        assert isinstance(item, Event)
                        events.append(item.payload)
            found[region] = events
    return found


def test_nothing_acknowledged_is_lost_when_the_owner_is_killed(tmp_path: Path) -> None:
    acknowledged: list[int] = []

    def publish(address: str, total: int) -> None:
        with sync.connect(address, agent=False) as node:
            orders = node.stream("orders")
            for number in range(total):
                orders.publish(b"%d" % number)
                acknowledged.append(number)

    total = 90
    with LocalGeoplex(make_geoplex(REGIONS, tmp_path)) as local:
        publisher = threading.Thread(target=publish, args=(local.address("eu"), total))
        publisher.start()
        for kills in (1, 2):
            eventually(lambda due=kills * 25: len(acknowledged) >= due)  # type: ignore[misc]
            local.kill("us")
            assert "us" not in local.processes
            local.start("us")
        publisher.join()
        assert len(acknowledged) == total
        expected = [b"%d" % number for number in range(total)]
        for region, values in values_everywhere(local, "orders", total).items():
            assert values == expected, f"{region}: lost, doubled or out of order"
        heads = {region: status.streams[0].head for region, status in local.status().items()}
        assert heads == dict.fromkeys(REGIONS, total)


def test_histories_are_there_when_everything_starts_again(tmp_path: Path) -> None:
    geoplex = make_geoplex(("us", "eu"), tmp_path)
    for attempt in (1, 2):
        with LocalGeoplex(geoplex) as local, sync.connect(local.address("us")) as node:
            assert node.stream("orders").publish(b"value") == attempt
            pids = list(local.processes.values())
        assert not any(map(is_alive, pids))
    with LocalGeoplex(geoplex) as local:
        assert values_everywhere(local, "orders", 2)["eu"] == [b"value", b"value"]


def test_a_damaged_copy_is_cut_and_fetched_again(tmp_path: Path) -> None:
    with LocalGeoplex(make_geoplex(REGIONS, tmp_path)) as local:
        with sync.connect(local.address("us"), agent=False) as node:
            for number in range(50):
                node.stream("orders").publish(b"%d" % number, level="regions=2")
        local.stop("eu")
        (segment,) = [
            path
            for path in (tmp_path / "eu" / "streams" / "orders").iterdir()
            if b"49" in path.read_bytes()
        ]
        content = bytearray(segment.read_bytes())
        content[len(content) // 2] ^= 0xFF
        segment.write_bytes(content)
        local.start("eu")
        expected = [b"%d" % number for number in range(50)]
        for region, values in values_everywhere(local, "orders", 50).items():
            assert values == expected, region


def test_proxies_are_processes_that_come_and_go() -> None:
    with LocalGeoplex() as local:
        assert set(local.processes) == set(REGIONS)
        pids = dict(local.processes)
        assert len({os.getpid(), *pids.values()}) == 4
        local.stop("eu")
        eventually(lambda: not is_alive(pids["eu"]))
        assert set(local.processes) == {"us", "ap"} == set(local.status())
        with pytest.raises(EpicastError, match="does not run"):
            local.kill("eu")
        with pytest.raises(EpicastError, match="runs already"):
            local.start("us")
        local.start("eu")
        assert local.processes["eu"] != pids["eu"]
        os.kill(local.processes["ap"], signal.SIGKILL)
        ended = local.wait_ended(30)
        assert ended is not None and (ended.region, ended.status) == ("ap", -signal.SIGKILL)
    with pytest.raises(EpicastError, match="not running"):
        local.status()


def test_a_proxy_that_cannot_start_says_why_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "eu").write_text("a file where the folder of eu should be")
    with (
        pytest.raises(StartFailed, match=r"eu: .*eu"),
        LocalGeoplex(make_geoplex(REGIONS, tmp_path)),
    ):
        pass
    (tmp_path / "eu").unlink()
    with LocalGeoplex(make_geoplex(REGIONS, tmp_path)) as local:  # no folder is in use any more
        assert len(local.processes) == 3


SCRIPT = """
import sys, time
from epicast.geo.local import LocalGeoplex
local = LocalGeoplex().open()
print(*local.processes.values(), flush=True)
time.sleep(600)
"""


def test_nothing_outlives_who_started_it() -> None:
    script = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True)
    with script:
        assert script.stdout is not None
        pids = list(map(int, script.stdout.readline().split()))
        assert len(pids) == 3
        nursery = parent_of(pids[0])
        script.kill()
    eventually(lambda: not any(map(is_alive, [*pids, nursery])), "processes are left")
