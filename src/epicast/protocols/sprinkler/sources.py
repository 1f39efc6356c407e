"""Where a proxy gets the streams it does not own: the switching rule of Figure 1, corrected.

For each such stream a proxy is subscribed to at most one other proxy, any that is far enough. It
switches to another that is ahead by more than `C / (T - t)`: `t` is when the present source gave
its last sign of life. Deviations, see the errata: a subscription starts at the proxy's own counter;
every advertisement of the present source refreshes what is expected of it; a source that is lost or
silent is forgotten, and then whoever is not behind will do.

Ours, and why (decision 11 has more):

* Events are signs of life, too. An advertisement is old the moment it was sent: at a million events
  per second another's younger one exceeds it by any margin, and proxies would change sources all
  the time; while a link that swallows everything would be noticed only by advertisements that fail
  to come.
* There is silence only where there is usually none: for longer than it takes, as far as is known,
  from one sign of life to the next. A source whose window is full, or with a backlog to send, is
  given two periods.
* An advertisement that brings nothing new, while another proxy is known to be further, is no sign
  of life: the source may be cut off itself.
* Where events came and there is silence, everybody is asked. Otherwise it would take up to a period
  until another proxy says that it has more.
* Nobody is left at the first sight of a rival: first whatever else has arrived is handled. It may
  have been us who were away for a while.
* A source that has not got, in several periods, to where another one was then, is left for however
  few events.
* The owner is where a stream comes from most directly. A proxy that follows another goes back to
  it once it was ahead of what came here several times, and not behind in between. It is asked for
  that, so that it is known to hear us.
* A source that lives and sends nothing of what it has does not hear us. It is left as well, after a
  long time: it may be looking for old events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from epicast.core import NEVER, Effects, NodeId
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.expectations import Expectation, faded
from epicast.protocols.sprinkler.messages import Counter, Poll, Subscribe, Unsubscribe
from epicast.protocols.sprinkler.states import StreamState

_GRACE_PART = 20
"""Of a period: between the sight of a rival and leaving the source for it."""
_ASKING_PART = 4
"""Of a period: others are asked no more often."""
_PAUSE_NS = 50_000
"""Between checks, for each stream that is looked at: thousands must not cost all of the time."""


class Sources:
    def __init__(
        self,
        region: int,
        config: ProxyConfig,
        states: Mapping[int, StreamState],
        connected: Collection[NodeId],
        region_of: Callable[[NodeId], int],
    ) -> None:
        """`connected`: the other proxies within reach, at any time."""
        self._region_of = region_of
        self._config = config
        self._connected = connected
        self._patience_ns = config.silence * config.advertise_every_ns
        self._grace_ns = max(1, config.advertise_every_ns // _GRACE_PART)
        self._asked_at = -config.advertise_every_ns
        self._asked_owners: dict[NodeId, int] = {}
        """When each of them was, of whom we follow something elsewhere."""
        self._watched: dict[int, None] = {}
        """Streams that flow, or whose source has a rival."""
        self._not_before = 0
        self._looked_at = 0
        """When silent ones were looked for."""
        self._states = {s: state for s, state in states.items() if state.info.owner != region}
        """Of the streams that are followed."""
        self._numbers = {stream: at for at, stream in enumerate(states, 1)}
        self._latest: dict[int, NodeId] = {}
        """The present source of each stream, or the one before there was none."""
        self._silences: dict[tuple[int, NodeId], tuple[float, int]] = {}
        """By stream and source that was left: how long it can be silent, as of when. One that often
        is, for a moment, is not to be left each time."""
        self.check_at = NEVER
        """When `check` is due, or earlier."""
        self._expects = {stream: self._nobody(0, state) for stream, state in self._states.items()}
        self.switches = 0
        self.asks = 0

    def begin(self, now: int, state: StreamState) -> None:
        """Follow one more stream, which was owned here."""
        self._states[state.id] = state
        self._expects[state.id] = self._nobody(now, state)

    def end(self, now: int, stream: int, fx: Effects) -> None:
        """A stream is owned here from now on."""
        if stream in self._states:
            self.leave(now, stream, fx)
            del self._states[stream], self._expects[stream]
            self._watched.pop(stream, None)

    def source_of(self, stream: int) -> NodeId:
        expectation = self._expects.get(stream)
        return expectation.source if expectation is not None else 0

    def number_of(self, stream: int) -> int:
        """The number of our subscription to a stream."""
        return self._numbers[stream]

    # -- what is heard ---------------------------------------------------------------------------

    def delivered(self, now: int, stream: int) -> None:
        """Events have come from the source of a stream."""
        state, expects = self._states[stream], self._expects[stream]
        expects.delivered(now, state, self._config)
        self._watch(stream, expects.silent_from(state, self._config))

    def heard(
        self, now: int, peer: NodeId, counter: Counter, fx: Effects, *, answers: bool = False
    ) -> None:
        """`peer` has advertised that it is so far, or answers that."""
        state = self._states.get(counter.stream)
        if state is None or counter.epoch < state.epoch:
            return
        expects = self._expects[counter.stream]
        if state.epoch > expects.epoch:
            expects.enter(state.epoch, state.taken)
        is_owner = self._region_of(peer) == state.info.owner
        if expects.source == peer:
            expects.advertised(now, counter.epoch, counter.seq, state, self._config)
        elif not expects.source:
            # Who has nothing new brings us nothing, unless it is who will have it first.
            enough = state.end if is_owner else state.end + 1
            shunned = peer == expects.shunned and now - expects.heard_at < self._patience_ns
            if (counter.epoch, counter.seq) >= (state.epoch, enough) and not shunned:
                self._follow(now, peer, counter, state, fx)
        elif counter.epoch > expects.epoch:
            self._follow(now, peer, counter, state, fx)
        elif counter.epoch == expects.epoch:
            if is_owner and answers:
                expects.compare_owner(counter.seq, state)
            elif is_owner and counter.seq > state.taken and self._asked_owners.get(peer) != now:
                self._asked_owners[peer] = now
                fx.send(peer, Poll(now))
            if expects.owner_ahead >= self._config.silence:
                self._follow(now, peer, counter, state, fx)
            elif counter.seq > expects.reached(state):
                expects.outdo(now, peer, counter.seq)
                self._watch(state.id, max(now, self._leave_from(expects, state)))

    def _leave_from(self, expects: Expectation, state: StreamState) -> int:
        return expects.leave_from(state, self._config, self._grace_ns)

    # -- what follows ----------------------------------------------------------------------------

    def check(self, now: int, fx: Effects) -> None:
        """Leave sources that are waited for in vain; ask others where that may be so."""
        late = now - self.check_at > self._grace_ns
        self.check_at = NEVER
        if late:
            self.check_at = now + self._grace_ns  # it is us who were away: see what has arrived
            return
        self._not_before = now + _PAUSE_NS * len(self._watched)
        wants_to_ask = False
        watched, self._watched = self._watched, {}
        for stream in watched:
            state, expects = self._states[stream], self._expects[stream]
            at = self._leave_from(expects, state)
            if at <= now:
                counter = Counter(stream, expects.epoch, expects.rival_seq)
                self._follow(now, expects.rival, counter, state, fx)
                continue
            if expects.flows:
                ask_at = expects.ask_from(state, self._config)
                if ask_at <= now:
                    wants_to_ask = True
                    expects.asked += 1
                    ask_at = expects.ask_from(state, self._config)
                at = min(at, ask_at)
            if at < NEVER:
                self._watch(stream, at)
        if wants_to_ask:
            self._ask(now, fx)

    def _watch(self, stream: int, at: int) -> None:
        """Look at a stream at an instant, if not before."""
        self._watched[stream] = None
        self.check_at = min(self.check_at, max(at, self._not_before))

    def _ask(self, now: int, fx: Effects) -> None:
        """Everybody, the sources as well: that they say nothing new is a sign of life."""
        period = self._config.advertise_every_ns
        if self._connected and _ASKING_PART * (now - self._asked_at) >= period:
            self._asked_at = now
            self.asks += 1
            fx.send(list(self._connected), Poll(now))

    def _follow(
        self, now: int, peer: NodeId, counter: Counter, state: StreamState, fx: Effects
    ) -> None:
        expects, number = self._expects[state.id], self._numbers[state.id]
        if expects.source:
            fx.send(expects.source, Unsubscribe(number))
            silence = max(expects.longest_ns, now - expects.heard_at)
            self._silences[state.id, expects.source] = silence, now
        self.switches += self._latest.get(state.id, peer) != peer
        self._latest[state.id] = peer
        fx.send(
            peer, Subscribe(number, state.id, state.epoch, state.taken, self._config.window_bytes)
        )
        silence, as_of = self._silences.get((state.id, peer), (0.0, now))
        longest_ns = faded(silence, now - as_of, self._config)
        expects = Expectation(peer, counter.epoch, counter.seq, now, longest_ns)
        expects.delivered_at = now
        self._expects[state.id] = expects

    def resubscribe(self, stream: int, fx: Effects) -> None:
        """Something was missing, or could not be stored: have it sent again."""
        state, expects = self._states[stream], self._expects[stream]
        if expects.source:
            number = self._numbers[stream]
            fx.send(
                expects.source,
                Subscribe(number, stream, state.epoch, state.taken, self._config.window_bytes),
            )

    # -- nobody ----------------------------------------------------------------------------------

    def forget(self, now: int, peer: NodeId, fx: Effects) -> None:
        """A proxy is lost: others may take its place at once."""
        was_source = False
        for stream, expects in self._expects.items():
            if expects.source == peer:
                was_source = True
                self._expects[stream] = self._nobody(now, self._states[stream], expects)
            elif expects.rival == peer:
                expects.rival = expects.rival_seq = 0
        if was_source:
            self._ask(now, fx)

    def forget_silent(self, now: int, fx: Effects) -> None:
        """To be called once in a period."""
        before, self._looked_at = self._looked_at, now
        if now - before > max(2 * self._config.advertise_every_ns, self._patience_ns // 2):
            return  # it is us who were away: see what has arrived
        for stream, expects in self._expects.items():
            if not expects.source:
                expects.flows &= now - expects.heard_at <= self._patience_ns
            elif now - expects.heard_at > self._patience_ns:
                self.leave(now, stream, fx)
            elif expects.starves(now, self._states[stream], self._config):
                self.leave(now, stream, fx, shuns=True)

    def leave(self, now: int, stream: int, fx: Effects, *, shuns: bool = False) -> None:
        """Have no source until a proxy advertises; with `shuns`, rather another one than this."""
        expects = self._expects[stream]
        if expects.source:
            fx.send(expects.source, Unsubscribe(self._numbers[stream]))
            self._expects[stream] = self._nobody(now, self._states[stream], expects)
            self._expects[stream].shunned = expects.source if shuns else 0

    def _nobody(
        self, now: int, state: StreamState, before: Expectation | None = None
    ) -> Expectation:
        expects = Expectation(0, state.epoch, state.end, now)
        if before is not None and before.flows:
            expects.flows = True
            expects.longest_ns, expects.gaps = before.longest_ns, before.gaps
            self._watch(state.id, expects.silent_from(state, self._config))
        return expects
