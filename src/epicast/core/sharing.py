"""Connections and groups wanted by several topics of a node at once.

The driver knows one interest per peer and per group: it is asked when the first topic wants it and
told when the last one does not any more. What a topic is owed for its own `connect` is kept here.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from epicast.core.ids import NodeId

KeyT = TypeVar("KeyT", bound=Hashable)


class SharedLink:
    __slots__ = ("topics", "turn", "up")

    def __init__(self) -> None:
        self.up = False
        self.topics: dict[int, bool] = {}
        """Who is interested, in the order they said so, and whether they were told it is up."""
        self.turn = 0
        """Whose turn it is to use the link first."""


class SharedLinks:
    __slots__ = ("_links", "unanswered")

    def __init__(self) -> None:
        self._links: dict[NodeId, SharedLink] = {}
        self.unanswered: list[tuple[int, NodeId]] = []
        """Topics that asked for a peer that is up already: to be told at the end of the step."""

    def connect(self, topic: int, peer: NodeId) -> bool:
        """State an interest; whether it is the first in this peer."""
        link = self._links.get(peer)
        is_first = link is None
        if link is None:
            link = self._links[peer] = SharedLink()
        link.topics[topic] = False
        if link.up:
            self.unanswered.append((topic, peer))
        return is_first

    def disconnect(self, topic: int, peer: NodeId) -> bool:
        """End an interest; whether it was the last in this peer."""
        link = self._links.get(peer)
        if link is None or link.topics.pop(topic, None) is None or link.topics:
            return False
        del self._links[peer]
        return True

    def answer(self, topic: int, peer: NodeId) -> bool:
        """Whether a topic in `unanswered` is still owed its up; it counts as told then."""
        link = self._links.get(peer)
        if link is None or not link.up or link.topics.get(topic, True):
            return False
        link.topics[topic] = True
        return True

    def went_up(self, peer: NodeId) -> list[int]:
        """The topics to tell."""
        link = self._links.get(peer)
        if link is None:
            return []
        link.up = True
        waiting = [topic for topic, told in link.topics.items() if not told]
        link.topics = dict.fromkeys(link.topics, True)
        return waiting

    def went_down(self, peer: NodeId) -> list[int]:
        """The topics to tell; their interest is over, they may state it again."""
        link = self._links.pop(peer, None)
        return list(link.topics) if link is not None else []

    def turns(self, peer: NodeId) -> list[int]:
        """The topics interested in a peer, each time starting with another."""
        link = self._links.get(peer)
        if link is None:
            return []
        topics = list(link.topics)
        start = link.turn % len(topics)
        link.turn = start + 1
        return topics[start:] + topics[:start]

    def forget(self, topic: int) -> list[NodeId]:
        """End all interests of a topic; the peers nobody is interested in any more."""
        return [peer for peer in list(self._links) if self.disconnect(topic, peer)]

    def interests(self) -> dict[NodeId, list[int]]:
        return {peer: list(link.topics) for peer, link in self._links.items()}

    def __len__(self) -> int:
        return len(self._links)


class SharedInterest(Generic[KeyT]):
    """Plain counting, for what is answered by nothing: multicast groups."""

    __slots__ = ("_topics",)

    def __init__(self) -> None:
        self._topics: dict[KeyT, dict[int, None]] = {}

    def add(self, topic: int, key: KeyT) -> bool:
        """Whether it is the first interest in `key`."""
        is_first = key not in self._topics
        self._topics.setdefault(key, {})[topic] = None
        return is_first

    def remove(self, topic: int, key: KeyT) -> bool:
        """Whether it was the last interest in `key`."""
        topics = self._topics.get(key)
        if topics is None or topic not in topics:
            return False
        del topics[topic]
        if topics:
            return False
        del self._topics[key]
        return True

    def forget(self, topic: int) -> list[KeyT]:
        return [key for key in list(self._topics) if self.remove(topic, key)]
