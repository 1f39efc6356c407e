"""etcd over encrypted connections: who is believed, and by whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from epicast.coordination import CoordinationError, open_coordinator
from epicast.core import ConfigError
from epicast.deployment import parse_geoplex
from epicast.geo.certificate_authority import Authority, Issued
from tests.coordination.servers import Etcd

GEOPLEX = """
name = "g"
[regions.us]
replicas = ["127.0.0.1:1", "127.0.0.1:2"]
data = "us"
[security]
ca = "ca.pem"
[coordination]
"""


def _issued(folder: Path, authority: str, name: str) -> Issued:
    of = Authority(folder / f"{authority}.pem")
    if not of.exists:
        of.create(authority)
    return of.issue("region", "g", name, hosts=["127.0.0.1"])


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Etcd, Path]]:
    folder = tmp_path_factory.mktemp("etcd")
    server = _issued(folder, "ca", "server")
    _issued(folder, "ca", "replica")
    _issued(folder, "another", "stranger")
    ca = str(folder / "ca.pem")
    encryption = (
        "--cert-file", str(server.certificate), "--key-file", str(server.key),
        "--client-cert-auth", "--trusted-ca-file", ca,
    )  # fmt: skip
    files = f"ca={ca}&certificate={folder}/replica.pem&key={folder}/replica.key"
    running = Etcd(folder, encryption=encryption, address="etcds://{}?" + files)
    yield running, folder
    running.stop()


def test_a_geoplex_says_how_it_is_reached(etcd: tuple[Etcd, Path]) -> None:
    server, folder = etcd
    text = (
        f'{GEOPLEX}service = "etcds://{server.member}"\nca = "ca.pem"\n'
        'certificate = "replica.pem"\nkey = "replica.key"\n'
    )
    coordinator = open_coordinator(parse_geoplex(text, "g.toml", str(folder)).coordination)
    revision = coordinator.put("chains/us", b"value", 0)
    assert revision is not None
    assert coordinator.read("chains/").entries["chains/us"].value == b"value"
    view = coordinator.wait("chains/", revision - 1, patience_s=5.0)
    assert view is not None and view.revision == revision


@pytest.mark.parametrize(
    "files",
    [
        "ca={0}/another.pem&certificate={0}/replica.pem&key={0}/replica.key",
        "ca={0}/ca.pem&certificate={0}/stranger.pem&key={0}/stranger.key",
        "ca={0}/ca.pem",
        "ca={0}/nothing.pem",
    ],
)
def test_who_is_not_believed_reads_nothing(etcd: tuple[Etcd, Path], files: str) -> None:
    server, folder = etcd
    with pytest.raises(CoordinationError):
        open_coordinator(f"etcds://{server.member}?{files.format(folder)}").read("")


@pytest.mark.parametrize("behind", ["x=1", "ca", "ca=&key=k", "certificate=c&certificate=d"])
def test_files_that_cannot_be_meant(behind: str) -> None:
    with pytest.raises(CoordinationError):
        open_coordinator(f"etcds://127.0.0.1:1?{behind}").read("")


def test_in_the_clear_nothing_is_read(etcd: tuple[Etcd, Path]) -> None:
    with pytest.raises(CoordinationError):
        open_coordinator(f"etcd://{etcd[0].member}").read("")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('service = "etcd://10.0.0.1:2379"', "is reached by etcds://"),
        ('service = "etcd://127.0.0.1:1,10.0.0.1:2379"', "is reached by etcds://"),
        ('service = "etcd://127.0.0.1:1"\nca = "ca.pem"', "is for encrypted connections"),
        ('service = "etcds://10.0.0.1:1"\nkey = "k"', "certificate and key go together"),
        ('service = "etcds://10.0.0.1:1"\nca = " "', "expected a file"),
    ],
)
def test_what_cannot_be_meant(lines: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_geoplex(GEOPLEX + lines, "g.toml")


def test_etcd_on_this_machine_may_be_in_the_clear() -> None:
    parse_geoplex(GEOPLEX + 'service = "etcd://127.0.0.1:1,localhost:2"', "g.toml")
