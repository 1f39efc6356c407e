"""Balls as they are made."""

from __future__ import annotations

from epicast.core import DATA, DATAGRAM
from epicast.core.effects import Channel
from epicast.protocols.epto.config import EptoConfig
from epicast.protocols.epto.store import EventStore

Parts = list[tuple[int, bytes]]
"""Entries and columns of each."""


def next_parts(
    store: EventStore, config: EptoConfig, ttl: int, repeats: bool
) -> tuple[Parts, Channel]:
    """What is sent in this round, in a few datagrams or else over connections, in larger parts. An
    entry that is larger than a datagram goes over connections, and what is sent with it."""
    room = config.max_datagram_bytes
    parts = store.next_ball(ttl, config.max_ball_bytes, repeats)
    if sum(len(columns) for _, columns in parts) > room * config.max_datagrams:
        return parts, DATA
    if len(parts) > 1 or any(len(columns) > room for _, columns in parts):
        parts = store.next_ball(ttl, room, repeats)
    return parts, DATAGRAM if all(len(columns) <= room for _, columns in parts) else DATA
