"""A real geoplex writes down what happens, and what it writes fits together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import epicast
from epicast.core import EpicastError, EventBatch, Run
from epicast.deployment import Geoplex, parse_geoplex, stream_id
from epicast.evidence import Kind, content_hashes, event_hashes
from epicast.geo.evidence import ProxyEvidence
from epicast.geo.local import LocalGeoplex
from epicast.log import LogConfig
from epicast.runtime import run
from epicast.runtime.history_storage import HistoryStorage, StreamStore

DOCUMENT = """
name = "watched"
[regions.us]
proxy = "127.0.0.1:1"
data = "{folder}/us"
[regions.eu]
proxy = "127.0.0.1:2"
[streams.prices]
owner = "us"
latest_per_key = true
[streams.news]
owner = "eu"
[evidence]
folder = "{folder}/evidence"
"""


def geoplex(folder: Path) -> Geoplex:
    return parse_geoplex(DOCUMENT.format(folder=folder), "test.toml")


def rows_of(log: Path) -> list[dict[str, Any]]:
    found = []
    for file in sorted(log.iterdir()):
        with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as stream:
            found += stream.read_all().to_pylist()
    assert found[-1]["kind"] == Kind.END
    assert found[-1]["first"] == len(found) - 1
    return found[:-1]


def logs(folder: Path, prefix: str) -> Iterator[list[dict[str, Any]]]:
    for log in sorted((folder / "evidence").glob(f"{prefix}-*")):
        yield rows_of(log)


async def use(address: str, far: str, folder: Path) -> None:
    evidence = folder / "evidence"
    async with (
        epicast.connect(address, agent=False, evidence=evidence) as near_node,
        epicast.connect(far, agent=True, evidence=evidence) as far_node,
    ):
        prices = near_node.stream("prices")
        for number in range(50):
            await prices.publish_many([b"p%d" % number] * 7, [b"key %d" % k for k in range(7)])
            if number == 20:  # what is refused keeps its number, in every log
                with pytest.raises(epicast.PublishRefused):
                    await prices.publish(b"no", level="regions=7")
        await prices.collect('key == "key 3"')
        await far_node.stream("prices").publish_many([b"from afar"] * 3, [b"x"] * 3)
        last = await prices.publish(b"end", b"end")
        for node in (near_node, far_node):
            async for batch in node.stream("prices").subscribe(after=0).batches():
                if getattr(batch, "last", 0) >= last:
                    break
        await far_node.stream("news").publish(b"nothing new")


def test_what_is_written_fits_together(tmp_path: Path) -> None:
    with LocalGeoplex(geoplex(tmp_path), any_ports=True) as local:
        run(use(local.address("us"), local.address("eu"), tmp_path))
    prices = stream_id("prices")

    stored: dict[int, int] = {}
    runs: dict[tuple[int, int], int] = {}
    gc: list[int] = []
    for log in logs(tmp_path, "owner"):
        for row in log:
            if row["stream"] != prices:
                continue
            contents = np.frombuffer(row["contents"], "<u8").tolist()
            seqs = range(row["first"], row["last"] + 1)
            assert len(contents) == len(seqs)
            assert not stored.keys() & set(seqs)
            stored.update(zip(seqs, contents, strict=True))
            seq = row["first"]
            for publisher, first, count in (
                np.frombuffer(row["runs"], "<u8").reshape(-1, 3).tolist()
            ):
                for number in range(first, first + count):
                    assert runs.setdefault((publisher, number), seq) == seq
                    seq += 1
            if row["gc"]:
                gc.append(row["first"])
    assert sorted(stored) == list(range(1, 50 * 7 + 1 + 3 + 1 + 1))
    assert len(gc) == 1

    acked = 0
    for log in logs(tmp_path, "publisher"):
        for row in log:
            if row["stream"] == prices:
                seqs = [runs[row["publisher"], n] for n in range(row["first"], row["last"] + 1)]
                assert row["content"] == sum(stored[seq] for seq in seqs) % 2**64
                assert seqs[-1] <= row["below"]
                assert row["sent"] <= row["acked"]
                acked += len(seqs)
    assert acked == len(stored)

    followed = 0
    for log in logs(tmp_path, "subscriber"):
        mine = [row for row in log if row["stream"] == prices]
        if not mine:
            continue
        followed += 1
        assert (mine[0]["kind"], mine[0]["first"]) == (Kind.OPENED, 1)
        assert (mine[-1]["kind"], mine[-1]["last"]) == (Kind.CLOSED, len(stored))
        expected = 1
        for row in mine[1:-1]:
            if row["kind"] == Kind.RESET:  # the proxy learnt the epoch with the first batch
                assert row["first"] == expected == 1
                continue
            assert row["first"] == expected
            expected = row["last"] + 1
            seqs = np.arange(row["first"], expected, dtype=np.uint64)
            if row["kind"] == Kind.EVENTS:
                contents = np.array([stored[s] for s in seqs.tolist()], np.uint64)
                assert row["digest"] == int(event_hashes(contents, seqs).sum(dtype=np.uint64))
            else:
                assert row["kind"] == Kind.TOMBSTONES
        assert expected == len(stored) + 1
    assert followed == 2
    assert any(
        row["kind"] == Kind.TOMBSTONES for log in logs(tmp_path, "subscriber") for row in log
    )


CHAIN = DOCUMENT.replace('proxy = "127.0.0.1:1"', 'replicas = ["127.0.0.1:1", "127.0.0.1:3"]')
PRICES = stream_id("prices")


class Proxies:
    """The histories of a proxy, and the evidence of one process after the other."""

    def __init__(self, folder: Path, document: str, name: str) -> None:
        self._folder = folder
        self._geoplex = parse_geoplex(document.format(folder=folder), "test.toml")
        self._of = self._geoplex.replica(name)
        stores = {
            stream.id: StreamStore(folder=folder / stream.name, config=LogConfig(sync="disk"))
            for stream in self._geoplex.streams.values()
        }
        self._storage = HistoryStorage(stores)
        run(self._storage.recover())
        self.history = self._storage.history(PRICES)
        self.owns = True

    def start(self) -> ProxyEvidence:
        evidence = ProxyEvidence(self._geoplex, *self._of, lambda _: self.owns)
        evidence.open(self._storage)
        return evidence

    def stored(self, first: int, last: int) -> list[EventBatch]:
        batches = [
            EventBatch.build(PRICES, n, [b"%d" % n], keys=[b"k"], runs=[Run(5, n, 1)])
            for n in range(first, last + 1)
        ]
        self.history.append_many(batches)
        return batches

    def logged(self) -> list[list[tuple[int, int, int]]]:
        """By process: first, last, and the first number of the publisher."""
        found = []
        for log in (self._folder / "evidence").iterdir():
            rows = []
            for file in sorted(file for file in log.iterdir() if file.stat().st_size):
                with pa.OSFile(str(file)) as source:
                    for row in pa.ipc.open_stream(source).read_all().to_pylist():
                        if row["kind"] == Kind.EVENTS:
                            publisher = int(np.frombuffer(row["runs"], "<u8")[1])
                            rows.append((row["first"], row["last"], publisher))
            found.append(rows)
        return sorted(found)


def rows(first: int, last: int) -> list[tuple[int, int, int]]:
    return [(number, number, number) for number in range(first, last + 1)]


def test_a_stream_is_logged_by_whoever_owns_it_at_the_moment(tmp_path: Path) -> None:
    proxies = Proxies(tmp_path, DOCUMENT.replace("latest_per_key = true", 'ack = "disk"'), "us")
    evidence = proxies.start()
    evidence.stored(proxies.stored(1, 2), True)
    proxies.owns = False  # it was moved away, and comes from its new owner
    evidence.stored(proxies.stored(3, 4), True)
    proxies.owns = True
    evidence.stored(proxies.stored(5, 6), True)
    assert proxies.logged() == [rows(1, 2) + rows(5, 6)]


def test_what_was_stored_by_a_process_that_was_killed_is_made_up_for(tmp_path: Path) -> None:
    """On disk, and not logged: nobody can have seen it before."""
    document = DOCUMENT.replace("latest_per_key = true", 'ack = "disk"')
    proxies = Proxies(tmp_path, document, "us")
    proxies.start().stored(proxies.stored(1, 3), True)
    proxies.stored(4, 6)
    proxies.start()
    proxies.start().stored(proxies.stored(7, 7), True)
    assert proxies.logged() == [rows(1, 3), rows(4, 6), rows(7, 7)]


def test_a_replica_logs_what_may_be_shown(tmp_path: Path) -> None:
    proxies = Proxies(tmp_path, CHAIN, "us/2")
    evidence = proxies.start()
    evidence.shown(PRICES, 0, (), True)
    first = proxies.stored(1, 8)
    evidence.shown(PRICES, 3, first[:3], True)
    assert proxies.logged() == [rows(1, 3)]
    # It is killed. The chain starts anew with what it has, and nobody else may have logged it.
    evidence = proxies.start()
    assert proxies.logged() == [[], rows(1, 3)]
    evidence.shown(PRICES, 8, (), True)
    assert proxies.logged() == [rows(1, 3), rows(4, 8)]
    assert len(list((tmp_path / "evidence").glob("owner-us+2-*"))) == 2
    with_gaps = EventBatch.build(
        PRICES, 9, [b"10", b"12"], seqs=[10, 12], last=12, runs=[Run(5, 9, 4)]
    )
    evidence.shown(PRICES, 12, [with_gaps], False)
    assert proxies.logged()[1] == rows(4, 8)
    evidence.keep_up()
    assert proxies.logged()[1][-2:] == rows(10, 10) + rows(12, 12)


def test_a_replica_that_joins_does_not_log_all_it_has_copied(tmp_path: Path) -> None:
    """The others have."""
    proxies = Proxies(tmp_path, CHAIN, "us/2")
    batches = [
        EventBatch.build(PRICES, 1 + number, [bytes(4 << 20)], runs=[Run(5, 1 + number, 1)])
        for number in range(8)
    ]
    evidence = proxies.start()
    evidence.shown(PRICES, 8, batches, True)
    assert proxies.logged() == [rows(5, 8)]
    evidence.shown(PRICES, 9, proxies.stored(1, 9)[8:], True)
    assert proxies.logged() == [rows(5, 9)]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("in the way")
    with (
        pytest.raises(EpicastError, match="no evidence can be written"),
        LocalGeoplex(geoplex(tmp_path), any_ports=True),
    ):
        pass


def test_the_section(tmp_path: Path) -> None:
    text = 'name = "g"\n[regions.us]\nproxy = "127.0.0.1:1"\n'
    assert parse_geoplex(text, "x").evidence is None
    section = parse_geoplex(text + '[evidence]\nfolder = "e"\nfile_size = "1MiB"', "x", "/etc")
    assert section.evidence is not None
    assert (section.evidence.folder, section.evidence.file_size_bytes) == ("/etc/e", 1 << 20)
    for wrong in ('folder = " "', 'folder = "e"\ntotal_size = 0', "file_size = 1"):
        with pytest.raises(EpicastError, match="evidence"):
            parse_geoplex(text + f"[evidence]\n{wrong}", "x")


def test_content_does_not_depend_on_batches() -> None:
    whole = EventBatch.build(1, 1, [b"a", b"bc", b""], keys=[b"k", b"", b"kk"])
    parts = [content_hashes(whole.slice(n, n)) for n in (1, 2, 3)]
    assert np.concatenate(parts).tolist() == content_hashes(whole).tolist()
