"""A stream is taken by force: what is said to be lost is lost, until somebody accepts it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from epicast import sync
from epicast.cli import main
from epicast.geo.local import LocalGeoplex
from epicast.geo.moving import MoveImpossible, Situation, survey
from epicast.geo.status import ProxyStatus, StreamStatus
from tests.geo.support import eventually, make_geoplex
from tests.geo.test_moving import ORDERS, read_all


def _proxy(region: str, *, epoch: int, head: int, furthest: tuple[int, int]) -> ProxyStatus:
    stream = StreamStatus(
        name="orders", owner="us", ack="disk", description="", epoch=epoch, head=head, source="",
        furthest=furthest, start=1, live_events=0, collected_events=0, stored_events=0,
        live_bytes=0, stored_bytes=0, segments=0,
    )  # fmt: skip
    return ProxyStatus(
        geoplex="g", region=region, node=1, version="", pid=1, uptime_s=0, resident_bytes=0,
        regions={"us": "", "eu": "", "ap": ""}, streams=[stream], subscriptions=0, attached=0,
        proxies=0, protocol={}, driver={},
    )  # fmt: skip


def _situation(*, there: tuple[int, int], heard: tuple[int, int], elsewhere: int = 0) -> Situation:
    """`there`: epoch and number that `ap` has; `heard`: what it has heard of."""
    proxies = {"ap": _proxy("ap", epoch=there[0], head=there[1], furthest=heard)}
    if elsewhere:
        proxies["eu"] = _proxy("eu", epoch=there[0], head=elsewhere, furthest=(0, 0))
    return survey(proxies, "orders", "ap")


@pytest.mark.parametrize(
    ("there", "heard", "elsewhere", "missing"),
    [
        ((1, 100), (1, 100), 0, 0),
        ((1, 100), (1, 130), 0, 30),  # heard of, and nobody who answers has it
        ((1, 100), (1, 100), 120, 20),
        ((1, 100), (1, 130), 120, 30),
        ((1, 100), (2, 40), 0, 40),  # of a later epoch nothing is there
    ],
)
def test_what_is_known_to_be_lost(
    there: tuple[int, int], heard: tuple[int, int], elsewhere: int, missing: int
) -> None:
    situation = _situation(there=there, heard=heard, elsewhere=elsewhere)
    assert situation.missing == missing
    assert (situation.owner, situation.owner_answers) == ("us", False)
    assert situation.best == ("eu" if elsewhere > there[1] else "ap")


def test_streams_and_regions_that_there_are_not() -> None:
    proxies = {"ap": _proxy("ap", epoch=1, head=1, furthest=(1, 1))}
    with pytest.raises(MoveImpossible, match="there are orders"):
        survey(proxies, "prices", "ap")
    with pytest.raises(MoveImpossible, match="there are ap, eu, us"):
        survey(proxies, "orders", "mars")


def test_a_loss_is_an_alarm_until_it_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ap` was away while 50 events were published, and takes the stream from what it has."""
    with LocalGeoplex(make_geoplex(("us", "eu", "ap"), tmp_path, ORDERS)) as local:

        def publish(count: int, *readers: str) -> None:
            with sync.connect(local.address("us"), agent=False) as node:
                node.stream("orders").publish_many([b"%d" % number for number in range(count)])
            head = local.status()["us"].streams[0].head
            eventually(lambda: all(local.status()[r].streams[0].head == head for r in readers))

        def lost() -> list[tuple[str, int]]:
            found = local.status()
            return [
                (region, alarm.behind)
                for region in found
                for alarm in found[region].alarms
                if alarm.kind == "lost"
            ]

        publish(100, "eu", "ap")
        local.kill("ap")
        publish(50, "eu")
        eu = local.processes["eu"]
        os.kill(eu, signal.SIGSTOP)
        try:
            local.kill("us")
            local.start("ap")
            at_ap = ["--from", local.address("ap"), "--json"]
            move = ["stream", "move", "orders", "--to", "ap", "--force", "--yes", *at_ap]
            assert main(move) == 0
        finally:
            os.kill(eu, signal.SIGCONT)
        taken = json.loads(capsys.readouterr().out)
        assert (taken["forced"], taken["behind"]) == (True, 100)
        eventually(lambda: lost() == [("eu", 50)])
        assert read_all(local.address("eu"), 100) == [b"%d" % number for number in range(100)]

        accept = ["stream", "accept-loss", "orders", *at_ap]
        assert main(accept) == 1  # `us` does not answer
        assert set(json.loads(capsys.readouterr().out)["accepted_in"]) == {"eu", "ap"}
        eventually(lambda: lost() == [])
        local.kill("eu")
        local.start("eu")
        assert lost() == []
