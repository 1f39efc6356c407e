"""What a subscription to a topic gives besides events."""

from __future__ import annotations

from msgspec import Struct

from epicast.core import Event


class Gap(Struct, frozen=True, gc=False):
    """So many events are missing here: given up, because this subscription had no room for them;
    or, if a source is named, a hole in the order of an ordered topic, which did not get them in
    time."""

    events: int
    source: int = 0
    """Whose events first..last are missing, in an ordered topic."""
    first: int = 0
    last: int = 0


class Confirmed(Struct, frozen=True, gc=False):
    """Of a subscription with early delivery: the oldest `events` of those not confirmed yet are in
    their final places. They are never revised."""

    events: int
    up_to: int = 0
    """How many are confirmed now: the first so many that the subscription gave and did not take
    back."""


class Revised(Struct, frozen=True, gc=False):
    """Of a subscription with early delivery: the newest `events` that it gave are void, since
    something else comes before them. What is right follows, from there on."""

    events: int
    after: int = 0
    """How many stand: the first so many that the subscription gave and did not take back."""


TopicItem = Event | Gap | Confirmed | Revised
