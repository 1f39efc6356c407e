"""Who is in the chain: found out from neighbours, decided by compare-and-set.

Every replica tells all others regularly that it is there. A member whose neighbour is silent, was
started again, or says that it cannot store, proposes the chain without it; so two that do not hear
each other cannot both stay. Proposals name the configuration they change, so of several at most one
succeeds. One whose outcome is not known is made again in the same words until it is.

A member that was started again may have lost what it had in memory, and is not the member any more:
it waits to be removed, and joins at the end like any newcomer. If nobody removes it and no member
is heard of any more, nobody who was a member is left: then one of those who were goes on alone,
which `resuming` says. While a member is heard of, nobody does, however long that one takes to reach
the coordination service: it has everything, and who was started again may not. Nor does anybody
while another is heard of that has more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from epicast.core import COORDINATION_ID, DATA, ConfigError, Effects, NodeId, Peer, Recovered
from epicast.protocols.coordination import Put, PutAnswer, View, Watch
from epicast.protocols.sprinkler.alarms import Alarm, AlarmKind
from epicast.protocols.sprinkler.chain.configuration import (
    ChainConfig,
    ChainPlan,
    Member,
    decode_config,
    encode_config,
)
from epicast.protocols.sprinkler.chain.messages import Beat, Link, Place
from epicast.protocols.sprinkler.chain.resuming import Candidates, Told
from epicast.protocols.sprinkler.config import ProxyConfig

_SAVED = "chain"
"""Under this name replicas note that they are members: who has the note has the history as well."""
_WATCH_EVERY_NS = 2_000_000_000
_ASK_EVERY_NS = 50_000_000
_DOUBTFUL_WAITS = 10
"""Times `resume_after_ns`: how much longer who may lack what was on disk waits for the others."""


class Proposal(Struct):
    request: int
    config: ChainConfig
    revision: int
    """Of the configuration it changes."""
    sent_at: int


class Keeper:
    def __init__(self, node: Peer, config: ProxyConfig, plan: ChainPlan) -> None:
        self._me = node.id
        self._config = config
        self._plan = plan
        self._order = [peer.id for peer in plan.replicas]
        self.chain = ChainConfig()
        self.incarnation = 0
        self._revision: int | None = None
        """Of the chain's configuration; 0 if there is none, None if that is not known."""
        self._behind = False
        """There is a newer one."""
        self._adopted_at = self._started_at = self._answered_at = 0
        self._saved = False
        self._proposal: Proposal | None = None
        self._requests = 0
        self._asked_at: int | None = None
        self._up: dict[NodeId, None] = {}
        self._heard: dict[NodeId, tuple[int, int]] = {}
        """By replica: its incarnation, and when it was last heard of."""
        self.candidates = Candidates()
        self._synced: frozenset[int] = frozenset()
        """The region's own streams that promise to be on disk."""
        self.ailing = False
        """This replica cannot store at the moment."""
        self._ailing: set[NodeId] = set()
        """Other replicas that said the same."""
        self._broken: dict[NodeId, int] = {}
        """Since when there is no connection to a replica that was heard of."""

    # -- where things stand ----------------------------------------------------------------------

    @property
    def place(self) -> int | None:
        """Where in the chain this replica is, if it is."""
        place = self.chain.place_of(self._me)
        if place is None or self.chain.members[place].incarnation != self.incarnation:
            return None
        return place

    def is_up(self, replica: NodeId) -> bool:
        return replica in self._up

    @property
    def proposes(self) -> bool:
        return self._proposal is not None

    @property
    def proposed(self) -> ChainConfig | None:
        return self._proposal.config if self._proposal is not None else None

    # -- life ------------------------------------------------------------------------------------

    def start(self, now: int, recovered: Recovered, fx: Effects) -> None:
        self.incarnation = recovered.incarnation
        self._saved = _SAVED in recovered.saved
        self._adopted_at = self._started_at = self._answered_at = now
        fx.know(Peer(COORDINATION_ID))
        self._ask(now, fx)

    def peer_up(self, peer: NodeId) -> None:
        self._up[peer] = None
        self._broken.pop(peer, None)

    def peer_down(self, now: int, peer: NodeId) -> None:
        self._up.pop(peer, None)
        self._broken.setdefault(peer, now)

    def tick(self, now: int, fx: Effects) -> None:
        unsure = self._behind or self._revision is None
        patience = self._config.suspect_after_ns if unsure else _WATCH_EVERY_NS
        if self._asked_at is None or now - self._asked_at >= patience:
            self._ask(now, fx)
        if self._up:
            fx.send(list(self._up), self._beat())
        proposal = self._proposal
        if proposal is not None:
            if now - proposal.sent_at >= self._config.suspect_after_ns:
                self._send(now, proposal, fx)
        elif not unsure:
            wanted = self._wanted(now)
            if wanted is not None:
                self.propose(now, wanted, fx)

    def heard(self, now: int, source: NodeId, beat: Beat, fx: Effects) -> None:
        self._heard[source] = (beat.incarnation, now)
        (self._ailing.add if beat.ailing else self._ailing.discard)(source)
        if beat.epoch > self.chain.epoch:
            self._ask_soon(now, fx)
        elif beat.epoch < self.chain.epoch and source in self._up:
            fx.send(source, self._beat())

    def outdated(self, now: int, source: NodeId, epoch: int, fx: Effects) -> None:
        """Somebody spoke in the name of another configuration: one of us has to ask."""
        if epoch > self.chain.epoch:
            self._ask_soon(now, fx)
        else:
            fx.send(source, self._beat())

    def _beat(self) -> Beat:
        return Beat(self.incarnation, self.chain.epoch, self.ailing)

    # -- the coordination service ----------------------------------------------------------------

    def propose(self, now: int, config: ChainConfig, fx: Effects) -> None:
        if self._proposal is None and self._revision is not None:
            self._requests += 1
            self._proposal = Proposal(self._requests, config, self._revision, now)
            self._send(now, self._proposal, fx)

    def _send(self, now: int, proposal: Proposal, fx: Effects) -> None:
        proposal.sent_at = now
        value = encode_config(proposal.config)
        put = Put(proposal.request, self._plan.key, value, proposal.revision)
        fx.send(COORDINATION_ID, put)

    def _ask(self, now: int, fx: Effects) -> None:
        self._asked_at = now
        fx.send(COORDINATION_ID, Watch(self._plan.key))

    def _ask_soon(self, now: int, fx: Effects) -> None:
        if self._asked_at is None or now - self._asked_at >= _ASK_EVERY_NS:
            self._ask(now, fx)

    def on_view(self, now: int, view: View, fx: Effects) -> bool:
        """Whether the chain has changed."""
        if view.prefix != self._plan.key:
            return False
        self._answered_at = now
        for entry in view.entries:
            if entry.key == self._plan.key:
                if self._revision is not None and entry.revision <= self._revision:
                    return False
                try:
                    config = decode_config(entry.key, entry.value)
                except ConfigError:
                    fx.drop("what the coordination service has is no chain", COORDINATION_ID)
                    return False  # the alarm that follows says that this replica is in none
                self._adopt(now, config, entry.revision, fx)
                return True
        if self._revision is None:
            self._revision = 0
        return False

    def on_put(self, now: int, answer: PutAnswer, fx: Effects) -> bool:
        """Whether the chain has changed."""
        proposal = self._proposal
        if proposal is None or answer.request != proposal.request:
            return False
        if not answer.revision:
            # It was too late, or it succeeded when it was first made: to know, look.
            self._proposal = None
            self._behind = True
            self._ask(now, fx)
            return False
        self._adopt(now, proposal.config, answer.revision, fx)
        return True

    def _adopt(self, now: int, config: ChainConfig, revision: int, fx: Effects) -> None:
        self.chain, self._revision = config, revision
        self._proposal = None
        self._behind = False
        self._adopted_at = now
        if self.place is not None:
            self._saved = True
            fx.save(_SAVED, encode_config(config))

    # -- deciding --------------------------------------------------------------------------------

    def _wanted(self, now: int) -> ChainConfig | None:
        """The chain there ought to be, if it is not the one there is."""
        chain = self.chain
        myself = Member(self._me, self.incarnation)
        if not chain.members:
            # Only one may begin: who begins without a history would be followed without one.
            return chain.changed((myself,)) if self._me == self._order[0] else None
        place = self.place
        if place is not None:
            around = chain.members[max(0, place - 1) : place + 2]
            gone = (m for m in around if m.id != self._me and self._is_gone(now, m))
            lost = next(gone, None)
            return chain.without(lost.id) if lost is not None else None
        was = chain.place_of(self._me)
        if was is None or not self._may_resume:
            return None
        others = [member for member in chain.members if member.id != self._me]
        silent_ns = now - max(self._adopted_at, *map(self._heard_at, others), 0)
        patience = self._patience(now, was)
        return chain.changed((myself,)) if patience is not None and silent_ns >= patience else None

    def tell(
        self, now: int, places: Sequence[Place], synced: frozenset[int], fx: Effects
    ) -> Collection[int]:
        """Tell the other restarted members how long this replica's histories are. `synced` are the
        streams with `ack = "disk"`. Return the streams of which this replica may lack events that
        were shown."""
        if not self._may_resume:
            return ()
        self._synced = synced
        told = {place.stream: place for place in places}
        self.candidates.tell(self._me, Told(self.incarnation, self.chain.epoch, told))
        returned = self.returned(now)
        if returned:
            fx.send(returned, Link(self.chain.epoch, self.incarnation, tuple(places)), DATA)
        return self.candidates.doubts(self._me, self.present(now))

    def _patience(self, now: int, was: int) -> int | None:
        """Return how long this restarted replica waits for other members before it goes on alone,
        or None while another restarted member should go on instead."""
        present = self.present(now)
        if len(present) == 1 == len(self.chain.members):
            return 0
        if self.candidates.best(present, self._synced) != self._me:
            return None
        if len(present) == len(self.chain.members):
            return 0  # nobody else can have anything
        doubts = self.candidates.doubts(self._me, present) & self._synced
        times = 1 + was + (_DOUBTFUL_WAITS if doubts else 0)
        return times * self._config.resume_after_ns

    def returned(self, now: int) -> list[NodeId]:
        """Return the other members that have restarted and sent a beat recently."""
        found = []
        for member in self.chain.members:
            incarnation, at = self._heard.get(member.id, (0, 0))
            is_heard_of = now - at <= self._config.suspect_after_ns
            if incarnation > member.incarnation and is_heard_of:
                found.append(member.id)
        return found

    def present(self, now: int) -> list[NodeId]:
        """Return the restarted members that have told how long their histories are, and this
        one."""
        returned, epoch = self.returned(now), self.chain.epoch
        return [
            each.id
            for each in self.chain.members
            if each.id == self._me
            or (
                each.id in returned
                and self.candidates.has_told(each.id, self._heard[each.id][0], epoch)
            )
        ]

    @property
    def was_member(self) -> bool:
        """Whether this replica is listed as the member it was before it was started again."""
        return self.place is None and self.chain.place_of(self._me) is not None

    @property
    def _may_resume(self) -> bool:
        """Whether its disk is the one it had as a member, as far as it keeps one."""
        return self._saved or not self._plan.durable

    def is_started_again(self, replica: NodeId, incarnation: int) -> bool:
        """Whether a replica is listed, and is not the member any more."""
        place = self.chain.place_of(replica)
        return place is not None and self.chain.members[place].incarnation < incarnation

    def _heard_at(self, member: Member) -> int:
        """When it was last heard of as the member it is; 0 if it never was."""
        incarnation, at = self._heard.get(member.id, (0, 0))
        return at if incarnation == member.incarnation else 0

    def _is_gone(self, now: int, member: Member) -> bool:
        incarnation, at = self._heard.get(member.id, (member.incarnation, 0))
        if incarnation > member.incarnation or (member.id in self._ailing and not self.ailing):
            return True
        silent_ns = now - max(at, self._adopted_at)
        broken_ns = now - self._broken.get(member.id, now)
        config = self._config
        return silent_ns > config.suspect_after_ns or (
            broken_ns > config.broken_after_ns and silent_ns > config.broken_after_ns
        )

    def alarms(self, now: int) -> Iterable[Alarm]:
        """Replicas that ought to be there and are not, this one or others; and nobody to say so."""
        patience = self._config.alarm_after_ns
        if now - self._answered_at > max(patience, 2 * _WATCH_EVERY_NS):
            yield Alarm(kind=AlarmKind.COORDINATION, since=self._answered_at)
        for peer in self._order:
            _, at = self._heard.get(peer, (0, self._started_at))
            if peer != self._me and now - at > patience:
                yield Alarm(kind=AlarmKind.REPLICA, since=at, peer=peer)
        if self.place is None and now - self._adopted_at > patience:
            yield Alarm(kind=AlarmKind.OUTSIDE, since=self._adopted_at)
