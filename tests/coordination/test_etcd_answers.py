"""Whatever answers where etcd should be: it is an error of one kind, that says who said what."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epicast.coordination import CoordinationError
from epicast.coordination.etcd import EtcdCoordinator
from tests.coordination.imposters import Imposter, answer, etcd_like, http, refusal, stream

CALLS: dict[str, Callable[[EtcdCoordinator], object]] = {
    "read": lambda one: one.read("k"),
    "put": lambda one: one.put("k", b"v", 0),
    "remove": lambda one: one.remove("k", 1),
    "wait": lambda one: one.wait("k", 0, 5),
    "grant": lambda one: one.grant(5),
    "keep": lambda one: one.keep(3),
    "revoke": lambda one: one.revoke(3),
}
PAGE = b"<html><head><title>502 Bad Gateway</title></head>\n</html>\n"
DEEP = b'{"header": ' + b"[" * 100_000
UNPROMISED = {
    "a page of a gateway": (http(PAGE, 502), "HTTP status 502: b'<html>"),
    "a page that claims to be fine": (http(PAGE), "not etcd: b'<html>"),
    "a page without an end of line": (http(b"<html>"), "not etcd: b'<html>'"),
    "nothing in it": (http(b"{}"), r"not etcd: b'{}'"),
    "nothing at all": (http(b""), "not etcd: b''|says no more"),
    "a list": (http(b"[]"), r"not etcd: b'\[\]'"),
    "null": (http(b"null"), "not etcd: b'null'"),
    "other things": (http(b'{"header": "h", "result": 1, "ID": []}'), "not etcd: b'"),
    "a number that is none": (
        http(b'{"header": {"revision": "x"}, "ID": "y", "result": {"header": {}}}'), "not etcd: b"
    ),
    "deeper than anybody reads": (http(DEEP), "not etcd: b'.{60,90}' and more"),
    "the error of a member": (refusal(503, 14, "no leader"), "HTTP status 503: b'.*no leader"),
    "the error of another service": (refusal(404, 404, "who?"), "HTTP status 404: b'.*who?"),
    "no text": (http(b"\xff\xfe\n"), r"not etcd: b'\\xff\\xfe"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0-OpenSSH"),
    "no more than a beginning": (http(b"{} ")[:-2], "not etcd: b'{'"),
    "no good chunk": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "IncompleteRead"
    ),
    "goodbye": (b"", "closed"),
}  # fmt: skip


@pytest.fixture(scope="module")
def imposter() -> Iterator[Imposter]:
    with Imposter(etcd_like) as one:
        yield one


@pytest.mark.parametrize("call", CALLS)
def test_the_imposter_can_do_what_etcd_does(imposter: Imposter, call: str) -> None:
    """So it is for what it says that it is not believed below."""
    imposter.says = etcd_like
    CALLS[call](EtcdCoordinator([imposter.member]))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("unpromised", UNPROMISED)
def test_what_is_not_promised(imposter: Imposter, unpromised: str, call: str) -> None:
    said, complaint = UNPROMISED[unpromised]
    imposter.says = lambda _: said
    with pytest.raises(CoordinationError, match=f"{imposter.member}: .*{complaint}") as caught:
        CALLS[call](EtcdCoordinator([imposter.member]))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("said", [PAGE, b"{}\n", b'{"error": {"grpc_code": 14}}\n', b""])
def test_a_watch_that_goes_wrong_later(imposter: Imposter, said: bytes) -> None:
    chunk = b"%x\r\n%s\r\n" % (len(said), said)
    imposter.says = lambda _: stream({"created": True}) + chunk
    with pytest.raises(CoordinationError, match=imposter.member):
        EtcdCoordinator([imposter.member]).wait("k", 0, 5)


def test_what_etcd_refuses(imposter: Imposter) -> None:
    imposter.says = lambda _: refusal(400, 3, "key is not provided")
    with pytest.raises(CoordinationError, match=f"{imposter.member} refuses: 'key is not provided"):
        EtcdCoordinator([imposter.member, "127.0.0.1:1"]).read("k")


def test_a_key_that_is_no_text(imposter: Imposter) -> None:
    imposter.says = lambda _: answer({"kvs": [{"key": "/w==", "mod_revision": "4"}]})
    with pytest.raises(CoordinationError, match=r"not ours: b'\\xff'"):
        EtcdCoordinator([imposter.member]).read("k")


def test_an_answer_without_an_end(imposter: Imposter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epicast.coordination.etcd_member._MOST_BYTES", 1 << 20)
    imposter.says = lambda _: b"HTTP/1.1 200 OK\r\n\r\n" + bytes(2 << 20)
    for call in ("read", "wait"):
        with pytest.raises(CoordinationError, match="says too much"):
            CALLS[call](EtcdCoordinator([imposter.member]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just("5"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(
            ["header", "revision", "result", "kvs", "key", "mod_revision", "value", "lease",
             "succeeded", "ID", "TTL", "events", "canceled", "code", "message", "error"]
        ), inner, max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip
ANSWERS = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=200).map(http),
    st.builds(
        lambda value, status: http(json.dumps(value).encode(), status),
        JSON, st.sampled_from([200, 200, 200, 204, 302, 400, 404, 503]),
    ),
)  # fmt: skip


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=ANSWERS, call=st.sampled_from(sorted(CALLS)))
def test_no_answer_is_any_other_error(imposter: Imposter, said: bytes, call: str) -> None:
    imposter.says = lambda _: said
    with suppress(CoordinationError):
        CALLS[call](EtcdCoordinator([imposter.member], patience_s=1.0))
