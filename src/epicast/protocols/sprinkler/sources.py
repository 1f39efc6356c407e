"""Where a proxy gets the streams it does not own: the switching rule of Figure 1, corrected.

For each such stream a proxy is subscribed to at most one other proxy, any that is far enough, and
remembers what that one advertised last and when. It switches to another that advertises more than
that by `C / (T - t)`. Deviations, see the errata: a subscription starts at the proxy's own counter;
every advertisement of the present source refreshes what is expected of it; a source that is lost or
silent is forgotten, and then whoever is not behind will do. And one that has had nothing new for
long while another has is left: it may be cut off itself, which no margin would ever show.

Ours: an advertisement is old the moment it was sent. At a million events per second another's
younger one exceeds it by any margin, and proxies would change sources all the time. So what is
compared is where the present source ought to be by now, at the pace it had, for up to two periods;
and the owner is left only when it is lost, silent or stuck.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from epicast.core import Effects, NodeId
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.messages import Counter, Subscribe, Unsubscribe
from epicast.protocols.sprinkler.states import StreamState


class Expectation(Struct):
    """`source` 0: nobody."""

    source: NodeId = 0
    seq: int = 0
    time: int = 0
    epoch: int = 0
    pace: float = 0.0
    """Events per nanosecond between its last two advertisements."""
    outdone_at: int | None = None
    """Since when another one is further and this one does not move."""


class Sources:
    def __init__(
        self, node: NodeId, config: ProxyConfig, states: Mapping[int, StreamState]
    ) -> None:
        self._config = config
        self._patience_ns = config.silence * config.advertise_every_ns
        self._foreseen_ns = 2 * config.advertise_every_ns
        self._states = {s: state for s, state in states.items() if state.info.owner != node}
        self._expects = {stream: Expectation() for stream in self._states}
        self._numbers = {stream: at for at, stream in enumerate(self._states, 1)}
        self._latest: dict[int, NodeId] = {}
        """The present source of each stream, or the one before there was none."""
        self.switches = 0

    def source_of(self, stream: int) -> NodeId:
        expectation = self._expects.get(stream)
        return expectation.source if expectation is not None else 0

    def number_of(self, stream: int) -> int:
        """The number of our subscription to a stream."""
        return self._numbers[stream]

    def heard(self, now: int, peer: NodeId, counter: Counter, fx: Effects) -> None:
        """`peer` has advertised that it is so far."""
        state = self._states.get(counter.stream)
        if state is None or counter.epoch < state.epoch:
            return
        expects = self._expects[counter.stream]
        if expects.source == peer:
            if (counter.epoch, counter.seq) > (expects.epoch, expects.seq):
                expects.outdone_at = None
            passed_ns = now - expects.time
            if passed_ns > 0:
                gained = counter.seq - expects.seq if counter.epoch == expects.epoch else 0
                expects.pace = max(0, gained) / passed_ns
            expects.seq, expects.time, expects.epoch = counter.seq, now, counter.epoch
            return
        if expects.source == 0:
            if counter.epoch == state.epoch and counter.seq < state.end:
                return
            nothing_new = (counter.epoch, counter.seq) == (state.epoch, state.end)
            if nothing_new and peer != state.info.owner:
                return  # nor is it who will have it first
        elif counter.epoch <= expects.epoch:
            if counter.epoch < expects.epoch or counter.seq <= expects.seq:
                return
            passed = (now - expects.time) / 1e9
            by_now = expects.seq + expects.pace * min(now - expects.time, self._foreseen_ns)
            far_ahead = (
                expects.source != state.info.owner  # who is ahead of everybody, whatever it seems
                and passed > 0
                and counter.seq > by_now + self._config.hysteresis / passed
            )
            if not far_ahead and not self._is_stuck(now, expects):
                return
        self._follow(now, peer, counter, state, fx)

    def _is_stuck(self, now: int, expects: Expectation) -> bool:
        """Another is further. Has the present source been outdone for long without moving?"""
        if expects.outdone_at is None:
            expects.outdone_at = now
        return now - expects.outdone_at > self._patience_ns

    def _follow(
        self, now: int, peer: NodeId, counter: Counter, state: StreamState, fx: Effects
    ) -> None:
        expects, number = self._expects[state.id], self._numbers[state.id]
        if expects.source:
            fx.send(expects.source, Unsubscribe(number))
        self.switches += self._latest.get(state.id, peer) != peer
        self._latest[state.id] = peer
        fx.send(
            peer, Subscribe(number, state.id, state.epoch, state.taken, self._config.window_bytes)
        )
        self._expects[state.id] = Expectation(peer, counter.seq, now, counter.epoch)

    def resubscribe(self, stream: int, fx: Effects) -> None:
        """Something was missing, or could not be stored: have it sent again."""
        state, expects = self._states[stream], self._expects[stream]
        if expects.source:
            number = self._numbers[stream]
            fx.send(
                expects.source,
                Subscribe(number, stream, state.epoch, state.taken, self._config.window_bytes),
            )

    def forget(self, now: int, peer: NodeId) -> None:
        """A proxy is lost: others may take its place at once."""
        for stream, expects in self._expects.items():
            if expects.source == peer:
                self._reset(now, stream)

    def forget_silent(self, now: int, fx: Effects) -> None:
        for stream, expects in self._expects.items():
            if expects.source and now - expects.time > self._patience_ns:
                self.leave(now, stream, fx)

    def leave(self, now: int, stream: int, fx: Effects) -> None:
        """Have no source until somebody advertises."""
        source = self._expects[stream].source
        if source:
            fx.send(source, Unsubscribe(self._numbers[stream]))
            self._reset(now, stream)

    def _reset(self, now: int, stream: int) -> None:
        self._expects[stream] = Expectation(0, self._states[stream].end, now)
