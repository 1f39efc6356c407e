"""`epicast plan gossip`."""

import json

import pytest

from epicast.cli import main


def test_a_plan_for_people(capsys):
    assert main(["plan", "gossip", "--nodes", "1000", "--loss", "0.1"]) == 0
    text = capsys.readouterr().out
    for word in ("fanout", "view_size", "max_events", "max_buffer_bytes", "what it buys",
                 "rounds until 99 %"):  # fmt: skip
        assert word in text
    assert "too large for gossip" not in text
    assert main(["plan", "gossip", "--nodes", "100", "--size", "100000"]) == 0
    assert "too large for gossip" in capsys.readouterr().out


def test_a_plan_for_machines(capsys):
    assert main(["plan", "gossip", "--nodes", "200", "--reliability", "0.999", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["reached"] >= 0.999
    assert plan["view_size"] >= plan["fanout"] >= 1
    assert plan["years_to_partition"] is None or plan["years_to_partition"] > 100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nodes", "1"], "nodes: 1 is not between 2 and"),
        (["--nodes", "100", "--loss", "2"], "loss: 2.0 is not in [0, 1)"),
        (["--nodes", "100", "--period", "5"], "expected a duration such as"),
        (["--nodes", "1000000", "--within", "2"], "allow more rounds or ask for less"),
        (["--nodes", "100", "--rate", "nan"], "events_per_s: nan is not a number"),
        (["--nodes", "100", "--rate", "7000"], "a shorter period, fewer rounds"),
        (["--nodes", "100", "--period", "2h"], "period: 7200 s is not between 1 ms and 1 h"),
        (["--nodes", "100", "--within", "0"], "within_rounds: 0 is not between 1 and"),
    ],
)
def test_a_wrong_call_says_what_to_do(arguments, words, capsys):
    assert main(["plan", "gossip", *arguments]) == 2
    assert words in capsys.readouterr().err
