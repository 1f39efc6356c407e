"""Names from servers, manifests and archives: whatever they are, nothing outside changes."""

import asyncio
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from epicast.backup import (
    BackupError,
    Manifest,
    NameRefused,
    backup_running,
    load_manifest,
    restore_stream,
    verify,
)
from epicast.backup.manifest import FileEntry, StreamEntry, save_manifest
from epicast.backup.paths import path_inside, stream_name
from epicast.backup.writing import BackupFolder
from epicast.deployment import Geoplex, naming, parse_geoplex
from tests.backup.support import back_up, connected, make_geoplex, publish, running
from tests.geo.support import geoplex_text

BAD_NAMES = [
    "..", ".", "", "/", "a/b", "../victim", "../../victim", "{around}/victim", "a/../../victim",
    "..\\victim", "victim\0.txt", "a\nb", "\x1b]0;owned\x07", "\x9b31m", "a" * 10_000,
    "\u202evictim", "~", "-rf", ".hidden",
]  # fmt: skip


def tree(folder: Path) -> dict[str, bytes | str]:
    """Everything below a folder."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"to {path.readlink()}"
        else:
            found[name] = path.read_bytes() if path.is_file() else "folder"
    return found


@pytest.fixture
def around(tmp_path: Path) -> Path:
    """Files around the backup's folder, which no command may change."""
    outside = tmp_path / "outside"
    (outside / "victim" / "0001").mkdir(parents=True)
    (outside / "victim" / "0001" / "precious").write_text("mine")
    (outside / "inside").mkdir()
    return outside


def rogue(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Geoplex:
    """A server with a stream that has a name no honest one has."""
    quoted = "".join(f"\\u{ord(each):04x}" for each in name)
    text = geoplex_text(("us",), streams=f'[streams."{quoted}"]\nowner = "us"\n')
    with monkeypatch.context() as patched:
        patched.setattr(naming, "_NAME", re.compile(".*", re.DOTALL))
        patched.setattr(naming, "MAX_NAME_LENGTH", 1 << 20)
        return parse_geoplex(text, "rogue.toml")


@pytest.mark.parametrize("name", ["../../victim", "a\n\x1b[2J", "n" * 10_000, "{around}/victim"])
def test_a_server_cannot_name_a_folder_elsewhere(
    name: str, tmp_path: Path, around: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = name.replace("{around}", str(around))
    geoplex = rogue(tmp_path, name, monkeypatch)

    async def main() -> None:
        async with running(geoplex), connected(geoplex) as node:
            (found,) = [info.name for info in node.streams()]
            assert found == name
            await publish(node, name, 1, 3)
            before = tree(around)
            with pytest.raises(NameRefused, match="a stream is called") as refused:
                await backup_running(node, [name], around / "inside" / "backup", "test")
            assert str(refused.value).isprintable()
            assert len(str(refused.value)) < 500
            (around / "inside" / "backup").rmdir()
            assert tree(around) == before

    asyncio.run(main())


@pytest.mark.parametrize("name", BAD_NAMES)
def test_what_is_no_plain_name_is_refused(name: str, tmp_path: Path) -> None:
    name = name.replace("{around}", str(tmp_path))
    with pytest.raises(NameRefused) as refused:
        path_inside(tmp_path, "streams", name)
    assert str(refused.value).isprintable()
    with pytest.raises(NameRefused):
        stream_name(name)


PAYLOAD = b"ssh-rsa AAAA"
FILE = FileEntry(
    name="00000000000000000001.seg", size=len(PAYLOAD), sha256=hashlib.sha256(PAYLOAD).hexdigest()
)


def manifest(stream: str, folder: str, file: str, geoplex: Geoplex) -> Manifest:
    values: dict[str, Any] = {
        "id": geoplex.stream("orders").id, "owner": "us", "latest_per_key": False, "last_n": None,
        "max_age_ns": None, "epoch": 1, "start": 1, "end": 0, "live_events": 0, "publishers": 0,
        "source": "", "taken_at": "",
    }  # fmt: skip
    entry = StreamEntry(
        folder=folder,
        files=[FileEntry(name=file, size=FILE.size, sha256=FILE.sha256)],
        **values,
    )
    return Manifest(geoplex=geoplex.name, streams={stream: entry})


@pytest.mark.parametrize("field", ["stream", "folder", "file"])
@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_manifest_cannot_name_anything_elsewhere(
    field: str, name: str, tmp_path: Path, around: Path
) -> None:
    """The manifest's checksums are right; they do not prove who made it."""
    name = name.replace("{around}", str(around))
    geoplex = make_geoplex(tmp_path)
    folder, data = around / "inside" / "backup", around / "inside" / "data"
    names = {"stream": "orders", "folder": "streams/orders/0001", "file": FILE.name, field: name}
    if field == "folder" and name == "a/b":
        name = names["folder"] = "a//b"
    (folder / "streams" / "orders" / "0001").mkdir(parents=True)
    for source in (names["file"], FILE.name):
        try:
            path = folder / names["folder"] / source
            path.resolve().relative_to(tmp_path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(PAYLOAD)
        except (OSError, ValueError):
            continue
    made = manifest(names["stream"], names["folder"], names["file"], geoplex)
    save_manifest(folder, made)
    before = tree(tmp_path)
    for read in (load_manifest, verify, lambda path: BackupFolder(path, geoplex.name)):
        with pytest.raises(NameRefused) as refused:
            read(folder)
        assert str(refused.value).isprintable()
    if field != "stream":
        with pytest.raises(BackupError):
            restore_stream(
                folder, "orders", made.streams["orders"], geoplex, data, raise_epoch=False
            )
        for kept in (data / "streams", data):
            if kept.exists():
                kept.rmdir()
    assert tree(tmp_path) == before


@pytest.mark.parametrize("link", ["streams", "streams/orders", "streams/orders/0001", "file"])
def test_no_link_is_followed(link: str, tmp_path: Path, around: Path) -> None:
    geoplex = make_geoplex(tmp_path)
    folder = around / "inside" / "backup"

    async def main() -> None:
        async with running(geoplex), connected(geoplex) as node:
            await publish(node, "orders", 1, 3)
            await back_up(geoplex, folder, "orders")
            (segment,) = (folder / "streams" / "orders" / "0001").glob("*.seg")
            place = segment if link == "file" else folder / link
            place.rename(around / "elsewhere")
            place.symlink_to(around / "elsewhere")
            await publish(node, "orders", 4, 3)
            before = tree(around)
            with pytest.raises(NameRefused, match="symbolic link"):
                await backup_running(node, ["orders"], folder, "test")
            with pytest.raises(NameRefused, match="symbolic link"):
                verify(folder)
            assert tree(around) == before

    asyncio.run(main())


def test_a_link_in_the_way_of_the_manifest_is_replaced(tmp_path: Path, around: Path) -> None:
    folder = around / "inside"
    before = (around / "victim" / "0001" / "precious").read_bytes()
    for name in ("manifest.json.tmp", "manifest.json"):
        (folder / name).symlink_to(around / "victim" / "0001" / "precious")
    save_manifest(folder, Manifest(geoplex="test"))
    assert (around / "victim" / "0001" / "precious").read_bytes() == before
    assert load_manifest(folder).geoplex == "test"
