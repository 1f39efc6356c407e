"""What is done to disks, on a history and on a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from epicast.experiments.nemesis.disks import corrupt, fill, free, wipe


def make_data(folder: Path) -> dict[Path, bytes]:
    """Two segments and what else there is."""
    files = {
        folder / "streams" / "a" / "00000000000000000001.seg": bytes(range(256)) * 64,
        folder / "streams" / "b" / "00000000000000000001.seg": bytes(range(256)) * 32,
        folder / "streams" / "b" / "00000000000000000009.seg": b"small",
        folder / "replica-2" / "streams" / "a" / "00000000000000000001.seg": b"x" * 10_000,
        folder / "state.json": b"{}",
    }
    for file, content in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return files


def test_a_wiped_disk_is_empty_and_that_of_others_is_not(tmp_path: Path) -> None:
    files = make_data(tmp_path)
    wipe(tmp_path)
    assert [file for file in files if file.exists()] == [
        tmp_path / "replica-2" / "streams" / "a" / "00000000000000000001.seg"
    ]
    wipe(tmp_path / "replica-2")
    assert not list((tmp_path / "replica-2").iterdir())


@pytest.mark.parametrize("seed", range(12))
def test_corruption_changes_one_segment(tmp_path: Path, seed: int) -> None:
    files = make_data(tmp_path)
    said = corrupt(tmp_path, seed)
    changed = [file for file, content in files.items() if file.read_bytes() != content]
    assert len(changed) == 1
    assert str(changed[0].relative_to(tmp_path)) in said
    assert changed[0].parts[-3:-1] in (("streams", "a"), ("streams", "b"))
    assert "replica-2" not in changed[0].parts


def test_the_same_seed_corrupts_the_same(tmp_path: Path) -> None:
    found = []
    for name in ("one", "other"):
        files = make_data(tmp_path / name)
        corrupt(tmp_path / name, 5)
        found.append([file.read_bytes() for file in files])
    assert found[0] == found[1]


def test_nothing_to_corrupt(tmp_path: Path) -> None:
    assert "no segment" in corrupt(tmp_path, 1)


WRITER = """
import sys
file = open(sys.argv[1], "ab", buffering=0)
for line in sys.stdin:
    try:
        done = file.write(bytes(int(line)))
        print("wrote", done, flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""


def test_a_full_disk_takes_nothing_until_it_is_freed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "file")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    with process:
        assert process.stdin is not None and process.stdout is not None

        def write(count: int) -> str:
            process.stdin.write(f"{count}\n")  # type: ignore[union-attr]
            return process.stdout.readline().strip()  # type: ignore[union-attr]

        assert write(1_000_000) == "wrote 1000000"
        fill(process.pid)
        assert write(10) == "File too large"
        free(process.pid)
        assert write(10) == "wrote 10"
        process.stdin.close()
