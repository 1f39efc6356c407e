"""A real geoplex writes down what happens, and what it writes fits together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import epicast
from epicast.core import EpicastError
from epicast.deployment import Geoplex, parse_geoplex, stream_id
from epicast.evidence import Kind, content_hashes, event_hashes
from epicast.geo.local import LocalGeoplex
from epicast.runtime import run

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
    from epicast.core import EventBatch

    whole = EventBatch.build(1, 1, [b"a", b"bc", b""], keys=[b"k", b"", b"kk"])
    parts = [content_hashes(whole.slice(n, n)) for n in (1, 2, 3)]
    assert np.concatenate(parts).tolist() == content_hashes(whole).tolist()
