from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from epicast.core import (
    DATAGRAM,
    Effects,
    InvariantViolation,
    NodeId,
    Peer,
    Protocol,
    Recovered,
    handles,
)
from epicast.core.sampling import choose, sample
from epicast.protocols.cyclon.config import CyclonConfig
from epicast.protocols.cyclon.messages import (
    Entry,
    JoinRequest,
    JoinSwap,
    JoinWalk,
    Ping,
    Pong,
    ShuffleAnswer,
    ShuffleRequest,
)
from epicast.protocols.cyclon.view import AgedView

_SHUFFLE = "shuffle"
_PING = "ping"


class Cyclon(Protocol[CyclonConfig]):
    __slots__ = ("_answered", "_contacts", "_given", "_joins", "_lost", "_number", "_partner",
                 "_silent", "_unanswered", "_view")  # fmt: skip

    def __init__(self, node: Peer, config: CyclonConfig, rng: Random) -> None:
        super().__init__(node, config, rng)
        self._view = AgedView()
        self._contacts: list[Peer] = []
        self._partner: Peer | None = None
        """Who has not answered our last request (yet)."""
        self._given: list[NodeId] = []
        """What we gave it: the entries to be replaced by its answer."""
        self._number = 0
        self._answered = 0
        self._joins = 0
        self._unanswered: dict[NodeId, int] = {}
        """Pings to neighbours since they were last heard of; below 0: it speaks unasked."""
        self._silent = 0
        """Neighbours thrown out because they did not answer."""
        self._lost: dict[NodeId, Peer] = {}
        """The last of them: they may be on the far side of a split."""

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        others = [peer for peer in contacts if peer.id != self.node.id]
        self._contacts = sample(self.rng, others, self.config.max_contacts)
        first = 1 + int(self.rng.random() * self.config.shuffle_period_ns)
        self.timers.set(_SHUFFLE, now + first)
        if self.config.ping_period_ns:
            self.timers.set(_PING, now + self._stretched(self.config.ping_period_ns))
        self._join(fx)

    def on_stop(self, now: int, fx: Effects) -> None:
        """Leaving needs no word: entries of a node that is gone grow old and are thrown out."""
        self.timers.clear()

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        if name == _SHUFFLE:
            self._shuffle(now, fx)
        else:
            self._ping(now, fx)

    def _stretched(self, period_ns: int) -> int:
        return int(period_ns * (1 + self.config.shuffle_jitter * (2 * self.rng.random() - 1)))

    # Shuffling

    def _shuffle(self, now: int, fx: Effects) -> None:
        config = self.config
        self.timers.set(_SHUFFLE, now + self._stretched(config.shuffle_period_ns))
        self._view.grow_older()
        if not self._view:
            self._join(fx)
            return
        self._number += 1
        self._partner = self._choose_partner(fx)
        if self._partner.id in self._view:
            self._remove(self._partner.id, fx)
        entries = self._view.sample(self.rng, config.shuffle_length - 1, self._doubtful())
        self._given = [entry.peer.id for entry in entries]
        request = ShuffleRequest(self.node, self._number, (Entry(self.node, 0), *entries))
        fx.send(self._partner.id, request, DATAGRAM)

    def _choose_partner(self, fx: Effects) -> Peer:
        """The oldest neighbour; now and then a contact or one that was lost, which may be on the
        far side of a split that both sides have forgotten by now."""
        every = self.config.contact_every
        contacts = [*self._contacts, *self._lost.values()]
        if every and contacts and self._number % every == 0:
            contact = choose(self.rng, contacts)
            if contact.id not in self._view:  # otherwise it is on our side
                fx.know(contact)
                return contact
        return self._view.oldest()

    @handles(ShuffleRequest)
    def _handle_shuffle_request(
        self, now: int, source: NodeId, message: ShuffleRequest, fx: Effects
    ) -> None:
        if not self._speaks_for_itself(source, message.sender, fx):
            return
        self._spoke(source)
        entries = self._view.sample(self.rng, self.config.shuffle_length, self._doubtful())
        fx.know(message.sender)
        fx.send(source, ShuffleAnswer(message.number, tuple(entries)), DATAGRAM)
        self._merge(source, message.entries, [entry.peer.id for entry in entries], fx)

    @handles(ShuffleAnswer)
    def _handle_shuffle_answer(
        self, now: int, source: NodeId, message: ShuffleAnswer, fx: Effects
    ) -> None:
        partner = self._partner
        if partner is None or partner.id != source or message.number != self._number:
            fx.drop("answer to no shuffle under way", source)
            return
        self._partner = None
        self._answered += 1
        self._merge(source, message.entries, self._given, fx)
        if len(self._view) < self.config.view_size and source not in self._view:
            self._add(Entry(partner, 0), fx)

    def _merge(
        self, source: NodeId, entries: Sequence[Entry], given: list[NodeId], fx: Effects
    ) -> None:
        """Take what is new: into empty places first, then in place of what was given away."""
        if len(entries) > self.config.shuffle_length:
            fx.drop("more entries than a shuffle has", source)
            entries = entries[: self.config.shuffle_length]
        for entry in entries:
            if entry.peer.id == self.node.id or entry.peer.id in self._view:
                continue
            if len(self._view) >= self.config.view_size:
                while given and given[-1] not in self._view:
                    given.pop()
                if not given:
                    return
                self._remove(given.pop(), fx)
            self._add(entry, fx)

    # Whether neighbours are there

    def _ping(self, now: int, fx: Effects) -> None:
        """Ask all that have not spoken since the last time; throw out who never answers, unless
        nobody does: then it is our network that is gone."""
        self.timers.set(_PING, now + self._stretched(self.config.ping_period_ns))
        pings = {peer: self._unanswered.get(peer, 0) + 1 for peer in self._view}
        self._unanswered = pings
        most = self.config.max_unanswered_pings
        if any(count <= 1 for count in pings.values()):
            for peer in [peer for peer, count in pings.items() if count > most]:
                self._lose(peer, fx)
        asked = [peer for peer in pings if pings[peer] > 0]
        if asked:
            fx.send(asked, Ping(self.node), DATAGRAM)

    def _lose(self, peer: NodeId, fx: Effects) -> None:
        self._silent += 1
        self._lost[peer] = self._remove(peer, fx).peer
        if len(self._lost) > self.config.max_contacts:
            del self._lost[next(iter(self._lost))]

    @handles(Ping)
    def _handle_ping(self, now: int, source: NodeId, message: Ping, fx: Effects) -> None:
        if not self._speaks_for_itself(source, message.sender, fx):
            return
        fx.know(message.sender)
        fx.send(source, Pong(), DATAGRAM)
        self._spoke(source)
        full = len(self._view) >= self.config.view_size
        if self.config.ping_period_ns and not full and source not in self._view:
            self._add(Entry(message.sender, 0), fx)

    @handles(Pong)
    def _handle_pong(self, now: int, source: NodeId, message: Pong, fx: Effects) -> None:
        if source in self._view:
            self._unanswered[source] = 0
        else:
            fx.drop("answer of no neighbour", source)

    def _spoke(self, source: NodeId) -> None:
        """Unasked: it need not be asked the next time."""
        if source in self._view:
            self._unanswered[source] = -1

    def _doubtful(self) -> list[NodeId]:
        """Neighbours that did not answer within a whole period, unless none did: neither given to
        anybody nor sampled until they do."""
        doubtful = [peer for peer, pings in self._unanswered.items() if pings > 1]
        return doubtful if len(doubtful) < len(self._view) else []

    # Joining

    def _join(self, fx: Effects) -> None:
        """Through a contact, or one that was lost; without any, through whoever we spoke to
        last."""
        contacts = [*self._contacts, *self._lost.values()]
        contact = choose(self.rng, contacts) if contacts else self._partner
        if contact is None:
            return
        self._joins += 1
        fx.know(contact)
        fx.send(contact.id, JoinRequest(self.node), DATAGRAM)

    @handles(JoinRequest)
    def _handle_join_request(
        self, now: int, source: NodeId, message: JoinRequest, fx: Effects
    ) -> None:
        if not self._speaks_for_itself(source, message.joiner, fx):
            return
        barred = (source, *self._doubtful())
        walkers = self._view.sample_ids(self.rng, self.config.view_size, barred)
        if walkers:
            fx.send(walkers, JoinWalk(message.joiner, self.config.join_walk_length), DATAGRAM)
        if len(self._view) < self.config.view_size:
            self._take_in(message.joiner, fx)

    @handles(JoinWalk)
    def _handle_join_walk(self, now: int, source: NodeId, message: JoinWalk, fx: Effects) -> None:
        joiner = message.joiner
        ttl = min(message.ttl, self.config.join_walk_length)
        barred = (joiner.id, *self._doubtful())
        onward = self._view.sample_ids(self.rng, 1, barred) if ttl > 0 else ()
        if onward:
            fx.send(onward[0], JoinWalk(joiner, ttl - 1), DATAGRAM)
        elif joiner.id != self.node.id:
            self._take_in(joiner, fx)

    @handles(JoinSwap)
    def _handle_join_swap(self, now: int, source: NodeId, message: JoinSwap, fx: Effects) -> None:
        self._merge(source, (message.entry,), [], fx)

    def _take_in(self, joiner: Peer, fx: Effects) -> None:
        """The joiner gets the entry whose place it takes, or ours if there was a place free."""
        if joiner.id in self._view:
            return
        if len(self._view) < self.config.view_size:
            swapped = Entry(self.node, 0)
        else:
            swapped = self._remove(self._view.sample_ids(self.rng, 1)[0], fx)
        self._add(Entry(joiner, 0), fx)
        fx.send(joiner.id, JoinSwap(swapped), DATAGRAM)

    # Helpers

    def _add(self, entry: Entry, fx: Effects) -> None:
        self._view.add(entry)
        self._lost.pop(entry.peer.id, None)
        fx.know(entry.peer)
        fx.neighbor_up(entry.peer.id)

    def _remove(self, peer: NodeId, fx: Effects) -> Entry:
        fx.neighbor_down(peer)
        self._unanswered.pop(peer, None)
        return self._view.pop(peer)

    def _speaks_for_itself(self, source: NodeId, claimed: Peer, fx: Effects) -> bool:
        if claimed.id == source and source != self.node.id:
            return True
        fx.drop("message in another's name", source)
        return False

    # For the layers above, and for measuring

    def sample(self, k: int) -> list[NodeId]:
        return self._view.sample_ids(self.rng, k, self._doubtful())

    def neighbors(self) -> list[NodeId]:
        return list(self._view)

    def check_invariants(self) -> None:
        size, limit = len(self._view), self.config.view_size
        if size > limit:
            raise InvariantViolation(f"node {self.node}: view of {size}, at most {limit}")
        if self.node.id in self._view:
            raise InvariantViolation(f"node {self.node} is its own neighbour")
        if len(self._given) >= self.config.shuffle_length:
            raise InvariantViolation(f"node {self.node} gave {self._given}, itself not counted")

    def statistics(self) -> Mapping[str, int | float]:
        return {
            "view": len(self._view),
            "mean_age": self._view.total_age() / max(1, len(self._view)),
            "shuffles": self._number,
            "answered": self._answered,
            "joins": self._joins,
            "silent": self._silent,
        }
