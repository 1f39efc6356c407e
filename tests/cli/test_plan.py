"""`epicast plan gossip`."""

import json

import pytest

from epicast.cli import main


def test_a_plan_for_people(capsys):
    assert main(["plan", "gossip", "--nodes", "1000", "--loss", "0.1"]) == 0
    text = capsys.readouterr().out
    for word in ("fanout", "view_size", "max_events", "what it buys", "rounds until 99 %"):
        assert word in text


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
    ],
)
def test_a_wrong_call_says_what_to_do(arguments, words, capsys):
    assert main(["plan", "gossip", *arguments]) == 2
    assert words in capsys.readouterr().err
