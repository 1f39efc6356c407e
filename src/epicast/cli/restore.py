"""`epicast restore`: from a backup to the data folder of a proxy that is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.connecting import (
    CaOption,
    CertificateOption,
    KeyOption,
    TokenFileOption,
    credentials_for,
    proof,
)
from epicast.cli.output import print_json, print_line, say
from epicast.cli.progress import Progress
from epicast.cli.serving import JsonOption, load_file

if TYPE_CHECKING:
    from epicast.backup import Manifest, Restored
    from epicast.deployment import Geoplex


def register(app: typer.Typer) -> None:
    app.command("restore")(restore)


def restore(
    folder: Annotated[Path, typer.Argument(help="The backup.", metavar="DIR")],
    streams: Annotated[
        list[str] | None,
        typer.Argument(help="Streams, by name.", show_default="all the backup has"),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--geoplex", metavar="FILE", help="The deployment.")
    ] = None,
    region: Annotated[
        str | None, typer.Option(help="The region whose proxy is to have the streams.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Its data folder.", show_default="the file's"),
    ] = None,
    keep_epoch: Annotated[
        bool,
        typer.Option("--keep-epoch", help="Go on in the same epoch: nobody has seen more."),
    ] = False,
    ask: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Ask this proxy whether it has seen more."),
    ] = None,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
    certificate: CertificateOption = None,
    key_file: KeyOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare all checksums, and restore nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Put streams of a backup into the data folder of a proxy that is stopped.

      epicast restore backups/monday --check

      epicast restore backups/monday --geoplex geoplex.toml --region us

    Nothing is overwritten, and a backup that is damaged is refused. Streams that the region owns
    begin a new epoch, because others may have seen events that the backup does not have: every
    subscriber is told with one Reset, and gets the stream from its beginning. With --keep-epoch
    they go on as if nothing had happened; that is right only if nobody has seen more than is in
    the backup, which --ask finds out of other proxies. Streams that other regions own are fetched
    from there as far as the backup is behind.
    """
    from epicast.backup.verifying import chosen, total_bytes, verify

    names = streams or []
    if not check and (file is None or region is None):
        raise typer.BadParameter("say where to: --geoplex and --region; or --check")
    with Progress("bytes checked") as progress:
        from epicast.backup import load_manifest

        manifest = load_manifest(folder)
        names = chosen(manifest, folder, names)
        progress.begin(total_bytes(manifest, names))
        verify(folder, names, lambda size: progress.advance(by=size))
    if check:
        _tell_sound(manifest, folder, names, as_json)
        return
    assert file is not None and region is not None
    geoplex = load_file(file)
    target = _data_folder(geoplex, region, data)
    owned = {stream.name for stream in geoplex.streams_of(region)}
    if keep_epoch:
        asked = {
            address: proof(address, token_file, ca, certificate, key_file) for address in ask or []
        }
        _refuse_if_seen(manifest, [name for name in names if name in owned], asked)
    done = _restore(folder, manifest, names, geoplex, target, set() if keep_epoch else owned)
    _show(done, owned, as_json)


def _data_folder(geoplex: Geoplex, region: str, data: Path | None) -> Path:
    from epicast.backup import RestoreRefused

    named = geoplex.region(region).data
    if data is None and named is None:
        raise RestoreRefused(
            f"region {region!r} keeps nothing on disk in {geoplex.source_name}; give its proxy a "
            "folder, there or with --data"
        )
    return data if data is not None else Path(str(named))


def _restore(
    folder: Path,
    manifest: Manifest,
    names: list[str],
    geoplex: Geoplex,
    data: Path,
    raised: set[str],
) -> list[Restored]:
    from epicast.backup import restore_stream
    from epicast.backup.restoring import refuse_to_overwrite

    for name in names:  # all of them, before anything is written
        geoplex.stream(name)
        refuse_to_overwrite(data / "streams" / name)
    return [
        restore_stream(
            folder, name, manifest.streams[name], geoplex, data, raise_epoch=name in raised
        )
        for name in names
    ]


def _refuse_if_seen(manifest: Manifest, names: list[str], asked: dict[str, dict[str, Any]]) -> None:
    """`asked`: addresses of proxies, and the proof of who asks for each."""
    from epicast.backup import RestoreRefused
    from epicast.cli.status import ask_regions
    from epicast.client.addresses import parse_encrypted_urls
    from epicast.runtime import run

    for address, given in asked.items():
        where, _ = parse_encrypted_urls(address)
        found = run(ask_regions(where, True, credentials_for(address, given)))
        if found.agent is not None:
            raise RestoreRefused(
                f"{address} is an agent, which does not know; ask its region's proxy at "
                f"{found.agent.proxy}"
            )
        (status,) = found.proxies.values()
        for stream in status.streams:
            if stream.name not in names:
                continue
            entry = manifest.streams[stream.name]
            if (stream.epoch, stream.head) > (entry.epoch, entry.end):
                raise RestoreRefused(
                    f"{status.region} has seen {stream.name} up to {stream.head} of epoch "
                    f"{stream.epoch}, the backup ends at {entry.end} of {entry.epoch}: leave out "
                    "--keep-epoch, so that subscribers are told. Nothing was restored"
                )


def _tell_sound(manifest: Manifest, folder: Path, names: list[str], as_json: bool) -> None:
    from epicast.cli.backup import described

    entries = {name: manifest.streams[name] for name in names}
    if as_json:
        print_json({"folder": str(folder), "sound": True, "streams": described(entries, {})})
        return
    for name, entry in entries.items():
        warning = f" ({entry.warning})" if entry.warning else ""
        print_line(f"{name}: {entry.start}..{entry.end} of epoch {entry.epoch}, sound{warning}")


def _show(done: list[Restored], owned: set[str], as_json: bool) -> None:
    import msgspec

    if as_json:
        fields = [{**msgspec.to_builtins(each), "epoch_raised": each.epoch_raised} for each in done]
        print_json({"restored": fields})
    for each in done:
        said = f"{each.stream}: {each.start}..{each.end} restored to {each.folder}; "
        if each.epoch_raised:
            said += (
                f"its epoch was raised to {each.epoch}: every subscriber gets one Reset, and the "
                "stream from its beginning"
            )
        elif each.stream in owned:
            said += (
                f"its epoch is still {each.epoch}: if anybody has seen more than {each.end}, they "
                "will miss what is published next; restore without --keep-epoch then"
            )
        else:
            said += "what is newer is fetched from other regions"
        if as_json:
            say(said)
        else:
            print_line(said)
