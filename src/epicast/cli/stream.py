"""`epicast stream`: what can be done to one stream of a running geoplex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.connecting import (
    DEFAULT_ADDRESS,
    CaOption,
    CertificateOption,
    FromOption,
    KeyOption,
    StreamArgument,
    TokenFileOption,
    credentials_for,
    proof,
    reminder,
)
from epicast.cli.output import print_json, print_line, say
from epicast.cli.serving import JsonOption

if TYPE_CHECKING:
    from epicast.cli.status import Found
    from epicast.client.credentials import Credentials
    from epicast.geo.moving import Situation
    from epicast.protocols.sprinkler.moving.messages import MoveReply


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command("move")(move)
    group.command("accept-loss")(accept_loss)
    app.add_typer(group, name="stream", help="Move a stream to another region.")


def move(
    stream: StreamArgument,
    region: Annotated[
        str, typer.Option("--to", metavar="REGION", help="The region that is to own the stream.")
    ],
    force: Annotated[
        bool,
        typer.Option("--force", help="Take it from an owner that is lost for good."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --force: do not ask whether that is meant.")
    ] = False,
    source: FromOption = DEFAULT_ADDRESS,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long to wait for it.", min=1.0)
    ] = 30.0,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
    certificate: CertificateOption = None,
    key_file: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hand a stream to another region, which numbers its events from then on.

      epicast stream move orders --to eu

      epicast stream move orders --to eu --force --from epicast://eu.example:7400

    The owner waits until the other region has everything, and gives the stream away: publications
    wait for a moment, subscribers notice nothing. With --force the other region takes the stream
    without asking, from what it has: what it does not have is lost, and every subscriber gets one
    Reset. What may be lost is said first. --from is a proxy that is alive.

    The exit status is 1 if the stream was not moved, and 2 if it could not be asked for.
    """
    from epicast.geo.moving import MoveImpossible, MoveRefused, silent_owner, survey
    from epicast.geo.moving import move as ask_to_move
    from epicast.runtime import run

    proven = credentials_for(source, proof(source, token_file, ca, certificate, key_file))
    found = _ask(source, proven)
    situation = survey(found.proxies, stream, region)
    try:
        if not force and not situation.owner_answers:
            raise MoveRefused(silent_owner(situation, found.silent.get(situation.owner, "")))
        if situation.owner == region and not force:
            raise MoveImpossible(f"{region} owns {stream} already; nothing was changed")
        if force:
            _warn(situation)
            if not yes and not _is_meant(situation):
                raise MoveRefused("nothing was changed")
        with reminder(f"waiting until {region} has everything of {stream}"):
            reply = run(
                ask_to_move(
                    _addresses(found), situation, force=force, timeout=timeout, **_given(proven)
                )
            )
    except MoveImpossible:
        raise
    except MoveRefused as error:
        _show_refusal(situation, str(error), as_json)
        raise typer.Exit(1) from None
    _show(situation, reply, force, as_json)


def accept_loss(
    stream: StreamArgument,
    source: FromOption = DEFAULT_ADDRESS,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
    certificate: CertificateOption = None,
    key_file: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """End the alarm `lost` about a stream that was moved by force, in all regions that answer."""
    from epicast.geo.moving import accept_loss as tell
    from epicast.runtime import run

    proven = credentials_for(source, proof(source, token_file, ca, certificate, key_file))
    found = _ask(source, proven)
    there = {name: at for name, at in _addresses(found).items() if name in found.proxies}
    run(tell(there, stream, timeout=5.0, **_given(proven)))
    if as_json:
        print_json({"stream": stream, "accepted_in": list(there), "silent": found.silent})
    else:
        print_line(f"{stream}: what was lost is no alarm any more in {', '.join(there)}")
    for name, error in found.silent.items():
        say(f"epicast: {name}: {error}")
    if found.silent:
        raise typer.Exit(1)


def _ask(source: str, proven: Credentials | None) -> Found:
    from epicast.cli.status import ask_regions
    from epicast.client.addresses import parse_encrypted_urls
    from epicast.core import EpicastError
    from epicast.runtime import run

    addresses, _ = parse_encrypted_urls(source)
    found = run(ask_regions(addresses, False, proven))
    if not found.proxies:
        raise EpicastError(f"no proxy answers: {'; '.join(found.silent.values())}")
    return found


def _addresses(found: Found) -> dict[str, str]:
    return dict(next(iter(found.proxies.values())).regions)


def _given(proven: Credentials | None) -> dict[str, Any]:
    if proven is None:
        return {}
    return {"tls": proven.for_finding(), "token": proven.token}


def _warn(situation: Situation) -> None:
    """What may be lost, as far as anybody can know."""
    owner, target, stream = situation.owner, situation.target, situation.stream
    if situation.there is None:
        say(f"{target} does not answer: how far it has {stream} is not known")
        return
    epoch, seq = situation.furthest
    say(f"{target} has {stream} up to {situation.there.head} of epoch {situation.there.epoch}")
    if situation.missing:
        say(
            f"{situation.missing} events are known that it does not have, up to {seq} of epoch "
            f"{epoch}: they will be lost"
        )
        if situation.best != target and situation.best_head > situation.there.head:
            say(f"{situation.best} has {situation.best_head}: wait, or move it there")
    else:
        say("nobody who answers has more, or has heard of more")
    say(
        f"what {owner} has acknowledged beyond that, with any level but regions=K, will be lost: "
        "how much that is only it knows. Every subscriber gets one Reset"
    )
    if situation.owner_answers and owner != target:
        say(f"{owner} ANSWERS: without --force nothing would be lost")


def _is_meant(situation: Situation) -> bool:
    return typer.confirm(f"take {situation.stream} from {situation.owner}?", err=True)


def _show_refusal(situation: Situation, error: str, as_json: bool) -> None:
    if as_json:
        print_json(
            {"stream": situation.stream, "moved": False, "owner": situation.owner, "error": error}
        )
    say(f"epicast: {error}")


def _show(situation: Situation, reply: MoveReply, force: bool, as_json: bool) -> None:
    from epicast.protocols.sprinkler.moving.messages import MoveOutcome

    begun = reply.outcome is MoveOutcome.DONE
    stream, target = situation.stream, situation.target
    if as_json:
        print_json(
            {
                "stream": stream,
                "moved": True,
                "begun": begun,
                "from": situation.owner,
                "to": target,
                "forced": force,
                "epoch": reply.epoch,
                "behind": reply.seq,
                "known_to_be_lost": situation.missing if force else 0,
            }
        )
    elif begun:
        how = f"in the new epoch {reply.epoch}" if force else "subscribers were not interrupted"
        print_line(f"{target} owns {stream} now and numbers what follows {reply.seq}; {how}")
    else:
        print_line(f"{stream}: {reply.detail}")
    say(
        f'write owner = "{target}" into [streams.{stream}] of geoplex.toml, too: a region without '
        "a data folder forgets, when it is started again, that the stream was moved"
    )
