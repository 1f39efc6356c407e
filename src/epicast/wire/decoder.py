"""A stream of bytes to messages, without copying what was received.

The decoder owns a block of memory; the transport receives into `get_buffer()` and says how much
came with `received(n)`. Batches in the messages are views of the block, so it lives as long as any
of them does. A block that nobody views any more is used again from its beginning: in the steady
state a connection works in one or two blocks that stay in the processor's cache. Only the beginning
of a frame that does not fit behind its predecessors is copied, to the start of a block.

Whether a block is still viewed is asked of the block itself: a bytearray refuses to change its
length while a view exists.
"""

from __future__ import annotations

from epicast.core import AnyMessage, BodyCodec, Buffer, WireError
from epicast.core.message import FRAME_HEADER_BYTES
from epicast.wire.frames import DEFAULT_MAX_FRAME_BYTES, PREFIX, decode_frame, frame_bytes
from epicast.wire.registry import UnknownType

DEFAULT_BLOCK_BYTES = 1 << 20
_MAX_RETIRED = 16
"""Blocks remembered in the hope that their last view goes away; more are left to their viewers."""
_NO_VIEW = memoryview(b"")


class FrameDecoder:
    """`get_buffer` and `received` in turn, or `feed` for bytes that are elsewhere already.

    Both return the messages that are complete; those of a type that is not known here are left out,
    and their type ids are in `unknown` until somebody takes them. Input that is not a frame sets
    `error`, after which every call raises it; messages that came before it are still returned,
    whatever the chunks were.
    """

    __slots__ = ("_block", "_block_bytes", "_codec", "_end", "_need", "_retired", "_start", "_view",
                 "error", "max_frame_bytes", "unknown")  # fmt: skip

    def __init__(
        self,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        block_bytes: int = DEFAULT_BLOCK_BYTES,
    ) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.error: WireError | None = None
        self.unknown: list[int] = []
        self._codec = BodyCodec()
        self._block_bytes = max(block_bytes, 4 * FRAME_HEADER_BYTES)
        self._block = bytearray()
        self._view = _NO_VIEW
        self._retired: list[bytearray] = []
        self._start = 0  # of what is not decoded yet
        self._end = 0  # of what was received
        self._need = 0  # bytes of the frame at _start as far as known

    @property
    def buffered_bytes(self) -> int:
        """How much of an incomplete frame is here."""
        return self._end - self._start

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Where to receive to; never empty, and to be filled from its beginning."""
        if self.error is not None:
            raise self.error
        if self._start == self._end:
            if self._start:
                # Rewinding early, not when the block is full, keeps the memory in use small.
                self._rewind()
            if len(self._block) - self._end < self._block_bytes // 4:
                self._change_block(0)
        elif self._start + self._need > len(self._block) and not self._rewind():
            self._change_block(self._need)
        return self._view[self._end :]

    def received(self, count: int) -> list[AnyMessage]:
        """`count` bytes were put at the beginning of the last buffer."""
        if self.error is not None:
            raise self.error
        self._end += count
        messages: list[AnyMessage] = []
        view, codec = self._view, self._codec
        start, end = self._start, self._end
        need = FRAME_HEADER_BYTES
        try:
            while end - start >= PREFIX.size:
                need = frame_bytes(view, start, self.max_frame_bytes)
                if end - start < need:
                    break
                try:
                    messages.append(decode_frame(view[start : start + need], codec))
                except UnknownType as unknown:
                    self.unknown.append(unknown.type_id)
                start += need
                need = FRAME_HEADER_BYTES
        except WireError as error:
            self.error = error
        self._start = start
        self._need = need
        return messages

    def feed(self, data: Buffer) -> list[AnyMessage]:
        """The same for bytes that are elsewhere already: copies them."""
        messages: list[AnyMessage] = []
        rest = memoryview(data)
        while rest:
            buffer = self.get_buffer()
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            del buffer  # or it would pin the block
            messages += self.received(count)
            if self.error is not None:
                break
            rest = rest[count:]
        return messages

    def _rewind(self) -> bool:
        """Move what is pending to the beginning of the block, if it fits and no one looks."""
        block, pending = self._block, self._end - self._start
        if self._need > len(block):
            return False
        self._view = _NO_VIEW
        unviewed = _unviewed(block)
        view = self._view = memoryview(block)
        if unviewed:
            view[:pending] = view[self._start : self._end]
            self._start, self._end = 0, pending
        return unviewed

    def _change_block(self, size: int) -> None:
        """Continue in another block, of at least `size` bytes, and take along what is pending."""
        pending = self._view[self._start : self._end]
        retired, standard = self._retired, self._block_bytes
        if len(self._block) == standard:
            retired.append(self._block)
        free = None
        if size <= standard:
            free = next((i for i, old in enumerate(retired) if _unviewed(old)), None)
        block = bytearray(max(size, standard)) if free is None else retired.pop(free)
        del retired[:-_MAX_RETIRED]
        self._block, self._view = block, memoryview(block)
        self._view[: len(pending)] = pending
        self._start, self._end = 0, len(pending)


def _unviewed(block: bytearray) -> bool:
    """Whether no view of the block exists, `BufferError` being how it says that one does."""
    if not block:
        return False
    try:
        last = block.pop()
    except BufferError:
        return False
    block.append(last)
    return True
