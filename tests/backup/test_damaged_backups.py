"""Damaged backups are refused and made whole, and restoring overwrites nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from epicast.backup import (
    BackupDamaged,
    BackupError,
    RestoreRefused,
    load_manifest,
    restore_stream,
    verify,
)
from epicast.deployment import Geoplex
from epicast.runtime import run
from tests.backup.support import (
    PUBLISHER,
    back_up,
    connected,
    contents,
    make_geoplex,
    open_history,
    publish,
    running,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Geoplex, Path]:
    """A backup of two streams."""
    folder = tmp_path_factory.mktemp("made")
    geoplex = make_geoplex(folder)

    async def scenario() -> None:
        async with running(geoplex), connected(geoplex, publisher=PUBLISHER) as node:
            await publish(node, "orders", 1, 100)
            await publish(node, "prices", 1, 100, keys=10)
            await back_up(geoplex, folder / "backup")

    run(scenario())
    return geoplex, folder / "backup"


def segment_of(backup: Path, name: str) -> Path:
    entry = load_manifest(backup).streams[name]
    return backup / entry.folder / entry.files[0].name


def flip_a_byte(backup: Path) -> None:
    path = segment_of(backup, "orders")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_a_file(backup: Path) -> None:
    path = segment_of(backup, "orders")
    path.write_bytes(path.read_bytes()[:-1])


def lose_a_file(backup: Path) -> None:
    segment_of(backup, "orders").unlink()


def swap_files(backup: Path) -> None:
    shutil.copyfile(segment_of(backup, "prices"), segment_of(backup, "orders"))


def change_the_manifest(backup: Path) -> None:
    path = backup / "manifest.json"
    path.write_text(path.read_text().replace('"end": 100', '"end": 101'))


def cut_the_manifest(backup: Path) -> None:
    path = backup / "manifest.json"
    path.write_text(path.read_text()[:-20])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (flip_a_byte, r"\.seg is damaged: its checksum is wrong"),
        (cut_a_file, r"\.seg is cut off: 1 of \d+ bytes are missing"),
        (lose_a_file, r"\.seg is missing"),
        (swap_files, r"\.seg is (damaged|cut off)"),
        (change_the_manifest, r"manifest.json is damaged: its checksum"),
        (cut_the_manifest, r"manifest.json is damaged"),
    ],
)
def test_a_damaged_backup_is_refused(
    made: tuple[Geoplex, Path], tmp_path: Path, damage: object, said: str
) -> None:
    geoplex, original = made
    backup = tmp_path / "backup"
    shutil.copytree(original, backup)
    entry = verify(backup).streams["orders"]
    assert callable(damage)
    damage(backup)
    with pytest.raises(BackupDamaged, match=said):
        verify(backup)
    data = tmp_path / "data"
    if "manifest" not in said:
        with pytest.raises(BackupDamaged, match=said):
            restore_stream(backup, "orders", entry, geoplex, data, raise_epoch=True)
        assert not list((data / "streams").iterdir()), "nothing half restored"


def test_damage_that_checksums_agree_with_is_found_when_it_is_opened(
    made: tuple[Geoplex, Path], tmp_path: Path
) -> None:
    """A manifest made of a damaged file would be a mistake of ours; it must not go unnoticed."""
    from msgspec.structs import replace

    from epicast.backup.files import entry_of

    geoplex, original = made
    backup = tmp_path / "backup"
    shutil.copytree(original, backup)
    flip_a_byte(backup)
    entry = load_manifest(backup).streams["orders"]
    entry = replace(entry, files=[entry_of(segment_of(backup, "orders"))])
    with pytest.raises(BackupDamaged, match="not what its manifest says"):
        restore_stream(backup, "orders", entry, geoplex, tmp_path / "data", raise_epoch=True)


def test_a_damaged_backup_is_made_whole_by_the_next_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        geoplex, backup = make_geoplex(tmp_path), tmp_path / "backup"
        async with running(geoplex), connected(geoplex) as node:
            await publish(node, "orders", 1, 100)
            await back_up(geoplex, backup, "orders")
            flip_a_byte(backup)
            found = (await back_up(geoplex, backup, "orders"))["orders"]
        assert found.end == found.live_events == 100
        verify(backup)

    run(scenario())


def test_nothing_is_overwritten(made: tuple[Geoplex, Path], tmp_path: Path) -> None:
    geoplex, backup = made
    entry = verify(backup).streams["orders"]
    restore_stream(backup, "orders", entry, geoplex, tmp_path, raise_epoch=False)
    before = contents(tmp_path)
    with pytest.raises(RestoreRefused, match="holds a history already"):
        restore_stream(backup, "orders", entry, geoplex, tmp_path, raise_epoch=False)
    assert contents(tmp_path) == before
    history = open_history(geoplex, tmp_path / "streams/orders", "orders")
    with pytest.raises(RestoreRefused, match="stop the proxy first"):
        restore_stream(backup, "orders", entry, geoplex, tmp_path, raise_epoch=False)
    history.close()


def test_folders_that_are_something_else(made: tuple[Geoplex, Path], tmp_path: Path) -> None:
    from epicast.backup.writing import BackupFolder

    _, backup = made
    with pytest.raises(BackupError, match="is a backup of the geoplex 'test', not of 'other'"):
        BackupFolder(backup, "other")
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(BackupError, match="holds something else"):
        BackupFolder(tmp_path, "test")
    with pytest.raises(BackupError, match="is no backup"):
        verify(tmp_path)
    with pytest.raises(BackupError, match="no stream 'x'; there are: orders, prices"):
        verify(backup, ["x"])
