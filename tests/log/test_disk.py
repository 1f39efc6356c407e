"""The real directory, and what only a real one can do wrong."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from epicast.core import Buffer, EventBatch
from epicast.log import DirectoryBusy, DiskDirectory, History, LogConfig, WrongStream
from tests.log.stores import SMALL
from tests.log.streams import everything


def test_a_directory_is_used_by_one_history_at_a_time(tmp_path: Path) -> None:
    history = History(DiskDirectory(tmp_path), 7)
    with pytest.raises(DirectoryBusy, match="another process"):
        DiskDirectory(tmp_path)
    history.close()
    History(DiskDirectory(tmp_path), 7).close()


def test_a_directory_belongs_to_one_stream(tmp_path: Path) -> None:
    History(DiskDirectory(tmp_path), 7).close()
    with pytest.raises(WrongStream, match="stream 7, not 8"):
        History(DiskDirectory(tmp_path), 8)


def test_files_are_named_by_their_first_number(tmp_path: Path) -> None:
    history = History(DiskDirectory(tmp_path), 7, config=SMALL)
    for seq in range(1, 101):
        history.append(EventBatch.build(7, seq, [b"x" * 20]))
    names = sorted(path.name for path in tmp_path.glob("*.seg"))
    assert names[0] == "00000000000000000001.seg"
    firsts = [int(name.removesuffix(".seg")) for name in names]
    assert len(firsts) > 2
    assert all(history.read(first, 100)[0].first == first for first in firsts)
    assert all(path.stat().st_size <= SMALL.segment_bytes for path in tmp_path.glob("*.seg"))
    history.close()


def test_writes_that_come_back_early_are_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwritev

    def reluctant(descriptor: int, buffers: Sequence[Buffer], at: int) -> int:
        return real(descriptor, [bytes(buffers[0])[:11]], at)

    monkeypatch.setattr(os, "pwritev", reluctant)
    history = History(DiskDirectory(tmp_path), 7)
    batches = [EventBatch.build(7, seq, [b"payload"]) for seq in range(1, 5)]
    history.append_many(batches)
    history.close()
    history = History(DiskDirectory(tmp_path), 7)
    assert history.recovery.truncation is None
    assert len(everything(history)) == 4
    history.close()


def test_many_buffers_are_written_in_order(tmp_path: Path) -> None:
    directory = DiskDirectory(tmp_path)
    file = directory.create("file", 0)
    pieces: list[Buffer] = [b"%d," % number for number in range(2000)]
    file.append(pieces)
    assert bytes(file.read(0, 1 << 20)) == b"".join(map(bytes, pieces))
    assert file.size == (tmp_path / "file").stat().st_size
    file.close()
    directory.close()


def test_few_files_are_open_however_many_there_are(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=4096, window_bytes=4096, max_open_files=8, sync="memory")
    history = History(DiskDirectory(tmp_path), 7, config=config)
    for seq in range(1, 1001):
        history.append(EventBatch.build(7, seq, [b"x" * 20]))
    assert len(list(tmp_path.glob("*.seg"))) > 16
    assert len(everything(history)) == 1000
    here = f"{tmp_path}/0"
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    opened = [link for link in links if os.path.exists(link) and here in os.readlink(link)]
    assert len(opened) <= 8
    assert history.sync() == 1000
    history.close()


def test_a_batch_larger_than_a_segment_is_stored_and_read_in_parts(tmp_path: Path) -> None:
    history = History(DiskDirectory(tmp_path), 7, config=SMALL)
    history.append(EventBatch.build(7, 1, [b"small"]))
    big = EventBatch.build(7, 2, [b"%04d" % n * 10 for n in range(2000)])
    history.append(big)
    history.append(EventBatch.build(7, 2002, [b"small"]))
    found = history.read(2, 3000)
    assert sum(batch.wire_size() for batch in found) <= 3000
    assert found[0].payloads() == big.payloads()[: found[0].rows]
    assert len(everything(history, 1, 3000)) == 2002
    history.close()
    history = History(DiskDirectory(tmp_path), 7, config=SMALL)
    assert len(everything(history, 1, 3000)) == 2002
    history.close()
