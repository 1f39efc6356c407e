from struct import pack_into

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import COORDINATION_ID, ConfigError, Peer, WireError
from epicast.wire import Handshake, Hello, VersionRange
from tests.unit.wire.mutations import repair_handshake
from tests.unit.wire.samples import u64

ALICE = Hello(Peer(1, "127.0.0.1", 7001), 5, "epicast")
BOB = Hello(Peer(2, "127.0.0.1", 7002), 1, "epicast")


def rejection(incoming: bytes, handshake: Handshake | None = None) -> WireError:
    with pytest.raises(WireError) as caught:
        (handshake or Handshake(ALICE)).received(incoming)
    return caught.value


@given(
    st.builds(
        Hello,
        st.builds(
            Peer,
            u64.filter(lambda i: i not in (0, 1, COORDINATION_ID)),
            st.text(max_size=200).filter(str.isprintable),
            st.integers(0, 65535),
        ),
        u64,
        st.just("epicast"),
    ),
    st.binary(max_size=20),
)
def test_any_chunks_introduce_the_peer(hello: Hello, behind: bytes) -> None:
    stream = Handshake(hello).outgoing
    handshake = Handshake(ALICE)
    for end in range(len(stream)):
        assert handshake.received(stream[:end]) == 0
        assert handshake.remote is None
    assert handshake.received(stream + behind) == len(stream)
    assert handshake.remote == hello
    assert handshake.version == 1


def test_expected_peer() -> None:
    handshake = Handshake(ALICE, expected=2)
    assert handshake.received(Handshake(BOB).outgoing)
    error = rejection(Handshake(BOB).outgoing, Handshake(ALICE, expected=3))
    assert error.reason == "handshake"
    assert "3 was expected" in error.detail


def test_wrong_magic_is_noticed_at_once() -> None:
    assert rejection(b"G").reason == "handshake"
    assert rejection(b"GET / HTTP/1.1\r\n").reason == "handshake"
    assert rejection(b"EPIZ").reason == "handshake"


def test_no_common_version() -> None:
    future = Handshake(BOB, versions=VersionRange(2, 4)).outgoing
    error = rejection(future[:8])
    assert error.reason == "unknown_version"
    assert "2..4" in error.detail


@pytest.mark.parametrize(
    ("ours", "theirs", "common"),
    [((1, 1), (1, 3), 1), ((1, 5), (2, 3), 3), ((3, 4), (1, 9), 4), ((2, 2), (2, 2), 2)],
)
def test_newest_common_version(ours: tuple[int, int], theirs: tuple[int, int], common: int) -> None:
    left = Handshake(ALICE, versions=VersionRange(*ours))
    right = Handshake(BOB, versions=VersionRange(*theirs))
    left.received(right.outgoing)
    right.received(left.outgoing)
    assert left.version == right.version == common


def test_other_cluster() -> None:
    error = rejection(Handshake(Hello(BOB.node, 1, "staging")).outgoing)
    assert error.reason == "handshake"
    assert "'staging'" in error.detail


def test_own_id() -> None:
    error = rejection(Handshake(ALICE).outgoing)
    assert error.reason == "handshake"
    assert "own id" in error.detail


def test_every_damaged_byte_is_noticed() -> None:
    good = Handshake(BOB).outgoing
    for position in range(len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 0x40
        try:
            taken = Handshake(ALICE).received(damaged)
        except WireError:
            continue
        assert taken == 0  # a longer greeting was announced: it waits for more


def test_greeting_too_long() -> None:
    damaged = bytearray(Handshake(BOB).outgoing)
    pack_into("<H", damaged, 8, 1025)
    assert rejection(damaged).reason == "handshake"


def test_later_entries_of_the_greeting_are_ignored() -> None:
    outgoing = bytearray(Handshake(BOB).outgoing)
    assert outgoing[16] == 0x94
    outgoing[16] = 0x96  # an array of six, whose fifth is no token
    outgoing += b"\xa0\xa3new"
    repair_handshake(outgoing)
    handshake = Handshake(ALICE)
    assert handshake.received(outgoing) == len(outgoing)
    assert handshake.remote == BOB


@pytest.mark.parametrize(
    "hello",
    [
        Hello(Peer(-1), 1, "epicast"),
        Hello(Peer(0), 1, "epicast"),
        Hello(Peer(2**64), 1, "epicast"),
        Hello(Peer(2, "h", 65536), 1, "epicast"),
        Hello(Peer(2), -1, "epicast"),
        Hello(Peer(2, "h" * 201), 1, "epicast"),
        Hello(Peer(2), 1, "c" * 201),
        Hello(Peer(2, "h\nalarm: all is lost"), 1, "epicast"),
        Hello(Peer(2), 1, "c\x1b[2J"),
        Hello(Peer(COORDINATION_ID), 1, "epicast"),
    ],
)
def test_impossible_introduction_is_a_configuration_error(hello: Hello) -> None:
    with pytest.raises(ConfigError, match="cannot introduce itself"):
        Handshake(hello)


def test_impossible_introduction_is_refused() -> None:
    outgoing = bytearray(Handshake(Hello(Peer(2, "h", 7), 1, "epicast")).outgoing)
    assert outgoing[17:22] == b"\x93\x02\xa1h\x07"
    outgoing[18] = 0xFF  # the id is -1
    repair_handshake(outgoing)
    error = rejection(outgoing)
    assert error.reason == "handshake"
    assert "cannot be read" in error.detail


def test_nobody_passes_for_the_coordination_service() -> None:
    """What it says goes: it decides who is in a chain."""
    outgoing = bytearray(Handshake(Hello(Peer(COORDINATION_ID - 1), 1, "epicast")).outgoing)
    place = outgoing.index((COORDINATION_ID - 1).to_bytes(8, "big"))
    outgoing[place : place + 8] = COORDINATION_ID.to_bytes(8, "big")
    repair_handshake(outgoing)
    assert "coordination service" in rejection(outgoing).detail
