"""What a proxy expects of the source of one stream, and what tells it that it waits in vain."""

from __future__ import annotations

from msgspec import Struct

from epicast.core import NEVER, NodeId
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.states import StreamState

_SHORTEST_PART = 8
"""Of a period of advertisements: what nobody calls silence."""
_LONGER = 1.5
"""Than the longest gap of late: what is silence."""
_FEW = 8
"""Gaps, from which nothing can be concluded."""
_HUNGER = 10
"""Times the patience with a silent source: with one that may be reading history from a busy disk,
or does not hear us."""
_MEMORY = 64
"""Periods after which a gap does not count any more."""


class Expectation(Struct):
    """The paper's `expects`. `source` 0: nobody."""

    source: NodeId
    epoch: int
    seq: int
    """What it advertised last."""
    heard_at: int
    """The paper's time: when there was a sign of life."""
    longest_ns: float = 0.0
    """Between two signs of life while events flowed; what is long ago counts less and less."""
    gaps: int = 0
    """How many are known."""
    delivered_at: int = 0
    """When events came last, or it was subscribed to."""
    flows: bool = False
    """Events came, and it has not said since then that it has no more."""
    asked: int = 0
    """How often others were asked since there was a sign of life."""
    rival: NodeId = 0
    rival_seq: int = 0
    """Who was ahead of it, and by its latest advertisement where."""
    outdone_seq: int = 0
    outdone_at: int | None = None
    """Where somebody else was, and when we heard of it; None once this source got there, too."""
    owner_ahead: int = 0
    """Answers of the owner, if that is somebody else, that were ahead of what came here since one
    was behind it."""
    shunned: NodeId = 0
    """The source that was left last, because it sent nothing or events that cannot be stored."""

    def reached(self, state: StreamState) -> int:
        """As far as the source has shown to be."""
        return max(self.seq, state.taken) if state.epoch == self.epoch else self.seq

    def _lives(self, now: int, config: ProxyConfig) -> None:
        gap = now - self.heard_at
        if gap > 0 and self.flows:
            self.longest_ns = max(gap, faded(self.longest_ns, gap, config))
            self.gaps += 1
        self.heard_at = now
        self.asked = 0

    def advertised(
        self, now: int, epoch: int, seq: int, state: StreamState, config: ProxyConfig
    ) -> None:
        """The source has said that it is so far."""
        moved = (epoch, seq) > (self.epoch, self.seq)
        if not moved and state.taken >= seq:
            self.flows = False  # it is there, and has nothing
        if moved or self.outdone_at is None:
            self._lives(now, config)
        if epoch > self.epoch:
            self.enter(epoch, seq)
        self.seq = seq
        self._clear(state)

    def enter(self, epoch: int, seq: int) -> None:
        """Numbers of the epoch before are void."""
        self.epoch, self.seq = epoch, seq
        self.rival = self.rival_seq = self.outdone_seq = self.owner_ahead = 0
        self.outdone_at = None

    def delivered(self, now: int, state: StreamState, config: ProxyConfig) -> None:
        """Events have come from the source."""
        self._lives(now, config)
        self.delivered_at = now
        if state.epoch > self.epoch:
            self.enter(state.epoch, state.taken)
        self.flows = True
        self._clear(state)

    def outdo(self, now: int, peer: NodeId, seq: int) -> None:
        """Somebody else is ahead."""
        if self.outdone_at is None:
            self.outdone_seq, self.outdone_at = seq, now
        if peer == self.rival or seq > self.rival_seq:
            self.rival, self.rival_seq = peer, seq

    def compare_owner(self, seq: int, state: StreamState) -> None:
        """The owner, who is not the source, is so far."""
        if seq > state.taken:
            self.owner_ahead += 1
        elif seq < state.taken:
            self.owner_ahead = 0

    def _clear(self, state: StreamState) -> None:
        reached = self.reached(state)
        if reached >= self.outdone_seq:
            self.outdone_at = None
        if reached >= self.rival_seq:
            self.rival = self.rival_seq = 0

    def starves(self, now: int, state: StreamState, config: ProxyConfig) -> bool:
        """Whether the source has long had more and sends nothing, though we have stored all."""
        patience_ns = _HUNGER * config.silence * config.advertise_every_ns
        owes = (self.epoch, self.seq) > (state.epoch, state.taken)
        return owes and state.end == state.taken and now - self.delivered_at > patience_ns

    # -- when to act -----------------------------------------------------------------------------

    def silent_from(self, state: StreamState, config: ProxyConfig) -> int:
        """The instant from which on silence means something, unless there is a sign of life."""
        period = config.advertise_every_ns
        least = max(period / _SHORTEST_PART, _LONGER * self.longest_ns)
        owes = state.epoch == self.epoch and state.taken < self.seq
        if owes or 4 * state.hidden_bytes >= config.window_bytes or self.gaps < _FEW:
            # If it has more and does not send it, its window may be full, by our fault or because
            # the way is long. Then only advertisements tell, and one may be late.
            least = max(least, 2 * period)
        return self.heard_at + round(least)

    def ask_from(self, state: StreamState, config: ProxyConfig) -> int:
        """When others are to be asked: as soon as there is silence, then after twice as long."""
        silent_from = self.silent_from(state, config)
        return self.heard_at + ((silent_from - self.heard_at) << self.asked)

    def leave_from(self, state: StreamState, config: ProxyConfig, grace_ns: int) -> int:
        """When the source is to be left for its rival."""
        ahead = self.rival_seq - self.reached(state)
        if not self.rival or ahead <= 0:
            return NEVER
        margin_ns = round(config.hysteresis * 1e9 / ahead)
        by_margin = max(self.silent_from(state, config), self.heard_at + margin_ns)
        patience_ns = config.silence * config.advertise_every_ns
        since = self.heard_at if self.outdone_at is None else self.outdone_at
        return max(since + grace_ns, min(by_margin, since + patience_ns))


def faded(gap_ns: float, passed_ns: int, config: ProxyConfig) -> float:
    """What a gap still counts for when so much time has passed."""
    return gap_ns * max(0.0, 1 - passed_ns / (_MEMORY * config.advertise_every_ns))
