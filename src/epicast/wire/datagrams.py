"""Messages that may be lost, several to a packet.

    4 bytes magic "EPID", u16 wire version, u16 number of messages
    u64 id and u64 incarnation of the sender
    u32 crc32c of everything before and behind these 4 bytes
    the messages, each a frame as on a stream

There is no connection to remember a version or a sender for, so every datagram says both.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct as Layout
from typing import NamedTuple

from crc32c import crc32c

from epicast.core import COORDINATION_ID, AnyMessage, BodyCodec, Buffer, NodeId, WireError
from epicast.core.message import FRAME_HEADER_BYTES
from epicast.wire.frames import FrameEncoder, decode_frame, frame_bytes
from epicast.wire.registry import UnknownType
from epicast.wire.versions import WIRE_VERSION

MAGIC = b"EPID"
DEFAULT_MTU = 1400
"""Bytes of a whole datagram; below what an Ethernet frame leaves after IP and UDP headers."""

_HEADER = Layout("<4sHHQQI")
_UNCHECKED = Layout("<4sHHQQ")
_CHECKSUM = Layout("<I")
DATAGRAM_HEADER_BYTES = _HEADER.size
MAX_MESSAGES = 2**16 - 1


class Datagram(NamedTuple):
    source: NodeId
    incarnation: int
    messages: list[AnyMessage]
    unknown: tuple[int, ...] = ()
    """Type ids of messages that are not known here, and were left out."""


def encode_datagram(
    source: NodeId,
    incarnation: int,
    messages: Sequence[AnyMessage],
    mtu: int = DEFAULT_MTU,
) -> bytes:
    """All of the messages in one datagram; `WireError` if they do not fit."""
    encoder = FrameEncoder(mtu)
    frames = [b"".join(encoder.encode(message)) for message in messages]
    return join_frames(source, incarnation, frames, mtu)


def pack_datagrams(
    source: NodeId, incarnation: int, frames: Sequence[bytes], mtu: int = DEFAULT_MTU
) -> tuple[list[bytes], list[int]]:
    """As few datagrams as keep the order, and the positions of frames that fit into none."""
    room = mtu - DATAGRAM_HEADER_BYTES
    datagrams: list[bytes] = []
    oversized: list[int] = []
    waiting: list[bytes] = []
    size = 0
    for position, frame in enumerate(frames):
        if len(frame) > room:
            oversized.append(position)
            continue
        if waiting and (size + len(frame) > room or len(waiting) == MAX_MESSAGES):
            datagrams.append(join_frames(source, incarnation, waiting, mtu))
            waiting, size = [], 0
        waiting.append(frame)
        size += len(frame)
    if waiting:
        datagrams.append(join_frames(source, incarnation, waiting, mtu))
    return datagrams, oversized


def join_frames(source: NodeId, incarnation: int, frames: Sequence[bytes], mtu: int) -> bytes:
    """One datagram of frames that are encoded already."""
    if not 1 <= len(frames) <= MAX_MESSAGES:
        raise WireError("malformed", f"{len(frames)} messages in a datagram, 1..{MAX_MESSAGES}")
    body = b"".join(frames)
    if len(body) + DATAGRAM_HEADER_BYTES > mtu:
        raise WireError(
            "too_large",
            f"{len(frames)} messages make a datagram of {len(body) + DATAGRAM_HEADER_BYTES} bytes, "
            f"at most {mtu}; send less, or on a connection",
        )
    head = _UNCHECKED.pack(MAGIC, WIRE_VERSION, len(frames), source, incarnation)
    return head + _CHECKSUM.pack(crc32c(body, crc32c(head))) + body


def decode_datagram(data: Buffer, codec: BodyCodec | None = None) -> Datagram:
    """Sender and messages; batches are views of `data`. `WireError` if anything is wrong.

    Who decodes many keeps one `codec`: making it costs more than a datagram.
    """
    view = memoryview(data)
    if len(view) < DATAGRAM_HEADER_BYTES or bytes(view[:4]) != MAGIC:
        raise WireError("malformed", f"{len(view)} bytes that are no datagram of this protocol")
    _, version, count, source, incarnation, checksum = _HEADER.unpack_from(view)
    if version != WIRE_VERSION:
        raise WireError("unknown_version", f"a datagram of wire version {version}")
    covered = crc32c(view[: _UNCHECKED.size])
    if crc32c(view[DATAGRAM_HEADER_BYTES:], covered) != checksum:
        raise WireError("corrupt", "the checksum of a datagram does not match")
    if source == COORDINATION_ID:
        raise WireError("malformed", "a datagram in the coordination service's name")
    codec = codec or BodyCodec()
    messages: list[AnyMessage] = []
    unknown: list[int] = []
    start = DATAGRAM_HEADER_BYTES
    for _ in range(count):
        left = len(view) - start
        if left < FRAME_HEADER_BYTES:
            raise WireError("malformed", f"{count} messages announced, less found")
        size = frame_bytes(view, start, left)
        try:
            messages.append(decode_frame(view[start : start + size], codec))
        except UnknownType as error:
            unknown.append(error.type_id)
        start += size
    if start != len(view):
        raise WireError("malformed", f"{len(view) - start} bytes behind the last message")
    return Datagram(source, incarnation, messages, tuple(unknown))
