"""No token and no key is ever written anywhere it was not put on purpose."""

import logging
import pickle
import stat
from pathlib import Path

import pytest

import epicast
from epicast.client.credentials import Credentials, credentials, read_token
from epicast.core import ConfigError, Peer
from epicast.geo.certificate_authority import Authority
from epicast.geo.proxy import ProxyService
from epicast.geo.secret_files import FileNotWritten, write_new
from epicast.geo.status import encode_status
from epicast.runtime.gate import Security
from epicast.runtime.tls import TlsFiles
from epicast.wire import Handshake, Hello
from tests.geo.support import eventually_true
from tests.security.support import Secured, address_of, new_token


def test_nothing_secret_in_logs_status_errors_or_what_is_printed(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = new_token("shop")
    said: list[str] = []

    async def main() -> None:
        geoplex = secured.geoplex
        service = ProxyService(geoplex, "us")
        await service.start()
        try:
            address = address_of(geoplex, "us")
            connecting = epicast.connect(address, token=secured.tokens["shop"], tls=secured.ca)
            said.append(repr(vars(connecting)))
            async with connecting as node:
                await node.stream("orders").publish(b"x")
                said.extend([repr(vars(node)), repr(vars(node._driver)), repr(node.statistics())])  # type: ignore[attr-defined]
            for token in (wrong, secured.tokens["reader"]):
                try:
                    async with epicast.connect(address, token=token, tls=secured.ca) as other:
                        await other.stream("orders").publish(b"x")
                except epicast.EpicastError as error:
                    said.extend([str(error), repr(error)])

            async def gone() -> bool:
                return service.driver.statistics()["connections"] == 0

            await eventually_true(gone)
            said.append(encode_status(service.status()).decode())
            said.extend([repr(vars(service)), repr(service.driver._security), repr(geoplex)])
            said.append(repr(vars(service.driver._doorkeeper)))
        finally:
            await service.stop()

    with caplog.at_level(logging.DEBUG):
        epicast.run(main(), debug=True)
    said += [record.getMessage() for record in caplog.records]
    said += [str(vars(record)) for record in caplog.records]
    text = "\n".join(said)
    assert "may not publish" in text and "token is unknown" in text, "the test looks nowhere"
    secrets = [token.split(":")[2] for token in (*secured.tokens.values(), wrong)]
    keys = [path.read_text() for path in secured.certificates.glob("*.key")]
    for secret in (*secrets, *(line for key in keys for line in key.splitlines()[1:-1])):
        assert secret not in text


def test_what_holds_a_token_does_not_show_it() -> None:
    token = new_token("shop")
    secret = token.split(":")[2]
    hello = Hello(Peer(1), 1, "c", token=token)
    proof = Credentials(TlsFiles(), None, token)
    for value in (hello, proof, Security(None, None, token), {"options": proof}):  # type: ignore[arg-type]
        assert secret not in repr(value) and secret not in str(value) and secret not in f"{value}"
    assert secret.encode() in Handshake(hello).outgoing, "it is there, though"


def test_a_token_is_not_kept_by_who_was_shown_it() -> None:
    from epicast.runtime import Limits
    from epicast.runtime.connection import Connection

    token = new_token("shop")
    handshake = Handshake(Hello(Peer(2, "h", 1), 1, "c"))
    handshake.received(Handshake(Hello(Peer(1, "h", 1), 1, "c", token=token)).outgoing)
    connection = Connection(None, Limits(), handshake, dialed=False)  # type: ignore[arg-type]
    assert connection.take_token() == token
    assert connection.take_token() == "" and connection.remote.token == ""


def test_a_geoplex_that_is_handed_to_processes_has_hashes_only(secured: Secured) -> None:
    pickled = pickle.dumps(secured.geoplex)
    for token in secured.tokens.values():
        assert token.split(":")[2].encode() not in pickled


def test_key_files_are_for_their_owner(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "deep" / "ca.pem")
    authority.create("test")
    issued = authority.issue("client", "test", "shop")
    for key in (authority.key, issued.key):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert key.read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----")
    before = issued.key.read_bytes()
    with pytest.raises(FileNotWritten, match="--replace"):
        authority.issue("client", "test", "shop")
    with pytest.raises(FileNotWritten, match="there already"):
        authority.create("test")
    assert issued.key.read_bytes() == before
    authority.issue("client", "test", "shop", replace=True)
    assert issued.key.read_bytes() != before
    assert stat.S_IMODE(issued.key.stat().st_mode) == 0o600
    write_new(tmp_path / "some.token", b"x")
    assert stat.S_IMODE((tmp_path / "some.token").stat().st_mode) == 0o600


def test_where_a_token_comes_from(tmp_path: Path) -> None:
    first, second, third = (new_token(name) for name in ("a", "b", "c"))
    file = tmp_path / "token"
    file.write_text(f"{second}\n")
    environment = {"EPICAST_TOKEN": third}

    def found(given: str | None) -> str:
        proof = credentials(given, None, encrypted=True, environment=environment)
        assert proof is not None
        return proof.token

    assert found(first) == first
    assert found(None) == third
    environment["EPICAST_TOKEN_FILE"] = str(file)
    assert found(None) == second, "a file is safer than a variable, so it comes first"
    assert credentials(None, None, encrypted=False, environment=environment) is None


@pytest.mark.parametrize("text", ["ept:shop:half-of-it", "", "hunter2"])
def test_what_is_no_token_is_not_repeated(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(ConfigError, match="not a token") as caught:
        read_token(file)
    assert not text or text not in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_token(tmp_path / "nowhere")


def test_a_token_in_place_of_its_file_is_not_repeated(tmp_path: Path) -> None:
    token = new_token("shop")
    environment = {"EPICAST_TOKEN_FILE": token}
    for read in (
        lambda: read_token(Path(token)),
        lambda: credentials(None, None, encrypted=True, environment=environment),
    ):
        with pytest.raises(ConfigError, match="looks like a token itself: give the file") as caught:
            read()
        assert token.split(":")[2] not in str(caught.value)


def test_a_certificate_without_its_key(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca.pem")
    authority.create("test")
    issued = authority.issue("client", "test", "shop")
    alone = epicast.TlsOptions(ca=tmp_path / "ca.pem", certificate=issued.certificate)
    with pytest.raises(ConfigError, match="key is not in the file: give it"):
        credentials(None, alone, encrypted=True, environment={})
    both = tmp_path / "both.pem"
    both.write_text(issued.certificate.read_text() + issued.key.read_text())
    together = epicast.TlsOptions(ca=tmp_path / "ca.pem", certificate=both)
    proof = credentials(None, together, encrypted=True, environment={})
    assert proof is not None and proof.for_finding() is not None
