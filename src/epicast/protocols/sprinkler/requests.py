"""A proxy's answers to REQUEST: from the newest events at hand, or from history.

Answers wait while the link has no room for them, in the order they were asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from epicast.core import DATA, Effects, EventBatch, NodeId
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.cursors import visible_part
from epicast.protocols.sprinkler.messages import OF_REQUEST, Answer, Request, Restart
from epicast.protocols.sprinkler.rooms import Rooms
from epicast.protocols.sprinkler.states import StreamState

_MAX_READS = 1024
_MAX_WAITING = 256


class Requests:
    def __init__(self, config: ProxyConfig, states: Mapping[int, StreamState]) -> None:
        self._config = config
        self._states = states
        self._reads: dict[int, tuple[NodeId, Request]] = {}
        self._next_token = 1
        self._rooms = Rooms()
        self._waiting: dict[NodeId, deque[Request]] = {}
        """Who asked for what and cannot be answered now."""

    def handle(self, peer: NodeId, message: Request, fx: Effects) -> None:
        if message.stream not in self._states or not 1 <= message.first <= message.last:
            fx.drop("request that makes no sense", peer, message.stream)
            return
        waiting = self._waiting.get(peer)
        if waiting is None and self._serve(peer, message, fx):
            return
        if waiting is None:
            waiting = self._waiting[peer] = deque()
        if len(waiting) < _MAX_WAITING:
            waiting.append(message)
        else:
            fx.drop("too many requests", peer, message.stream, message.first, message.last)

    def ready(self, peer: NodeId, fx: Effects) -> None:
        """The link to a peer has room again."""
        waiting = self._waiting.get(peer)
        while waiting and self._serve(peer, waiting[0], fx):
            waiting.popleft()
        if waiting is not None and not waiting:
            del self._waiting[peer]

    def retry(self, fx: Effects) -> None:
        """Some time has passed since there was no room for something."""
        for peer in self._rooms.take_held_up():
            self.ready(peer, fx)

    def forget(self, peer: NodeId) -> None:
        self._waiting.pop(peer, None)

    def _serve(self, peer: NodeId, message: Request, fx: Effects) -> bool:
        """Answer, or have history read for it; False if there is no room for an answer."""
        state = self._states[message.stream]
        last = min(message.last, state.end)
        if message.epoch != state.epoch or message.first > last:
            self._answer(peer, state, message.first, message.last, (), fx)
            return True
        room = self._rooms.left(peer, fx)
        if room <= 0:
            self._rooms.hold_up(peer)
            return False
        most = min(self._config.answer_bytes, room)
        found = state.recent.read(message.first, last, most)
        if found and found[0].first == message.first:
            fitting = self._rooms.fitting(peer, found, room)
            if not fitting:
                return False
            self._answer(peer, state, message.first, fitting[-1].last, fitting, fx)
        elif len(self._reads) < _MAX_READS:
            self._next_token += 2
            self._reads[self._next_token] = (peer, message)
            fx.read(message.stream, message.first, most, self._next_token)
        else:
            fx.drop("too many requests", peer, message.stream, message.first, message.last)
        return True

    def on_read(self, token: int, batches: Sequence[EventBatch], fx: Effects) -> None:
        peer, message = self._reads.pop(token)
        state = self._states[message.stream]
        found = [
            batch if batch.last <= message.last else batch.slice(batch.first, message.last)
            for batch in visible_part(state, message.first, state.end, batches)
            if batch.first <= message.last
        ]
        start = batches[0].first if batches and batches[0].epoch == state.epoch else 0
        if message.epoch == state.epoch and message.first < start <= state.end:
            # Retention has dropped what was asked for: its subscribers have to be told.
            fx.send(peer, Restart(OF_REQUEST, state.id, state.epoch, start - 1), DATA)
        fitting = self._rooms.fitting(peer, found, self._rooms.left(peer, fx))
        if found and not fitting:  # the room was taken meanwhile
            self._waiting.setdefault(peer, deque()).appendleft(message)
            return
        last = fitting[-1].last if fitting else message.last
        self._answer(peer, state, message.first, last, fitting, fx)

    def _answer(
        self,
        peer: NodeId,
        state: StreamState,
        first: int,
        last: int,
        batches: Sequence[EventBatch],
        fx: Effects,
    ) -> None:
        fx.send(peer, Answer(state.counter, first, last, tuple(batches)), DATA)
