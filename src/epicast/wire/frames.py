"""One message as bytes: a header, the layers it is addressed through, its body.

    u32 length of everything after the first 8 bytes
    u32 crc32c of everything after these first 8 bytes
    u16 type id, u8 depth, u8 flags (0), u32 length of the fields
    depth x u32 layer indices, outermost first
    the fields, then the bytes of the event batches, see `epicast.core.message`

Batches are never copied: an encoded frame is a list of buffers, a decoded batch a view of the
buffer the frame was received in.
"""

from __future__ import annotations

from struct import Struct as Layout

from crc32c import crc32c

from epicast.core import AnyMessage, BodyCodec, Buffer, Layered, WireError
from epicast.core.message import FRAME_HEADER_BYTES, LAYER_BYTES, MAX_LAYERS
from epicast.wire.registry import message_type, type_id_of

DEFAULT_MAX_FRAME_BYTES = 64 << 20

PREFIX = Layout("<II")
"""Length and checksum; the length counts from behind them."""
HEADER = Layout("<IIHBBI")
_REST = Layout("<HBBI")
_LAYERS = [Layout(f"<{depth}I") for depth in range(MAX_LAYERS + 1)]

assert HEADER.size == FRAME_HEADER_BYTES


class FrameEncoder:
    """Messages to buffers. Keeps state during a call: one per thread."""

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._codec = BodyCodec()

    def encode(self, message: AnyMessage) -> list[Buffer]:
        """Buffers to be written one after the other, the first of them small."""
        layers: list[int] = []
        while isinstance(message, Layered):
            layers.append(message.layer)
            message = message.message
        depth = len(layers)
        if depth > MAX_LAYERS:
            raise WireError("malformed", f"{depth} layers around a message, at most {MAX_LAYERS}")
        buffers = self._codec.encode(message)
        fields = buffers[0]
        head = _REST.pack(type_id_of(message), depth, 0, len(fields))
        if depth:
            head += _LAYERS[depth].pack(*layers)
        head += fields
        length = len(head)
        checksum = crc32c(head)
        for buffer in buffers[1:]:
            length += len(buffer)
            checksum = crc32c(buffer, checksum)
        if length + PREFIX.size > self.max_frame_bytes:
            raise WireError(
                "too_large",
                f"{type(message).__name__} takes {length + PREFIX.size} bytes, at most "
                f"{self.max_frame_bytes}; send it in parts",
            )
        buffers[0] = PREFIX.pack(length, checksum) + head
        return buffers


def frame_bytes(buffer: Buffer, start: int, max_frame_bytes: int) -> int:
    """The length of the frame whose prefix is at `start`, checked against its bounds."""
    length: int = PREFIX.unpack_from(buffer, start)[0]
    total = length + PREFIX.size
    if total < FRAME_HEADER_BYTES:
        raise WireError("malformed", f"a frame of {total} bytes, at least {FRAME_HEADER_BYTES}")
    if total > max_frame_bytes:
        raise WireError("too_large", f"a frame of {total} bytes, at most {max_frame_bytes}")
    return total


def decode_frame(frame: memoryview, codec: BodyCodec) -> AnyMessage:
    """The message of one whole frame; its batches are views of `frame`."""
    _, checksum, type_id, depth, flags, fields_bytes = HEADER.unpack_from(frame)
    if crc32c(frame[PREFIX.size :]) != checksum:
        raise WireError("corrupt", f"the checksum of a frame of {len(frame)} bytes does not match")
    if flags:
        raise WireError("malformed", f"flags {flags:#x}; this version knows none")
    message_class = message_type(type_id)
    if depth > MAX_LAYERS:
        raise WireError("malformed", f"{depth} layers around a message, at most {MAX_LAYERS}")
    body_at = FRAME_HEADER_BYTES + LAYER_BYTES * depth
    if body_at + fields_bytes > len(frame):
        raise WireError(
            "malformed",
            f"{depth} layers and {fields_bytes} bytes of fields in a frame of {len(frame)} bytes",
        )
    message: AnyMessage = codec.decode(message_class, frame[body_at:], fields_bytes)
    if depth:
        for layer in reversed(_LAYERS[depth].unpack_from(frame, FRAME_HEADER_BYTES)):
            message = Layered(layer, message)
    return message
