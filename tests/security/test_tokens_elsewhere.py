"""A token where none belongs is not repeated by the error about it."""

import pytest

import epicast
from epicast.client import TlsOptions
from epicast.core import EpicastError
from epicast.deployment import parse_geoplex
from tests.security.support import new_token


def test_a_token_in_an_address() -> None:
    token = new_token("shop")
    secret = token.split(":")[2]
    for address in (f"epicasts://{token}@host:7400", token, f"{token}://host", f"host:{token}",
                    f"epicasts://{token}"):  # fmt: skip
        for call in (epicast.connect, epicast.join):
            with pytest.raises(EpicastError) as caught:
                call(address, tls=TlsOptions())
            assert secret not in str(caught.value)


def test_a_token_in_the_file() -> None:
    token = new_token("shop")
    plain = 'name = "g"\n[regions.us]\nproxy = "127.0.0.1:7400"\n[security]\nca = "ca.pem"\n'
    for text in (
        f'{plain}clients = "{token}"\n',
        plain.replace("127.0.0.1:7400", token),
        f'{plain}[budget.proxy]\nmax_frame = "{token}"\n',
    ):
        with pytest.raises(EpicastError) as caught:
            parse_geoplex(text, "g.toml")
        assert token.split(":")[2] not in str(caught.value)
