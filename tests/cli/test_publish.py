"""`epicast publish` against a running geoplex."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Epicast


def seqs_and_values(epicast: Epicast, stream: str, after: int) -> list[tuple[str, str]]:
    """Key and value of everything behind a number."""
    done = epicast("subscribe", stream, "--after", after, "--no-follow", "--json")
    items = [json.loads(line) for line in done.out.splitlines()]
    return [(item["key"], item["value"]) for item in items if item["kind"] == "data"]


def head(epicast: Epicast, stream: str) -> int:
    status = json.loads(epicast("status", "--json").out)
    return max(
        found["head"]
        for region in status["regions"].values()
        for found in region["streams"]
        if found["name"] == stream
    )


def test_one_event_prints_its_number(epicast: Epicast) -> None:
    before = head(epicast, "audit")
    done = epicast("publish", "audit", "--key", "who", "--value", "what")
    assert (done.status, int(done.out)) == (0, before + 1)
    assert seqs_and_values(epicast, "audit", before) == [("who", "what")]


def test_lines_of_stdin(epicast: Epicast) -> None:
    before = head(epicast, "audit")
    done = epicast("publish", "audit", "--json", stdin=b"one\n\nthree\nlast without end")
    document = json.loads(done.out)
    assert done.status == 0 and document.pop("seconds") > 0
    assert document == {"stream": "audit", "events": 4, "last": before + 4}
    values = [value for _, value in seqs_and_values(epicast, "audit", before)]
    assert values == ["one", "", "three", "last without end"]


def test_nothing_to_publish_is_no_error(epicast: Epicast) -> None:
    done = epicast("publish", "audit", stdin=b"")
    assert (done.status, done.out) == (0, "")


def test_lines_of_a_file_with_keys(epicast: Epicast, tmp_path: Path) -> None:
    before = head(epicast, "audit")
    file = tmp_path / "lines.txt"
    file.write_bytes(b"a\t1\nb\t2\twith a tab\n")
    assert epicast("publish", "audit", "--keyed", "--file", file).status == 0
    assert seqs_and_values(epicast, "audit", before) == [("a", "1"), ("b", "2\twith a tab")]
    file.write_bytes(b"no tab here\n")
    done = epicast("publish", "audit", "--keyed", "--file", file)
    assert done.status == 2 and "no tab in b'no tab here'" in done.error_line
    done = epicast("publish", "audit", "--file", tmp_path / "nowhere")
    assert done.status == 2 and "cannot be read: No such file" in done.error_line


def test_made_up_events(epicast: Epicast) -> None:
    before = head(epicast, "prices")
    done = epicast("publish", "prices", "--count", 2500, "--keys", 10, "--size", 5)
    assert (done.status, int(done.out)) == (0, before + 2500)
    assert "publishing: 3 of 3 done" in done.err
    found = seqs_and_values(epicast, "prices", before)
    assert {key for key, _ in found} <= {f"key-{number}" for number in range(10)}
    assert {value for _, value in found} == {"xxxxx"}
    done = epicast("publish", "prices", "--count", 3, "--rate", 1000, "--value", "v", "--key", "k")
    assert done.status == 0 and int(done.out) == before + 2503


def test_a_garbage_collection(epicast: Epicast) -> None:
    before = head(epicast, "audit")
    epicast("publish", "audit", "--key", "temporary", stdin=b"1\n2\n")
    done = epicast("publish", "audit", "--collect", "key == 'temporary'")
    assert (done.status, int(done.out)) == (0, before + 3)
    printed = epicast("subscribe", "audit", "--after", before, "--no-follow").out
    assert printed.splitlines() == [
        f"# {before + 1}..{before + 2} collected",
        f'# {before + 3} collects key == "temporary"',
    ]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["nope", "--value", "1"], 2, "there is no stream 'nope'; there are: audit"),
        (["price", "--value", "1"], 2, "did you mean 'prices'?"),
        (["prices", "--value", "1", "--key", "k" * 2000], 1, "INVALID: a key of 2000 bytes"),
        (["prices", "--value", "1", "--level", "regions=9"], 1, "LEVEL: "),
        (["prices", "--collect", "key = 'a'"], 2, "predicate, position 4: expected"),
        (["prices", "--collect", "size < 9"], 1, "INVALID: event 1: predicate"),
        (["prices", "--value", "1", "--to", "127.0.0.1:9"], 2, "no proxy at 127.0.0.1:9"),
        (["prices", "--value", "1", "--to", "http://x"], 2, "looks like epicast://"),
    ],
)
def test_what_is_wrong_is_one_line(
    epicast: Epicast, arguments: list[str], status: int, words: str
) -> None:
    done = epicast("publish", *arguments)
    assert done.status == status
    assert words in done.error_line
    assert not done.out


def test_options_that_contradict_each_other(epicast: Epicast) -> None:
    done = epicast("publish", "prices", "--value", "1", "--collect", "seq < 1")
    assert done.status == 2 and "do not go together" in done.err


def test_more_regions_can_be_waited_for(epicast: Epicast) -> None:
    before = head(epicast, "audit")
    done = epicast("publish", "audit", "--value", "1", "--level", "regions=2")
    assert (done.status, int(done.out)) == (0, before + 1)
