"""Which numbers peers may state: checked where a message or a batch is decoded, and nowhere else.

A sequence number is at most `MAX_SEQ`, a quarter of what fits into 64 bits. So no sum of two of
them can overflow, in plain Python, in a column or on the wire, and nothing behind the decoder has
to ask. MessagePack has no numbers of more than 64 bits; ids use all of them.
"""

from typing import Annotated

from msgspec import Meta

MAX_SEQ = 2**62
MAX_EPOCH = 2**32 - 1

Id = Annotated[int, Meta(ge=0)]
"""The id of a node, region or stream, or any number that only its sender interprets."""
Publisher = Annotated[int, Meta(ge=1)]
"""The id of a publisher. In a batch, 0 stands for a publisher that is no longer known."""
Seq = Annotated[int, Meta(ge=0, le=MAX_SEQ)]
"""A sequence number, or a count; 0 where there is none."""
Epoch = Annotated[int, Meta(ge=0, le=MAX_EPOCH)]
"""The epoch of a stream; a batch has 32 bits for it."""
Positive = Annotated[int, Meta(ge=1, le=MAX_SEQ)]
Nanoseconds = Annotated[int, Meta(ge=0, le=MAX_SEQ)]
