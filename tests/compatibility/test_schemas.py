"""Nobody changes what is on the wire or on disk without saying so."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from epicast.core import BodyCodec, Layered, Message, Peer
from epicast.wire import WIRE_REVISION, WIRE_VERSION, FrameDecoder, Handshake, Hello
from epicast.wire.datagrams import decode_datagram
from epicast.wire.versions import SPOKEN_VERSIONS
from tests.compatibility.recording import (
    FIXTURES,
    Recording,
    log_version,
    record_now,
    recordings,
    released,
)
from tests.compatibility.schemas import Dialect, current_schema, incompatibilities

ADVICE = (
    "messages are not what was recorded as wire version {0}.{1}. If older nodes can read them (new "
    "types, new fields at the end with a default), raise WIRE_REVISION, else WIRE_VERSION, in "
    "epicast/wire/versions.py; then: python -m tests.compatibility.recording wire"
)
SPOKEN = [
    recording
    for recording in recordings()
    if SPOKEN_VERSIONS.oldest <= recording.version <= SPOKEN_VERSIONS.newest
]
spoken = pytest.mark.parametrize("recorded", SPOKEN, ids=lambda recorded: recorded.name)


def test_messages_are_those_of_the_recorded_version() -> None:
    (newest,) = recordings()[-1:]
    assert (newest.version, newest.revision) == (WIRE_VERSION, WIRE_REVISION), (
        "this version was not recorded: python -m tests.compatibility.recording wire"
    )
    assert newest == record_now(), ADVICE.format(WIRE_VERSION, WIRE_REVISION)


def test_the_version_before_is_spoken() -> None:
    assert SPOKEN_VERSIONS.oldest <= max(1, WIRE_VERSION - 1)
    assert len(SPOKEN) > 1, "there is nothing to compare with"


def test_the_log_of_this_version_was_recorded() -> None:
    """That segments are the same bytes as then, tests/log/test_format.py sees to."""
    assert (FIXTURES / f"data-{log_version()}").is_dir(), (
        "this version of the log was not recorded: python -m tests.compatibility.recording data"
    )


@spoken
def test_what_was_recorded_can_still_be_read_and_written(recorded: Recording) -> None:
    assert incompatibilities(recorded.schema, current_schema()) == []


@spoken
def test_recorded_bytes_mean_what_they_meant(recorded: Recording) -> None:
    dialect = Dialect(recorded.schema)
    for number, frame in recorded.frames.items():
        then = _read_as_then(dialect, int(number), bytes.fromhex(frame))
        (now,) = FrameDecoder().feed(bytes.fromhex(frame))
        assert isinstance(now, Message) and type(now) is released()[int(number)]
        _assert_same(then, now)


@spoken
def test_bytes_of_today_meant_the_same_then(recorded: Recording) -> None:
    dialect = Dialect(recorded.schema)
    for number, frame in record_now().frames.items():
        if int(number) in dialect.messages:
            then = _read_as_then(dialect, int(number), bytes.fromhex(frame))
            (now,) = FrameDecoder().feed(bytes.fromhex(frame))
            _assert_same(then, now)


@spoken
def test_recorded_greetings_and_datagrams(recorded: Recording) -> None:
    handshake = Handshake(Hello(Peer(1), 1, "test"))
    assert handshake.received(bytes.fromhex(recorded.handshake))
    assert handshake.remote is not None and handshake.remote.node.host == "proxy.example"
    assert handshake.remote.revision == (recorded.revision if recorded.revision > 1 else 0)
    datagram = decode_datagram(bytes.fromhex(recorded.datagram))
    assert not datagram.unknown
    assert {str(_inner(message).type_id) for message in datagram.messages} < recorded.frames.keys()


def _inner(message: Message | Layered) -> Message:
    assert isinstance(message, Message)
    return message


def _read_as_then(dialect: Dialect, number: int, frame: bytes) -> Message:
    fields = int.from_bytes(frame[12:16], "little")
    return BodyCodec().decode(dialect.messages[number], memoryview(frame)[16:], fields)


def _assert_same(then: Any, now: Any) -> None:
    """Everything the older side knows of is the same."""
    if isinstance(then, msgspec.Struct):
        for name in then.__struct_fields__:
            _assert_same(getattr(then, name), getattr(now, name))
    elif isinstance(then, tuple):
        assert len(then) == len(now)
        for old, new in zip(then, now, strict=True):
            _assert_same(old, new)
    else:
        assert then == now


# -- the comparison itself -------------------------------------------------------------------------


def _changed(change: Any) -> list[str]:
    schema = current_schema()
    later = copy.deepcopy(schema)
    change(later)
    return incompatibilities(schema, later)


def test_what_may_change_within_a_version() -> None:
    def add(schema: Any) -> None:
        schema["messages"]["127"] = {"name": "Later", "fields": [["x", "int"]]}
        schema["messages"]["72"]["fields"].append(["committed", "tuple[Counter, ...]", "optional"])
        schema["structs"]["StreamInfo"]["fields"].append(["tail", "int", "optional"])
        schema["greeting"].append(["says", "str", "optional"])

    assert _changed(add) == []


@pytest.mark.parametrize(
    ("problem", "change"),
    [
        ("is gone", lambda s: s["messages"].pop("64")),
        ("is gone", lambda s: s["structs"].pop("Counter")),
        ("begins with", lambda s: s["messages"]["74"]["fields"].reverse()),
        ("begins with", lambda s: s["messages"]["74"]["fields"].pop()),
        ("begins with", lambda s: s["structs"]["Counter"]["fields"].insert(0, ["a", "int"])),
        (
            "begins with",
            lambda s: s["messages"]["73"]["fields"].__setitem__(0, ["asked_at", "str"]),
        ),
        ("no default", lambda s: s["messages"]["73"]["fields"].append(["more", "int"])),
        ("no default", lambda s: s["greeting"].append(["more", "int"])),
        ("numbers an older", lambda s: s["structs"]["RefusalCode"]["numbers"].append(99)),
    ],
)
def test_what_needs_a_new_version(problem: str, change: Any) -> None:
    assert [found for found in _changed(change) if problem in found]
