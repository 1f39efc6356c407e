"""A disk that is full: a refusal that says so, and nothing acknowledged is lost."""

from pathlib import Path

import pytest

from epicast import Event, PublishRefused, sync
from epicast.cli import main
from epicast.geo.warming import warm_up
from tests.geo.support import geoplex_text, proxy_process

LIMIT = 256 << 10
VALUE = b"x" * 10_000


def test_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warm_up()  # compiled code is kept in files, too
    file = tmp_path / "geoplex.toml"
    streams = '[streams.orders]\nowner = "us"\nack = "disk"\n'
    file.write_text(geoplex_text(("us",), tmp_path / "data", streams))
    acknowledged = 0
    with proxy_process(file, "us", LIMIT) as address, sync.connect(address, agent=False) as node:
        orders = node.stream("orders")
        with pytest.raises(PublishRefused) as caught:
            for _ in range(2 * LIMIT // len(VALUE)):
                acknowledged = orders.publish(VALUE)
        assert caught.value.code == "STORAGE"
        assert "free" in caught.value.detail.lower(), "it should say what to do"
        assert acknowledged >= LIMIT // len(VALUE) // 2
        assert count_events(address) == acknowledged
        assert main(["publish", "orders", "--value", VALUE.decode(), "--to", address]) == 1
        assert capsys.readouterr().err.startswith("epicast: STORAGE: ")
    with proxy_process(file, "us", None) as address:  # somebody has made room
        assert count_events(address) == acknowledged
        assert main(["publish", "orders", "--value", "again", "--to", address]) == 0
        assert int(capsys.readouterr().out) == acknowledged + 1


def count_events(address: str) -> int:
    with sync.connect(address, agent=False) as node:
        stream = node.stream("orders")
        head = stream.head().seq
        with stream.subscribe(after=0) as subscription:
            seen = 0
            while seen < head:
                item = subscription.get()
                assert isinstance(item, Event) and item.payload == VALUE
                seen += 1
    return seen
