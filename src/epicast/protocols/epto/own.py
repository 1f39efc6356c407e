"""The events that a node itself has published to a topic, as every ball of it says."""

from __future__ import annotations

from msgspec import Struct


class OwnEvents(Struct):
    """Kept while a node leaves a topic and joins it again, so that its numbers and times go on.

    Peers report all earlier events of a publisher as missing if its `first_at` is later than their
    own beginning. A node that came back with a new `first_at` would make them report events that
    are from before their time.
    """

    published: int = 0
    """The number of the last event; 0 if there is none."""
    published_at: int = 0
    """The timestamp of the last event."""
    first_at: int = 0
    """The timestamp of the first event."""
