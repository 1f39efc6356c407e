"""One message to bytes and back, and what the size is promised to be."""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from struct import pack_into
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct
from msgspec.structs import fields

import epicast
from epicast.core import AnyMessage, BodyCodec, EventBatch, Layered, Message, WireError
from epicast.wire import REASONS, FrameEncoder, registered
from epicast.wire.frames import decode_frame
from tests.unit.wire.samples import Events, Fields, Ping, batches, messages
from tests.unit.wire.seeds import seed_messages

ENCODER = FrameEncoder()


def frame_of(message: AnyMessage) -> bytearray:
    return bytearray(b"".join(ENCODER.encode(message)))


def repaired(frame: bytearray) -> bytearray:
    pack_into("<II", frame, 0, len(frame) - 8, crc32c(memoryview(frame)[8:]))
    return frame


def decoded(frame: bytearray) -> AnyMessage:
    return decode_frame(memoryview(frame), BodyCodec())


def rejected(frame: bytearray) -> str:
    with pytest.raises(WireError) as caught:
        decoded(frame)
    assert caught.value.reason in REASONS
    return caught.value.reason


@given(messages())
def test_roundtrip(message: AnyMessage) -> None:
    frame = frame_of(message)
    assert len(frame) == message.wire_size()
    assert decoded(frame) == message


def test_layout() -> None:
    frame = frame_of(Layered(3, Layered(5, Ping())))
    assert (
        frame.hex(" ", -4)
        == (
            "11000000 "  # 17 bytes follow the prefix
            f"{crc32c(memoryview(frame)[8:]).to_bytes(4, 'little').hex()} "
            "00ff0200 "  # type 65280, depth 2, no flags
            "01000000 "  # one byte of fields
            "03000000 05000000 "  # layers, outermost first
            "90"  # an empty array
        )
    )


def test_batches_are_not_copied_in_either_direction() -> None:
    batch = EventBatch.build(1, 1, [b"payload"] * 10)
    buffers = ENCODER.encode(Events(batch))
    assert buffers[1] is batch.encode()[0]
    frame = bytearray(b"".join(buffers))
    message = decoded(frame)
    assert isinstance(message, Events)
    frame[-1] = ord("X")
    assert message.batch.payloads()[-1] == b"payloaX"


def within(kind: Any, meta: Meta) -> st.SearchStrategy[Any]:
    """Values that are in the range of a field."""
    if meta.max_length is not None:
        return values(kind) if kind is not str else st.text(max_size=meta.max_length)
    assert kind is int, "no values for this type"
    return st.integers(meta.ge, 2**64 - 1 if meta.le is None else meta.le)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type, as far as message types use them."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return within(*arguments)
    if kind is int:
        return st.integers(0, 2**63 - 1)
    if kind is str:
        return st.text(max_size=10)
    if kind is EventBatch:
        return batches()
    if isinstance(kind, type) and issubclass(kind, Struct):
        return st.builds(kind, *(values(field.type) for field in fields(kind)))
    if origin is tuple and arguments[-1] is not ...:
        return st.tuples(*map(values, arguments))
    if origin in (list, tuple, Sequence):
        return st.lists(values(arguments[0]), max_size=3).map(tuple if origin is tuple else list)
    if origin in (dict, Mapping):
        return st.dictionaries(*map(values, arguments), max_size=3)
    if origin in (Union, UnionType):
        return st.one_of(*map(values, arguments))
    return st.from_type(kind)


def import_all_messages() -> None:
    for module in pkgutil.walk_packages(epicast.__path__, "epicast."):
        if module.name.rpartition(".")[2] == "messages":
            importlib.import_module(module.name)


import_all_messages()


@pytest.mark.parametrize("message_class", registered().values(), ids=lambda c: c.__name__)
def test_size_of_every_registered_type(message_class: type[Message]) -> None:
    @given(values(message_class))
    @settings(max_examples=20)
    def check(message: Message) -> None:
        frame = frame_of(message)
        assert len(frame) == message.wire_size()
        assert decoded(frame) == message

    check()


def test_size_of_seeds() -> None:
    for message in seed_messages().values():
        assert len(frame_of(message)) == message.wire_size()


def test_wrong_checksum() -> None:
    for position in range(4, len(frame_of(Ping()))):
        frame = frame_of(Ping())
        frame[position] ^= 0x10
        assert rejected(frame) == "corrupt"


def test_unknown_type() -> None:
    frame = frame_of(Ping())
    pack_into("<H", frame, 8, 65535)
    assert 65535 not in registered()
    assert rejected(repaired(frame)) == "unknown_type"


def test_flags_are_reserved() -> None:
    frame = frame_of(Ping())
    frame[11] = 1
    assert rejected(repaired(frame)) == "malformed"


def test_too_many_layers() -> None:
    message: AnyMessage = Ping()
    for layer in range(9):
        message = Layered(layer, message)
    with pytest.raises(WireError, match="9 layers"):
        ENCODER.encode(message)
    frame = frame_of(Ping())
    frame[10] = 9
    frame += bytes(36)
    assert rejected(repaired(frame)) == "malformed"


@pytest.mark.parametrize("fields", [0, 2, 2**32 - 1])
def test_wrong_length_of_fields(fields: int) -> None:
    frame = frame_of(Ping())
    pack_into("<I", frame, 12, fields)
    assert rejected(repaired(frame)) == "malformed"


def test_layers_beyond_the_frame() -> None:
    frame = frame_of(Ping())
    frame[10] = 8
    assert rejected(repaired(frame)) == "malformed"


def test_wrong_field_type() -> None:
    frame = frame_of(Fields(1, "text", b""))
    frame[17] = 0xC3  # the number is true
    assert rejected(repaired(frame)) == "malformed"


def test_bytes_left_over() -> None:
    frame = frame_of(Events(EventBatch.build(1, 1, [b"a"])))
    frame += b"more"
    assert rejected(repaired(frame)) == "malformed"


def test_encoder_keeps_the_limit() -> None:
    encoder = FrameEncoder(max_frame_bytes=1000)
    encoder.encode(Fields(0, "", bytes(950)))
    with pytest.raises(WireError) as caught:
        encoder.encode(Fields(0, "", bytes(1000)))
    assert caught.value.reason == "too_large"
