"""A proxy's answers to REQUEST: from the newest events at hand, or from history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from epicast.core import DATA, Effects, EventBatch, NodeId
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.cursors import stable_part
from epicast.protocols.sprinkler.messages import Answer, Request
from epicast.protocols.sprinkler.states import StreamState

_MAX_READS = 1024


class Requests:
    def __init__(self, config: ProxyConfig, states: Mapping[int, StreamState]) -> None:
        self._config = config
        self._states = states
        self._reads: dict[int, tuple[NodeId, Request]] = {}
        self._next_token = 1

    def handle(self, peer: NodeId, message: Request, fx: Effects) -> None:
        state = self._states.get(message.stream)
        if state is None or not 1 <= message.first <= message.last:
            fx.drop("request that makes no sense", peer, message.stream)
            return
        last = min(message.last, state.end)
        if message.epoch != state.epoch or message.first > last:
            self._answer(peer, state, message.first, message.last, (), fx)
            return
        found = state.recent.read(message.first, last, self._config.answer_bytes)
        if found and found[0].first == message.first:
            self._answer(peer, state, message.first, found[-1].last, found, fx)
        elif len(self._reads) < _MAX_READS:
            self._next_token += 2
            self._reads[self._next_token] = (peer, message)
            fx.read(message.stream, message.first, self._config.answer_bytes, self._next_token)
        else:
            fx.drop("too many requests", peer, message.stream, message.first, message.last)

    def on_read(self, token: int, batches: Sequence[EventBatch], fx: Effects) -> None:
        peer, message = self._reads.pop(token)
        state = self._states[message.stream]
        found = [
            batch if batch.last <= message.last else batch.slice(batch.first, message.last)
            for batch in stable_part(state, message.first, batches)
            if batch.first <= message.last
        ]
        last = found[-1].last if found else message.last
        self._answer(peer, state, message.first, last, found, fx)

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
