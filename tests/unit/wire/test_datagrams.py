from itertools import pairwise
from struct import pack_into

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import COORDINATION_ID, AnyMessage, WireError
from epicast.wire import (
    DATAGRAM_HEADER_BYTES,
    FrameEncoder,
    decode_datagram,
    encode_datagram,
    pack_datagrams,
)
from tests.unit.wire.mutations import repair_datagram, repair_frame
from tests.unit.wire.samples import Fields, Ping, messages, u64


def rejected(data: bytes | bytearray) -> str:
    with pytest.raises(WireError) as caught:
        decode_datagram(data)
    return caught.value.reason


@given(
    u64.filter(lambda i: i != COORDINATION_ID), u64, st.lists(messages(), min_size=1, max_size=5)
)
def test_roundtrip(source: int, incarnation: int, sent: list[AnyMessage]) -> None:
    data = encode_datagram(source, incarnation, sent, mtu=1 << 20)
    assert len(data) == DATAGRAM_HEADER_BYTES + sum(message.wire_size() for message in sent)
    assert decode_datagram(data) == (source, incarnation, sent, ())


def test_nobody_passes_for_the_coordination_service() -> None:
    assert rejected(encode_datagram(COORDINATION_ID, 1, [Ping()])) == "malformed"


def test_what_a_later_version_knows_is_passed_over() -> None:
    data = bytearray(encode_datagram(1, 2, [Ping(), Ping(), Fields(1, "", b"")]))
    second = DATAGRAM_HEADER_BYTES + Ping().wire_size()
    frame = data[second : second + Ping().wire_size()]
    frame[8:10] = b"\xff\xff"
    repair_frame(frame)
    data[second : second + len(frame)] = frame
    repair_datagram(data)
    found = decode_datagram(data)
    assert (found.messages, found.unknown) == ([Ping(), Fields(1, "", b"")], (65535,))


def test_mtu_is_kept() -> None:
    room = 1400 - DATAGRAM_HEADER_BYTES - Ping().wire_size()
    count = room // Ping().wire_size()
    assert len(encode_datagram(1, 1, [Ping()] * count)) <= 1400
    with pytest.raises(WireError) as caught:
        encode_datagram(1, 1, [Ping()] * (count + 2))
    assert caught.value.reason == "too_large"


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(60, 300))
def test_packing_keeps_order_and_bounds(sizes: list[int], mtu: int) -> None:
    encoder = FrameEncoder()
    sent = [Fields(number, "", bytes(size)) for number, size in enumerate(sizes)]
    frames = [b"".join(encoder.encode(message)) for message in sent]
    datagrams, oversized = pack_datagrams(7, 8, frames, mtu)
    assert oversized == [
        number for number, frame in enumerate(frames) if len(frame) > mtu - DATAGRAM_HEADER_BYTES
    ]
    assert all(len(datagram) <= mtu for datagram in datagrams)
    received = [message for datagram in datagrams for message in decode_datagram(datagram).messages]
    assert received == [m for number, m in enumerate(sent) if number not in oversized]
    for earlier, later in pairwise(datagrams):
        first = decode_datagram(later).messages[0].wire_size()
        assert len(earlier) + first > mtu, "the next message would have fitted"


def test_empty_datagram_is_not_made() -> None:
    with pytest.raises(WireError):
        encode_datagram(1, 1, [])
    assert pack_datagrams(1, 1, []) == ([], [])


def test_every_damaged_byte_is_noticed() -> None:
    good = encode_datagram(3, 1, [Ping(), Fields(1, "text", b"data")])
    for position in range(len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 0x40
        assert rejected(damaged) in ("corrupt", "malformed", "unknown_version")


def test_truncated() -> None:
    good = encode_datagram(3, 1, [Ping()])
    for end in range(len(good)):
        assert rejected(good[:end]) in ("corrupt", "malformed")


def test_other_version() -> None:
    data = bytearray(encode_datagram(3, 1, [Ping()]))
    pack_into("<H", data, 4, 2)
    repair_datagram(data)
    assert rejected(data) == "unknown_version"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_wrong_count(count: int) -> None:
    data = bytearray(encode_datagram(3, 1, [Ping(), Ping()]))
    pack_into("<H", data, 6, count)
    repair_datagram(data)
    assert rejected(data) == "malformed"


def test_frame_longer_than_the_datagram() -> None:
    data = bytearray(encode_datagram(3, 1, [Ping()]))
    pack_into("<I", data, DATAGRAM_HEADER_BYTES, 1000)
    repair_datagram(data)
    assert rejected(data) == "too_large"
