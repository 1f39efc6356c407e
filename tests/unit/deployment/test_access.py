"""Who is let in and what they may do: every decision of `[security]`, without a network."""

import pytest

from epicast.core import ConfigError
from epicast.deployment import AccessControl, Action, node_id_of, parse_geoplex
from epicast.deployment.access import region_identity
from epicast.deployment.certificates import CertificateNames, certificate_uri, names_of
from epicast.deployment.tokens import hash_token, is_token, name_in_token, token_matches

SECRET = "A" * 43
TOKEN = f"ept:shop:{SECRET}"
HASHED = hash_token(TOKEN, bytes(16))
TEXT = f"""
name = "g"
[regions.us]
proxy = "127.0.0.1:7400"
[regions.eu]
proxy = "127.0.0.1:7401"
[streams.orders]
owner = "us"
[streams.orders-eu]
owner = "eu"
[streams.prices]
owner = "eu"
[security]
ca = "ca.pem"
revoked = ["0BAD"]
[security.identities.shop]
tokens = ["{HASHED}"]
[security.identities.billing]
certificate = "billing"
[[security.rights]]
identities = ["*"]
streams = ["prices"]
allow = ["subscribe"]
[[security.rights]]
identities = ["shop"]
streams = ["orders*"]
topics = ["chat-?"]
allow = ["publish"]
[[security.rights]]
identities = ["billing"]
allow = ["admin"]
"""
US = node_id_of("us")
CLIENT = 77


def access(text: str = TEXT) -> AccessControl:
    found = parse_geoplex(text, "g.toml").access()
    assert found is not None
    return found


def names(role: str, name: str, geoplex: str = "g", serial: str = "A1") -> CertificateNames:
    return CertificateNames(serial, name, (certificate_uri(geoplex, role, name),))  # type: ignore[arg-type]


def refusal(node: int, token: str, shown: CertificateNames | None, text: str = TEXT) -> str:
    verdict = access(text).examine(node, token, shown)
    assert verdict.refusal
    return verdict.refusal


def test_a_token_is_an_identity() -> None:
    verdict = access().examine(CLIENT, TOKEN, None)
    assert (verdict.identity, verdict.trusted, verdict.refusal) == ("shop", False, "")


@pytest.mark.parametrize(
    "token",
    [
        f"ept:shop:{'B' * 43}",
        f"ept:nobody:{SECRET}",
        f"ept:billing:{SECRET}",
        "ept:shop:short",
        "password",
        TOKEN + "x",
    ],
)
def test_any_other_token_is_unknown_and_not_repeated(token: str) -> None:
    text = refusal(CLIENT, token, None)
    assert "token is unknown" in text
    assert token not in text and SECRET not in text


def test_a_certificate_is_an_identity() -> None:
    for shown in (names("client", "billing"), names("agent", "billing"),
                  CertificateNames("1", "billing")):  # fmt: skip
        assert access().examine(CLIENT, "", shown).identity == "billing"


def test_certificates_that_are_nobodys() -> None:
    assert "nobody's" in refusal(CLIENT, "", names("client", "stranger"))
    assert "another geoplex" in refusal(CLIENT, "", names("client", "billing", geoplex="h"))
    assert "revoked" in refusal(CLIENT, "", names("client", "billing", serial="BAD"))
    assert "give one of them" in refusal(CLIENT, TOKEN, names("client", "billing"))


def test_a_proxy_must_prove_its_region() -> None:
    verdict = access().examine(US, "", names("region", "us"))
    assert (verdict.identity, verdict.trusted) == (region_identity("us"), True)
    for shown in (None, names("region", "eu"), names("client", "us"), names("region", "us", "h"),
                  CertificateNames("1", "us")):  # fmt: skip
        assert "does not name that region" in refusal(US, "", shown)
    assert "does not name that region" in refusal(US, TOKEN, None)
    assert "no region 'mars'" in refusal(CLIENT, "", names("region", "mars"))


def test_nobody_without_an_identity_unless_anyone_may() -> None:
    assert "need an identity" in refusal(CLIENT, "", None)
    anyone = TEXT.replace('ca = "ca.pem"', 'ca = "ca.pem"\nclients = "anyone"')
    verdict = access(anyone).examine(CLIENT, "", None)
    assert (verdict.identity, verdict.refusal) == ("", "")
    assert "token is unknown" in refusal(CLIENT, "ept:shop:wrong", None, anyone)


def test_rights() -> None:
    rules = access()
    everything = {
        (identity, action, stream)
        for identity in ("shop", "billing", "")
        for action in (Action.PUBLISH, Action.SUBSCRIBE)
        for stream in ("orders", "orders-eu", "prices")
        if not rules.permit(identity, action, stream)
    }
    assert everything == {
        ("shop", Action.PUBLISH, "orders"),
        ("shop", Action.PUBLISH, "orders-eu"),
        ("shop", Action.SUBSCRIBE, "prices"),
        ("billing", Action.SUBSCRIBE, "prices"),
        ("", Action.SUBSCRIBE, "prices"),
    }
    assert not rules.permit("billing", Action.ADMIN, "")
    assert "administrator" in rules.permit("shop", Action.ADMIN, "")
    text = rules.permit("billing", Action.PUBLISH, "orders")
    assert "'billing' may not publish to stream 'orders'" in text and "rights" in text


def test_rights_of_topics_are_not_those_of_streams() -> None:
    rules = access()
    assert not rules.permit("shop", Action.PUBLISH, "chat-1", "topic")
    assert rules.permit("shop", Action.PUBLISH, "chat-1")
    assert rules.permit("shop", Action.PUBLISH, "orders", "topic")
    assert rules.permit("shop", Action.PUBLISH, "chat-12", "topic")


def test_a_region_may_everything() -> None:
    assert not access().permit(region_identity("us"), Action.PUBLISH, "orders")
    assert not access().permit(region_identity("us"), Action.ADMIN, "")


def test_what_everybody_may() -> None:
    rules = access()
    assert rules.everybody_may(Action.SUBSCRIBE, "prices")
    assert not rules.everybody_may(Action.SUBSCRIBE, "orders")


def test_the_same_token_has_different_hashes() -> None:
    other = hash_token(TOKEN, bytes(range(16)))
    assert other != HASHED and SECRET not in other
    assert token_matches(TOKEN, other) and token_matches(TOKEN, HASHED)
    assert not token_matches(TOKEN, HASHED[:-1] + ("0" if HASHED[-1] != "0" else "1"))
    assert not token_matches(TOKEN, "sha256:nonsense")
    assert is_token(TOKEN) and name_in_token(TOKEN) == "shop" and name_in_token("x") == ""


def test_names_of_what_ssl_tells() -> None:
    told = {
        "subject": ((("organizationName", "o"),), (("commonName", "billing"),)),
        "serialNumber": "0a1b",
        "subjectAltName": (("DNS", "host"), ("URI", "epicast:g:client:billing")),
    }
    found = names_of(told)
    assert found == CertificateNames("0A1B", "billing", ("epicast:g:client:billing",))
    assert found.role_in("g") == ("client", "billing") and found.role_in("h") is None
    assert names_of({}) is None and names_of(None) is None


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        (f'tokens = ["{HASHED}"]', f'tokens = ["{TOKEN}"]', "identities.shop.tokens[0]: expected"),
        (f'tokens = ["{HASHED}"]', "tokens = []", "identities.shop: give tokens"),
        ('identities = ["shop"]', 'identities = ["shpo"]', "did you mean 'shop'"),
        ('streams = ["prices"]', 'streams = ["prizes"]', "did you mean 'prices'"),
        ('streams = ["prices"]', 'streams = ["Pri ces"]', "expected a name, or a pattern"),
        ('allow = ["subscribe"]', 'allow = ["read"]', "expected"),
        ('allow = ["admin"]', 'allow = ["publish"]', "no stream or topic"),
        ('revoked = ["0BAD"]', 'revoked = ["x"]', "serial number"),
        ('certificate = "billing"', 'certificate = " "', "the name in the certificate"),
        ('ca = "ca.pem"', 'ca = ""', "expected a file"),
        ('ca = "ca.pem"\n', "", "missing key 'ca'"),
        ("[security.identities.billing]", "[security.identities.Billing]", "a name is"),
    ],
)
def test_mistakes_in_the_file(old: str, new: str, where: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(ConfigError) as caught:
        parse_geoplex(TEXT.replace(old, new), "g.toml")
    assert where in str(caught.value)
    assert SECRET not in str(caught.value), "somebody put the token itself into the file"


def test_paths_are_relative_to_the_file() -> None:
    section = parse_geoplex(TEXT, "g.toml", "/etc/epicast").security
    assert section is not None
    assert section.ca == "/etc/epicast/ca.pem"
    assert section.certificate == "/etc/epicast/certificates/{region}.pem"


def test_without_the_table_there_is_nothing_to_ask() -> None:
    text = TEXT.split("[security]", maxsplit=1)[0]
    assert parse_geoplex(text, "g.toml").access() is None
