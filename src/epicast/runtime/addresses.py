"""Where peers are, and what is remembered of them between connections. Bounded."""

from __future__ import annotations

from epicast.core import NodeId, Peer


class Entry:
    """One peer: address, the newest incarnation heard of, failures in a row to reach it."""

    __slots__ = ("failures", "identity", "incarnation", "is_agent", "not_before", "peer")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.identity: str | None = None
        """Who it has proved to be; None: it was never asked."""
        self.is_agent = False
        """Whether it has shown an agent's certificate; False where nodes have none."""
        self.incarnation = -1
        self.failures = 0
        self.not_before = 0
        """When it may be tried again for the sake of a message."""


class AddressBook:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[NodeId, Entry] = {}  # least recently used first

    def learn(self, peer: Peer, *, overwrite: bool = True) -> Entry | None:
        """Remember an address; one that says nowhere only counts if a better one is known."""
        entry = self.get(peer.id)
        if entry is None:
            if not peer.host:
                return None
            entry = self._entries[peer.id] = Entry(peer)
            if len(self._entries) > self._limit:
                del self._entries[next(iter(self._entries))]
        elif peer.host and overwrite:
            entry.peer = peer
        return entry

    def get(self, peer: NodeId) -> Entry | None:
        """The entry of a peer, which thereby counts as used."""
        entry = self._entries.pop(peer, None)
        if entry is not None:
            self._entries[peer] = entry
        return entry

    def __len__(self) -> int:
        return len(self._entries)
