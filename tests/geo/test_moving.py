"""Streams are moved between real processes: in good order under load, and from one that is dead."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from epicast import Event, Reset, sync
from epicast.cli import main
from epicast.geo.local import LocalGeoplex
from tests.geo.support import eventually, make_geoplex
from tests.geo.test_chains import AT_LEAST, Load, chained, is_whole, read_all

ORDERS = '[streams.orders]\nowner = "us"\nack = "disk"\n'


class Reader:
    """Reads one stream from its beginning, until it is told to stop."""

    def __init__(self, address: str) -> None:
        self.values: list[bytes] = []
        self.resets = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(address,))
        self._thread.start()

    def _work(self, address: str) -> None:
        with (
            sync.connect(address, agent=False, timeout=30.0) as node,
            node.stream("orders").subscribe(after=0) as subscription,
        ):
            while not self._over.is_set():
                for item in subscription.pull(1000, timeout=0.05):
                    if isinstance(item, Reset):
                        self.resets += 1
                        self.values.clear()
                    elif isinstance(item, Event):
                        self.values.append(item.payload)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


def owners(local: LocalGeoplex) -> set[str]:
    return {stream.owner for status in local.status().values() for stream in status.streams}


def test_a_stream_is_handed_over_under_load_and_taken_by_force(tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    geoplex = make_geoplex(("us", "eu", "ap"), tmp_path, ORDERS)
    with LocalGeoplex(geoplex) as local:
        readers = [Reader(local.address(region)) for region in ("us", "eu", "ap")]
        load = Load(local.address("ap"))

        def command(*words: str) -> int:
            return main(["stream", "move", "orders", "--from", local.address("ap"), *words])

        try:
            with load.running():
                load.go_on()
                assert command("--to", "eu", "--json") == 0
                moved = json.loads(capsys.readouterr().out)
                assert (moved["from"], moved["to"], moved["begun"]) == ("us", "eu", True)
                load.go_on()
                eventually(lambda: owners(local) == {"eu"})
                local.kill("us")  # started again, it is told by the file that it owns the stream
                local.start("us")
                load.go_on()
                assert owners(local) == {"eu"}
            expected = [b"%d" % number for number in range(1, load.acknowledged + 1)]
            eventually(lambda: all(reader.values == expected for reader in readers))
            assert [reader.resets for reader in readers] == [0, 0, 0]

            local.kill("eu")
            assert command("--to", "us", "--json") == 1
            refused = json.loads(capsys.readouterr().out)
            assert not refused["moved"] and "eu owns orders and does not answer" in refused["error"]
            assert owners(local) == {"eu"}
            assert command("--to", "us", "--force", "--yes", "--json") == 0
            taken = capsys.readouterr()
            assert json.loads(taken.out)["forced"] and "will be lost" in taken.err
            again = Load(local.address("ap"))
            with again.running():
                again.go_on()
                local.start("eu")
                again.go_on()
            expected += [b"%d" % number for number in range(1, again.acknowledged + 1)]
            eventually(lambda: all(sorted(r.values) == sorted(expected) for r in readers))
            eventually(lambda: owners(local) == {"us"})
            # Who was at eu may have connected again only when eu knew: it gets the same one.
            assert [reader.resets for reader in readers] == [1, 1, 1]
            assert command("--to", "us") == 2 and command("--to", "mars") == 2
        finally:
            for reader in readers:
                reader.stop()


def test_a_chain_gives_a_stream_away_and_gets_it_back(tmp_path: Path) -> None:
    with LocalGeoplex(chained(tmp_path)) as local:
        eventually(lambda: is_whole(local))
        load = Load(local.address("eu"))
        with load.running():
            load.go_on()
            for region in ("eu", "us"):
                command = ["stream", "move", "orders", "--to", region]
                assert main([*command, "--from", local.address("eu")]) == 0
                load.go_on(AT_LEAST)
                eventually(lambda region=region: owners(local) == {region})  # type: ignore[misc]
            for name in ("us/1", "us/2", "us/3"):
                local.kill(name)
                load.go_on()
                local.start(name)
                eventually(lambda: is_whole(local))
        expected = [b"%d" % number for number in range(1, load.acknowledged + 1)]
        for region in ("us", "eu"):
            assert read_all(local.address(region), len(expected)) == expected
