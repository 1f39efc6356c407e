"""Messages: small structs, encoded once however many peers they go to.

A body is the message's fields as a MessagePack array, followed by the bytes of the event batches
it holds (the frame header says where the fields end). A batch field is encoded as its length only;
its buffers are handed out as they are, to be written behind the fields. Decoding slices them back
out of the received buffer.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import MsgspecError, Struct, ValidationError
from msgspec.msgpack import Decoder, Encoder

from epicast.core.batch import EventBatch
from epicast.core.batch_layout import Buffer
from epicast.core.errors import BatchError, WireError

FRAME_HEADER_BYTES = 16
"""What a frame adds to a body, see `epicast.wire`."""
LAYER_BYTES = 4
"""What one `Layered` wrapper adds."""
MAX_LAYERS = 8
"""How deep `Layered` wrappers may nest: host, topic, stack and some air."""


class Message(Struct, array_like=True):
    """Base of everything that crosses a link. Never changed once sent: receivers may share it."""

    type_id: ClassVar[int] = -1
    """Set by `epicast.wire.register`; identifies the type on the wire."""
    datagrams: ClassVar[bool] = True
    """Whether it is accepted from a datagram, whose sender is not known for certain."""

    def wire_size(self) -> int:
        """Bytes on the wire, frame included: what the network sends and the simulator counts."""
        return FRAME_HEADER_BYTES + _size_codec.body_size(self)


class Layered(Struct, gc=False):
    """A message addressed to one layer of a stack or one topic of a host."""

    layer: int
    message: AnyMessage

    def wire_size(self) -> int:
        return LAYER_BYTES + self.message.wire_size()


AnyMessage = Message | Layered

_NOTHING = memoryview(b"")


class BodyCodec:
    """Bodies to buffers and back. Keeps state during a call: one per thread."""

    def __init__(self) -> None:
        self._encoder = Encoder(enc_hook=self._put_batch)
        self._decoders: dict[type[Message], Decoder[Any]] = {}
        self._attached: list[Buffer] = []
        self._rest = _NOTHING

    def encode(self, message: Message) -> list[Buffer]:
        """The buffers of the body: the fields first, then those of the batches."""
        attached = self._attached = [b""]
        attached[0] = self._encoder.encode(message)
        self._attached = []  # a buffer remembered here would stay pinned until the next message
        return attached

    def body_size(self, message: Message) -> int:
        return sum(map(len, self.encode(message)))

    def decode(self, message_type: type[Message], body: memoryview, fields_bytes: int) -> Message:
        """The message, its batches being views of `body`; `WireError` if it is not one."""
        decoder = self._decoders.get(message_type)
        if decoder is None:
            decoder = Decoder(message_type, dec_hook=self._take_batch)
            self._decoders[message_type] = decoder
        self._rest = body[fields_bytes:]
        try:
            message: Message = decoder.decode(body[:fields_bytes])
        except (BatchError, MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise WireError("malformed", f"{message_type.__name__}: {error}") from error
        left = len(self._rest)
        self._rest = _NOTHING  # even an empty view would pin the received buffer
        if left:
            raise WireError("malformed", f"{message_type.__name__}: {left} bytes left")
        return message

    def _put_batch(self, value: object) -> int:
        if not isinstance(value, EventBatch):
            raise TypeError(f"a message cannot carry {type(value).__name__}")
        buffers = value.encode()
        self._attached.extend(buffers)
        return sum(map(len, buffers))

    def _take_batch(self, wanted: type, value: object) -> EventBatch:
        if wanted is not EventBatch:
            raise ValidationError(f"a message cannot carry {wanted.__name__}")
        if not isinstance(value, int) or not 0 <= value <= len(self._rest):
            raise ValidationError(f"a batch of {value!r} bytes where {len(self._rest)} are left")
        batch = EventBatch.decode(self._rest[:value])
        self._rest = self._rest[value:]
        return batch


_size_codec = BodyCodec()
