"""`epicast certificate`: an authority, certificates and tokens for a geoplex with security."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epicast.cli.output import print_json, print_table, say
from epicast.cli.serving import FileArgument, JsonOption, load_file

if TYPE_CHECKING:
    from epicast.deployment import Geoplex
    from epicast.deployment.security_section import SecuritySection
    from epicast.geo.certificate_authority import Authority, Issued

ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Write over a certificate and key that are there.")
]
HostOption = Annotated[
    list[str] | None,
    typer.Option("--host", help="Another name or address it is reached under; repeatable."),
]
NameArgument = Annotated[str, typer.Argument(help="Of the identity in geoplex.toml.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help=_HELP)
    group.command("local")(local)
    group.command("authority")(authority)
    group.command("region")(region)
    group.command("agent")(agent)
    group.command("client")(client)
    group.command("token")(token)
    group.command("show")(show)
    app.add_typer(group, name="certificate")


_HELP = "Make the certificates and tokens that a geoplex.toml with security needs."


def local(file: FileArgument) -> None:
    """Make all that is missing: the authority, a certificate for each region and its sidecar.

    What is there already is kept. Afterwards `epicast up FILE` runs.
    """
    geoplex, section = _secured(file)
    found = _authority(section)
    if not found.exists:
        found.create(geoplex.name)
        say(f"{found.certificate} and {found.key}: the authority; keep the key to yourself")
    for name in geoplex.regions:
        for role, stem, hosts in (
            ("region", name, _hosts(geoplex, name)),
            ("agent", f"agent-{name}", ["127.0.0.1", "::1", "localhost"]),
        ):
            path = found.certificate.parent / f"{stem}.pem"
            if path.exists() and path != found.certificate:
                continue
            issued = found.issue(
                "region" if role == "region" else "agent", geoplex.name, stem, hosts=hosts
            )
            say(f"{issued.certificate} and {issued.key}: {role} {stem!r}")


def authority(file: FileArgument) -> None:
    """Make the authority: the file that `ca` names, and its key beside it."""
    geoplex, section = _secured(file)
    made = _authority(section)
    made.create(geoplex.name)
    say(f"{made.certificate}: give it to everybody. {made.key}: keep it to yourself.")


def region(
    file: FileArgument,
    name: Annotated[str, typer.Argument(metavar="REGION", help="The region it is for.")],
    host: HostOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Make the certificate of a region's proxy, valid for the hosts the file names."""
    geoplex, section = _secured(file)
    hosts = [*_hosts(geoplex, geoplex.region(name).name), *(host or [])]
    made = _authority(section)
    _say_made(made.issue("region", geoplex.name, name, hosts=hosts, replace=replace))


def agent(
    file: FileArgument, name: NameArgument, host: HostOption = None, replace: ReplaceOption = False
) -> None:
    """Make the certificate of an agent: a sidecar, or an application that gossips."""
    geoplex, section = _secured(file)
    _check_free(geoplex, name, [])
    made = _authority(section)
    hosts = host or ["127.0.0.1", "::1", "localhost"]
    _say_made(made.issue("agent", geoplex.name, name, hosts=hosts, replace=replace))


def client(file: FileArgument, name: NameArgument, replace: ReplaceOption = False) -> None:
    """Make the certificate of an application that only connects."""
    geoplex, section = _secured(file)
    _check_free(geoplex, name, [f"agent-{region}" for region in geoplex.regions])
    made = _authority(section)
    _say_made(made.issue("client", geoplex.name, name, replace=replace))


def token(
    name: NameArgument,
    out: Annotated[
        Path, typer.Option(help="The file to write the token to, readable by you only.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Make a token: written to a file for the application, its hash printed for geoplex.toml.

    epicast certificate token shop --out shop.token

    EPICAST_TOKEN_FILE=shop.token epicast publish prices --value 42 --to epicasts://…
    """
    import secrets

    from epicast.core import ConfigError
    from epicast.deployment.naming import NAME_RULE, is_name
    from epicast.deployment.tokens import SALT_BYTES, SECRET_BYTES, TOKEN_PREFIX, hash_token
    from epicast.geo.secret_files import write_new

    if not is_name(name):
        raise ConfigError(f"{name!r}: {NAME_RULE}")
    made = f"{TOKEN_PREFIX}:{name}:{secrets.token_urlsafe(SECRET_BYTES)}"
    write_new(out, f"{made}\n".encode())
    hashed = hash_token(made, secrets.token_bytes(SALT_BYTES))
    if as_json:
        print_json({"identity": name, "file": str(out), "hash": hashed})
        return
    say(f"{out}: the token of {name!r}; it is written down nowhere else. For geoplex.toml:")
    print(f"[security.identities.{name}]")
    print(f'tokens = ["{hashed}"]')


def show(
    file: Annotated[Path, typer.Argument(metavar="PEM", help="A certificate.")],
    as_json: JsonOption = False,
) -> None:
    """Say whose a certificate is, and how long it is valid; exit status 1 if it is not now."""
    _check_installed()
    from epicast.geo.certificate_authority import describe, read_certificate

    described = describe(read_certificate(file))
    if as_json:
        print_json(described)
    else:
        names = described.pop("names")
        assert isinstance(names, list)
        rows = [[key.replace("_", " "), str(value)] for key, value in described.items()]
        print_table(["", str(file)], [*rows, *(["name", name] for name in names)])
    if described["expired"] or described["not_yet_valid"]:
        raise typer.Exit(1)


def _authority(section: SecuritySection) -> Authority:
    _check_installed()
    from epicast.geo.certificate_authority import Authority

    return Authority(Path(section.ca))


def _check_free(geoplex: Geoplex, name: str, taken: list[str]) -> None:
    """Certificates of regions have the regions' names, and their files."""
    from epicast.core import ConfigError

    if name in [*geoplex.regions, *taken]:
        raise ConfigError(
            f"{name!r} is the name of a region's certificate: choose another for this one"
        )


def _check_installed() -> None:
    from importlib.util import find_spec

    from epicast.core import EpicastError

    if find_spec("cryptography") is None:
        raise EpicastError(
            "certificates are made with the package cryptography, which is not installed: "
            "pip install 'epicast[server]'"
        )


def _secured(file: Path) -> tuple[Geoplex, SecuritySection]:
    from epicast.core import ConfigError

    geoplex = load_file(file)
    if geoplex.security is None:
        raise ConfigError(f"{file}: there is no table [security]; docs/security.md shows one")
    return geoplex, geoplex.security


def _hosts(geoplex: Geoplex, name: str) -> list[str]:
    """Under which hosts a region's proxy is reached, by whomever."""
    replicas = geoplex.region(name).replicas
    hosts = [replica.address.host for replica in replicas]
    hosts += [replica.listen.host for replica in replicas if not replica.listen.is_wildcard]
    hosts += [
        via.host for (_, target), link in geoplex.links.items() if target == name
        for via in link.via
    ]  # fmt: skip
    return list(dict.fromkeys(hosts))


def _say_made(issued: Issued) -> None:
    say(f"{issued.certificate} and {issued.key}; the key is for its owner only")
