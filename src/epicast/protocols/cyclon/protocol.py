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
    ShuffleAnswer,
    ShuffleRequest,
)
from epicast.protocols.cyclon.view import AgedView


class Cyclon(Protocol[CyclonConfig]):
    __slots__ = ("_answered", "_contacts", "_given", "_joins", "_number", "_partner", "_view")

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

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        others = [peer for peer in contacts if peer.id != self.node.id]
        self._contacts = sample(self.rng, others, self.config.max_contacts)
        first = 1 + int(self.rng.random() * self.config.shuffle_period_ns)
        self.timers.set("shuffle", now + first)
        self._join(fx)

    def on_stop(self, now: int, fx: Effects) -> None:
        """Leaving needs no word: entries of a node that is gone grow old and are thrown out."""
        self.timers.clear()

    # Shuffling

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        config = self.config
        stretch = 1 + config.shuffle_jitter * (2 * self.rng.random() - 1)
        self.timers.set("shuffle", now + int(config.shuffle_period_ns * stretch))
        self._view.grow_older()
        if not self._view:
            self._join(fx)
            return
        self._number += 1
        self._partner = self._choose_partner(fx)
        if self._partner.id in self._view:
            self._remove(self._partner.id, fx)
        entries = self._view.sample(self.rng, config.shuffle_length - 1)
        self._given = [entry.peer.id for entry in entries]
        request = ShuffleRequest(self.node, self._number, (Entry(self.node, 0), *entries))
        fx.send(self._partner.id, request, DATAGRAM)

    def _choose_partner(self, fx: Effects) -> Peer:
        """The oldest neighbour; now and then a contact, which may be on the far side of a split
        that both sides have forgotten by now."""
        every = self.config.contact_every
        if every and self._contacts and self._number % every == 0:
            contact = choose(self.rng, self._contacts)
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
        entries = self._view.sample(self.rng, self.config.shuffle_length)
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

    # Joining

    def _join(self, fx: Effects) -> None:
        """Through a contact; without one, through whoever we spoke to last."""
        contact = choose(self.rng, self._contacts) if self._contacts else self._partner
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
        walkers = self._view.sample_ids(self.rng, self.config.view_size, (source,))
        if walkers:
            fx.send(walkers, JoinWalk(message.joiner, self.config.join_walk_length), DATAGRAM)
        if len(self._view) < self.config.view_size:
            self._take_in(message.joiner, fx)

    @handles(JoinWalk)
    def _handle_join_walk(self, now: int, source: NodeId, message: JoinWalk, fx: Effects) -> None:
        joiner = message.joiner
        ttl = min(message.ttl, self.config.join_walk_length)
        onward = self._view.sample_ids(self.rng, 1, (joiner.id,)) if ttl > 0 else ()
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
        fx.know(entry.peer)
        fx.neighbor_up(entry.peer.id)

    def _remove(self, peer: NodeId, fx: Effects) -> Entry:
        fx.neighbor_down(peer)
        return self._view.pop(peer)

    def _speaks_for_itself(self, source: NodeId, claimed: Peer, fx: Effects) -> bool:
        if claimed.id == source and source != self.node.id:
            return True
        fx.drop("message in another's name", source)
        return False

    # For the layers above, and for measuring

    def sample(self, k: int) -> list[NodeId]:
        return self._view.sample_ids(self.rng, k)

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
        }
