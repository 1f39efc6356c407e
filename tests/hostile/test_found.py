"""Messages that hostile storms found to do harm; the seeds are gone, the messages are kept."""

from __future__ import annotations

import pytest

from epicast.core import BodyCodec, EventBatch, Message, Peer, WireError
from epicast.protocols.cyclon.messages import Entry, ShuffleRequest
from epicast.protocols.lpbcast.messages import Announcement, EventRange, Gossip, Notification
from epicast.protocols.lpbcast.messages import Subscription as Membership
from epicast.protocols.pbcast.messages import Pass, Passed
from epicast.protocols.sprinkler.messages import Publish
from epicast.wire import FrameEncoder
from epicast.wire.frames import decode_frame

MOST = 2**64 - 1
PEER = Peer(7)
BATCH = EventBatch.build(7, 1, [b"x"])


@pytest.mark.parametrize(
    "message",
    [
        ShuffleRequest(PEER, 1, (Entry(PEER, MOST),)),
        Gossip(events=(Notification(MOST, BATCH),)),
        Gossip(announced=(Announcement(MOST, EventRange(7, 1, 1)),)),
        Gossip(announced=(Announcement(1, EventRange(7, 1, MOST)),)),
        Gossip(subscriptions=(Membership(PEER, -1),)),
        Pass((Passed(1, MOST, BATCH),)),
        Pass((Passed(MOST, 1, BATCH),)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_is_counted_on_does_not_overflow(message: Message) -> None:
    """The next message with the number plus one could not be encoded."""
    frame = b"".join(FrameEncoder().encode(message))
    with pytest.raises(WireError, match="malformed"):
        decode_frame(memoryview(frame), BodyCodec())


def test_nobody_publishes_as_number_0() -> None:
    """Histories take that for a publisher they do not know any more: what it repeats is stored."""
    frame = b"".join(FrameEncoder().encode(Publish(7, 0, 1, 0, "", (), BATCH)))
    with pytest.raises(WireError, match="malformed"):
        decode_frame(memoryview(frame), BodyCodec())
