"""How messages become bytes and back: frames on a stream, datagrams, the handshake. Pure code.

Byte layouts, limits, error reasons and the versioning policy are in `docs/wire.md`. Nothing here
touches a socket: an encoder returns buffers, a decoder owns the buffer a transport receives into,
the handshake says what to send and consumes what came.
"""

from epicast.wire.datagrams import (
    DATAGRAM_HEADER_BYTES,
    Datagram,
    decode_datagram,
    encode_datagram,
    pack_datagrams,
)
from epicast.wire.decoder import FrameDecoder
from epicast.wire.frames import DEFAULT_MAX_FRAME_BYTES, FrameEncoder
from epicast.wire.handshake import Handshake, Hello
from epicast.wire.registry import message_type, register, registered, type_id_of
from epicast.wire.versions import REASONS, WIRE_REVISION, WIRE_VERSION, VersionRange

__all__ = [
    "DATAGRAM_HEADER_BYTES", "DEFAULT_MAX_FRAME_BYTES", "REASONS", "WIRE_REVISION", "WIRE_VERSION",
    "Datagram", "FrameDecoder", "FrameEncoder", "Handshake", "Hello", "VersionRange",
    "decode_datagram", "encode_datagram", "message_type", "pack_datagrams", "register",
    "registered", "type_id_of",
]  # fmt: skip
