"""`epicast certificate`, and a geoplex with security from the command line, as people use it."""

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from epicast.cli import main
from epicast.deployment import load_geoplex
from epicast.deployment.tokens import is_token_hash, token_matches
from epicast.geo.certificate_authority import Authority
from epicast.geo.local import LocalGeoplex
from tests.cli.conftest import Called
from tests.geo.support import free_ports

TEXT = """
name = "shop"

[regions.us]
proxy = "127.0.0.1:{us}"

[regions.eu]
proxy = "127.0.0.1:{eu}"

[streams.orders]
owner = "us"

[security]
ca = "certificates/ca.pem"

{identities}

[[security.rights]]
identities = ["web"]
streams = ["orders"]
allow = ["publish", "subscribe", "admin"]

[[security.rights]]
identities = ["report"]
streams = ["orders"]
allow = ["subscribe"]
"""


class Call:
    """Calls a command; what it and the processes of a geoplex write is kept."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture
        self.written = ""

    def __call__(self, *arguments: object) -> Called:
        self.rest()
        status = main([str(argument) for argument in arguments])
        out, err = self._capture.readouterr()
        self.written += out + err
        return Called(status, out, err)

    def rest(self) -> None:
        self.written += self.taken()

    def taken(self) -> str:
        return "".join(self._capture.readouterr())


@pytest.fixture
def call(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return Call(capfd)


@pytest.fixture
def file(tmp_path: Path, call: Call) -> Path:
    """A geoplex with all it needs, made with nothing but commands."""
    web = call("certificate", "token", "web", "--out", "web.token")
    assert web.status == 0
    us, eu = free_ports(2)
    identities = web.out + '[security.identities.report]\ncertificate = "report"\n'
    path = tmp_path / "geoplex.toml"
    path.write_text(TEXT.format(us=us, eu=eu, identities=identities))
    made = call("certificate", "local", path)
    assert made.status == 0, made.err
    assert "keep the key to yourself" in made.err
    assert call("certificate", "client", path, "report").status == 0
    return path


def test_token_is_written_and_its_hash_printed(tmp_path: Path, call: Call) -> None:
    done = call("certificate", "token", "web", "--out", "web.token")
    token = (tmp_path / "web.token").read_text().strip()
    assert stat.S_IMODE((tmp_path / "web.token").stat().st_mode) == 0o600
    assert token not in done.out + done.err
    hashed = done.out.split('"')[1]
    assert is_token_hash(hashed) and token_matches(token, hashed)
    again = call("certificate", "token", "web", "--out", "web.token")
    assert again.status == 2 and "there already" in again.err
    assert (tmp_path / "web.token").read_text().strip() == token
    assert call("certificate", "token", "No Name", "--out", "x").status == 2


def test_what_is_made(file: Path, call: Call) -> None:
    folder = file.parent / "certificates"
    names = {path.name for path in folder.iterdir()}
    stems = ("ca", "us", "eu", "agent-us", "agent-eu", "report")
    assert names == {f"{stem}.{kind}" for stem in stems for kind in ("pem", "key")}
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert call("certificate", "local", file).status == 0
    assert before == {path: path.read_bytes() for path in folder.iterdir()}, "all of it was there"
    shown = json.loads(call("certificate", "show", folder / "us.pem", "--json").out)
    assert set(shown["names"]) == {"127.0.0.1", "epicast:shop:region:us"}
    assert not shown["expired"] and len(shown["serial"]) > 10
    assert "epicast:shop:client:report" in call("certificate", "show", folder / "report.pem").out
    refused = call("certificate", "region", file, "us")
    assert refused.status == 2 and "--replace" in refused.err
    assert (
        call("certificate", "region", file, "us", "--host", "us.example", "--replace").status == 0
    )
    shown = json.loads(call("certificate", "show", folder / "us.pem", "--json").out)
    assert "us.example" in shown["names"]
    assert call("certificate", "agent", file, "sidecar").status == 0
    assert call("certificate", "authority", file).status == 2, "there is one"
    assert call("certificate", "region", file, "mars").status == 2


def test_no_certificate_takes_the_place_of_another(file: Path, call: Call) -> None:
    folder = file.parent / "certificates"
    before = {path: path.read_bytes() for path in file.parent.rglob("*") if path.is_file()}
    for command, name, words in (
        ("client", "ca", "authority's own name"),
        ("agent", "ca", "authority's own name"),
        ("client", "us", "name of a region's certificate"),
        ("agent", "us", "name of a region's certificate"),
        ("client", "agent-us", "name of a region's certificate"),
        ("client", "../x", "a name is"),
        ("agent", "../../x", "a name is"),
        ("client", "/tmp/x", "a name is"),
        ("client", "Two Words", "a name is"),
        ("client", "", "a name is"),
    ):
        refused = call("certificate", command, file, name, "--replace")
        assert refused.status == 2 and words in refused.err, (command, name, refused.err)
    after = {path: path.read_bytes() for path in file.parent.rglob("*") if path.is_file()}
    assert after == before
    assert call("certificate", "agent", file, "agent-us", "--replace").status == 0, "its own"
    assert (folder / "agent-us.pem").read_bytes() != before[folder / "agent-us.pem"]


def test_a_region_is_not_called_like_the_authority(tmp_path: Path, call: Call) -> None:
    text = TEXT.replace("regions.us", "regions.ca").replace('owner = "us"', 'owner = "ca"')
    identities = '[security.identities.web]\ncertificate = "web"\n'
    identities += '[security.identities.report]\ncertificate = "report"\n'
    file = tmp_path / "geoplex.toml"
    file.write_text(text.format(us=7400, eu=7401, identities=identities))
    refused = call("certificate", "local", file)
    assert refused.status == 2 and "authority's own name" in refused.err
    before = (tmp_path / "certificates" / "ca.pem").read_bytes()
    assert call("certificate", "region", file, "ca", "--replace").status == 2
    assert (tmp_path / "certificates" / "ca.pem").read_bytes() == before


def test_only_an_authority_signs(file: Path, call: Call) -> None:
    folder = file.parent / "certificates"
    for kind in ("pem", "key"):
        (folder / f"ca.{kind}").write_bytes((folder / f"report.{kind}").read_bytes())
    refused = call("certificate", "region", file, "us", "--replace")
    assert refused.status == 2 and "not the certificate of an authority" in refused.err


def test_the_key_is_the_authoritys(file: Path, call: Call) -> None:
    folder = file.parent / "certificates"
    (folder / "ca.key").write_bytes((folder / "us.key").read_bytes())
    refused = call("certificate", "region", file, "us", "--replace")
    assert refused.status == 2 and "ca.key: not the key of" in refused.err


def test_a_certificate_that_is_not_valid_yet(file: Path, call: Call) -> None:
    authority = Authority(file.parent / "certificates" / "ca.pem")
    later = datetime.now(UTC) + timedelta(days=1)
    issued = authority.issue("client", "shop", "later", valid_from=later)
    shown = call("certificate", "show", issued.certificate, "--json")
    assert shown.status == 1
    found = json.loads(shown.out)
    assert found["not_yet_valid"] and not found["expired"]


def test_tokens_for_programs(tmp_path: Path, call: Call) -> None:
    made = json.loads(call("certificate", "token", "web", "--out", "web.token", "--json").out)
    assert (made["identity"], made["file"]) == ("web", "web.token")
    assert token_matches((tmp_path / "web.token").read_text().strip(), made["hash"])


def test_up_says_addresses_that_work(file: Path, call: Call) -> None:
    from epicast.cli.up import _announce

    with LocalGeoplex(load_geoplex(file)) as local:
        call.rest()
        _announce(local, as_json=False)
        table = call.taken()
    assert table.count("epicasts://127.0.0.1") >= 2 and "epicast://" not in table


def test_mistakes_say_what_to_do(tmp_path: Path, call: Call) -> None:
    plain = tmp_path / "plain.toml"
    plain.write_text('name = "x"\n[regions.us]\nproxy = "127.0.0.1:7400"\n')
    assert "[security]" in call("certificate", "local", plain).err
    (tmp_path / "no.pem").write_text("nothing")
    assert "not a certificate" in call("certificate", "show", "no.pem").err
    assert "cannot be read" in call("certificate", "show", "nowhere.pem").err


def test_from_end_to_end(file: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    geoplex = load_geoplex(file)
    with LocalGeoplex(geoplex, log_level="debug") as local:
        us, eu = local.address("us"), local.address("eu")
        assert us.startswith("epicasts://")
        assert set(local.status()) == {"us", "eu"}
        monkeypatch.setenv("EPICAST_CA", str(file.parent / "certificates" / "ca.pem"))
        nobody = call("publish", "orders", "--value", "x", "--to", us)
        assert nobody.status == 2 and "need an identity" in nobody.err
        web = ("--token-file", "web.token")
        done = call("publish", "orders", "--value", "hello", "--to", eu, *web)
        assert (done.status, done.out) == (0, "1\n"), done.err
        folder = file.parent / "certificates"
        report = (
            "--certificate",
            folder / "report.pem",
            "--certificate-key",
            folder / "report.key",
        )
        got = call("subscribe", "orders", "--from-start", "--count", 1, "--from", eu, *report)
        assert got.out == "1\t\thello\n", got.err
        refused = call("publish", "orders", "--value", "x", "--to", eu, *report)
        assert refused.status == 1 and "FORBIDDEN: identity 'report' may not publish" in refused.err
        listed = call("streams", "--from", us, *web)
        assert "orders" in listed.out
        asked = call("status", "--from", us, "--json", *web)
        assert set(json.loads(asked.out)["regions"]) == {"us", "eu"}, asked.err
        denied = call("status", "--from", us, *report)
        assert denied.status == 2 and "administrator" in denied.err
        # A region that was killed comes back, encrypted as before.
        local.kill("eu")
        local.start("eu")
        again = call("publish", "orders", "--value", "x", "--to", eu, *web)
        assert (again.status, again.out) == (0, "2\n"), again.err
    call.rest()
    assert "does not let in" in call.written, "the proxies' logs are not here"
    secrets = [(file.parent / "web.token").read_text().strip().split(":")[2]]
    secrets += [line for key in folder.glob("*.key") for line in key.read_text().splitlines()[1:-1]]
    assert not [secret for secret in secrets if secret in call.written]


def test_restoring_asks_a_proxy_with_security(
    file: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalGeoplex(load_geoplex(file)) as local:
        address = local.address("us")
        monkeypatch.setenv("EPICAST_TOKEN_FILE", "web.token")
        monkeypatch.setenv("EPICAST_CA", "certificates/ca.pem")
        publish = ("publish", "orders", "--value", "x", "--to", address)
        assert call(*publish).status == 0
        made = call("backup", "orders", "--to", "made", "--from", address)
        assert made.status == 0, made.err
        monkeypatch.delenv("EPICAST_TOKEN_FILE")
        monkeypatch.delenv("EPICAST_CA")

        def restore(data: str, *proof: str) -> Called:
            return call(
                "restore", "made", "--geoplex", file, "--region", "us", "--data", data,
                "--keep-epoch", "--ask", address, *proof,
            )  # fmt: skip

        proof = ("--token-file", "web.token", "--ca", "certificates/ca.pem")
        done = restore("one", *proof)
        assert done.status == 0, done.err
        refused = restore("two")
        assert refused.status == 2 and not Path("two").exists()
        monkeypatch.setenv("EPICAST_TOKEN_FILE", "web.token")
        monkeypatch.setenv("EPICAST_CA", "certificates/ca.pem")
        assert call(*publish).status == 0
        refused = restore("three", *proof)
        assert refused.status == 2 and "has seen orders up to 2" in refused.err
