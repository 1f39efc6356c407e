"""What waits for the protocol's next step.

Input is handled in rounds. In a round downs come first, then ups, then messages grouped by source,
each in the order of arrival. A new round begins where this order would let a down or an up overtake
something of the same peer that came before it; there is rarely more than one.

At most one report (up or down) per peer waits at a time: a down replaces an up that was not told
yet, so that one answer follows each `connect`.
"""

from __future__ import annotations

from collections import deque

from epicast.core import AnyMessage, NodeId


class Round:
    __slots__ = ("downs", "messages", "ups")

    def __init__(self) -> None:
        self.downs: dict[NodeId, None] = {}
        self.ups: dict[NodeId, None] = {}
        self.messages: dict[NodeId, list[AnyMessage]] = {}


class Inbox:
    __slots__ = ("_reported", "rounds")

    def __init__(self) -> None:
        self.rounds: deque[Round] = deque()
        self._reported: dict[NodeId, Round] = {}

    def add_messages(self, source: NodeId, messages: list[AnyMessage]) -> None:
        newest = self._newest()
        waiting = newest.messages.get(source)
        if waiting is None:
            newest.messages[source] = messages
        else:
            waiting += messages

    def add_down(self, peer: NodeId) -> None:
        self.withdraw(peer)
        newest = self._newest()
        if peer in newest.messages or peer in newest.ups:
            newest = self._begin()
        newest.downs[peer] = None
        self._reported[peer] = newest

    def add_up(self, peer: NodeId) -> None:
        if peer in self._reported:
            return
        newest = self._newest()
        if peer in newest.messages:
            newest = self._begin()
        newest.ups[peer] = None
        self._reported[peer] = newest

    def withdraw(self, peer: NodeId) -> None:
        """Forget a report that the protocol does not want any more."""
        found = self._reported.pop(peer, None)
        if found is not None:
            found.downs.pop(peer, None)
            found.ups.pop(peer, None)

    def has_report(self, peer: NodeId) -> bool:
        return peer in self._reported

    def take_report(self, waiting: dict[NodeId, None]) -> NodeId:
        """The next peer of a round's downs or ups, which is told now."""
        peer = next(iter(waiting))
        del waiting[peer]
        del self._reported[peer]
        return peer

    def clear(self) -> None:
        self.rounds.clear()
        self._reported.clear()

    def __bool__(self) -> bool:
        return bool(self.rounds)

    def _newest(self) -> Round:
        return self.rounds[-1] if self.rounds else self._begin()

    def _begin(self) -> Round:
        fresh = Round()
        self.rounds.append(fresh)
        return fresh
