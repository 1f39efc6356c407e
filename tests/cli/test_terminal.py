"""Text from servers, peers and publishers cannot control the terminal."""

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from epicast.cli import main
from epicast.cli.output import write_lines
from epicast.core.printable import printable
from epicast.deployment import Geoplex, naming, parse_geoplex
from epicast.geo.logs import TextLines
from epicast.geo.proxy import ProxyService
from epicast.runtime.waiting import BackgroundLoop
from tests.geo.support import address_of, geoplex_text

ORDERS = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202e\x00"
"""Sets a terminal's title, clears it, colours and reorders what follows."""


def quoted(text: str) -> str:
    return '"' + "".join(f"\\u{ord(each):04x}" for each in text) + '"'


def rogue(monkeypatch: pytest.MonkeyPatch) -> Geoplex:
    """A server whose names and descriptions hold escape sequences. Only the name of its geoplex is
    plain, since a handshake with any other fails."""
    streams = f"[streams.{quoted('s' + ORDERS)}]\nowner = {quoted('r' + ORDERS)}\n"
    streams += f"description = {quoted('d' + ORDERS)}\n"
    text = geoplex_text(("us",), streams=streams)
    text = text.replace("regions.us", f"regions.{quoted('r' + ORDERS)}")
    with monkeypatch.context() as patched:
        patched.setattr(naming, "_NAME", re.compile(".*", re.DOTALL))
        return parse_geoplex(text, "rogue.toml")


@contextmanager
def running(geoplex: Geoplex) -> Iterator[str]:
    (region,) = geoplex.regions
    loop = BackgroundLoop("rogue")
    service = ProxyService(geoplex, region)
    loop.run(service.start())
    try:
        yield address_of(geoplex, region)
    finally:
        loop.run(service.stop())
        loop.close()


def test_no_command_repeats_a_servers_orders(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    with running(rogue(monkeypatch)) as address:
        for command in (
            ("streams",), ("streams", "--json"), ("status",), ("status", "--json"),
            ("status", "--check"), ("subscribe", "nope"), ("backup", "--all", "--to", "/nowhere/x"),
            ("stream", "accept-loss", "s" + ORDERS),
            ("subscribe", "s" + ORDERS, "--no-follow", "--json"),
        ):  # fmt: skip
            main([*command, "--from", address])
            out, err = capsys.readouterr()
            for line in (out + err).splitlines():
                assert line.isprintable(), (command, line)
            if command == ("streams",):
                for name in "srd":
                    assert name + printable(ORDERS) in out
            if command == ("streams", "--json"):
                assert json.loads(out)[0]["name"] == "s" + ORDERS


class Screen(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_keys_and_values_are_escaped_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    line = b"1\tk\xff\t" + ORDERS.encode() + b"\n"
    for kind, expected in (
        (io.TextIOWrapper, line),
        (Screen, f"1\tk\\xff\t{printable(ORDERS)}\n".encode()),
    ):
        written = io.BytesIO()
        stdout = kind(written)
        monkeypatch.setattr(sys, "stdout", stdout)
        write_lines(line)
        monkeypatch.undo()
        assert written.getvalue() == expected


def test_nor_does_a_log_line_repeat_them() -> None:
    record = logging.makeLogRecord({"msg": "from %s\nand so on", "args": (ORDERS,)})
    assert TextLines("%(message)s").format(record) == f"from {printable(ORDERS)}\nand so on"


def test_what_stands_for_itself_stays() -> None:
    for text in ("plain", "größer, 価格 → ✓", ""):
        assert printable(text) == text
    assert printable("a\tb\nc", keep="\n") == "a\\tb\nc"
    assert printable("\ud800") == "\\ud800"
    assert printable(ORDERS) == "\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\r\\u202e\\x00"
