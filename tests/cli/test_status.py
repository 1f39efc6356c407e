"""`epicast status` and `epicast streams`."""

import json
from pathlib import Path

import pytest

from epicast.geo.local import LocalGeoplex
from tests.cli.conftest import Epicast
from tests.geo.support import eventually, make_geoplex

EXAMPLE = Path(__file__).parents[2] / "examples" / "geoplex.toml"


def test_status_for_machines(epicast: Epicast, local: LocalGeoplex) -> None:
    epicast("publish", "prices", "--key", "k", "--level", "regions=2", stdin=b"1\n2\n3\n4\n")
    done = epicast("status", "--json")
    document = json.loads(done.out)
    assert done.status == 0 and document["geoplex"] == "embedded" and document["silent"] == {}
    assert list(document["regions"]) == ["us", "eu", "ap"]
    assert {r["pid"] for r in document["regions"].values()} == set(local.processes.values())
    for region in document["regions"].values():
        prices = next(each for each in region["streams"] if each["name"] == "prices")
        assert prices["head"] >= 4 and prices["owner"] == "eu"
        assert 0 < prices["gc_saving"] < 1
        assert region["proxies"] == 2
    only = json.loads(epicast("status", "--only", "--json").out)
    assert list(only["regions"]) == ["us"]


def test_status_for_people(epicast: Epicast) -> None:
    done = epicast("status")
    assert done.status == 0
    for word in ("invalidations", "prices", "audit", "us", "eu", "ap", "cursors"):
        assert word in done.out


def test_a_region_that_does_not_answer_is_named(epicast: Epicast) -> None:
    with LocalGeoplex(make_geoplex(("us", "eu"))) as local:
        local.kill("eu")
        done = epicast("status", "--from", local.address("us"), "--json")
        assert done.status == 1
        assert "eu: 127.0.0.1" in done.error_line and "cannot be reached" in done.error_line
        document = json.loads(done.out)
        assert list(document["regions"]) == ["us"] and "eu" in document["silent"]


def test_alarms_decide_the_exit_status(epicast: Epicast) -> None:
    def no_alarms() -> bool:
        done = epicast("status", "--check")
        return done.status == 0 and "no alarms in us, eu, ap" in done.out

    eventually(no_alarms, "a proxy that was busy starting may be late")
    assert json.loads(epicast("status", "--json").out)["alarms"] == []
    with LocalGeoplex(make_geoplex(("us", "eu"))) as local:
        local.kill("eu")
        done = epicast("status", "--check", "--from", local.address("us"))
        assert done.status == 1
        assert "ALARM, epicast status: the proxy of eu does not answer: " in done.out


def test_nobody_there(epicast: Epicast) -> None:
    done = epicast("status", "--from", "127.0.0.1:9")
    assert done.status == 2 and "127.0.0.1:9 cannot be reached" in done.error_line


def test_streams_of_a_running_geoplex(epicast: Epicast) -> None:
    names = [each["name"] for each in json.loads(epicast("streams", "--json").out)]
    assert names == ["audit", "invalidations", "prices"]
    text = epicast("streams").out
    assert "all but the latest per key" in text and "nothing by itself" in text


def test_streams_of_a_file(epicast: Epicast, tmp_path: Path) -> None:
    found = {each["name"]: each for each in json.loads(epicast("streams", EXAMPLE, "--json").out)}
    assert found["clicks"]["last_n"] == 1_000_000 and found["clicks"]["region"] == "eu"
    assert found["prices"]["max_key_bytes"] == 64
    assert "all but the last 1000000, after 24h" in epicast("streams", EXAMPLE).out
    done = epicast("streams", tmp_path / "nowhere.toml")
    assert done.status == 2 and "nowhere.toml: cannot be read" in done.error_line


@pytest.mark.parametrize("command", ["up", "proxy", "agent", "publish", "subscribe", "status"])
def test_help_teaches(epicast: Epicast, command: str) -> None:
    done = epicast(command, "--help")
    assert done.status == 0 and "--json" in done.out and len(done.out.splitlines()) > 10
