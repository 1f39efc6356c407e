"""The coordination service as a node of the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from epicast.core import Effects, NodeId, Peer, Protocol, Recovered, handles
from epicast.protocols.config import ProtocolConfig
from epicast.protocols.coordination.messages import Put, PutAnswer, View, ViewEntry, Watch


class CoordinationConfig(ProtocolConfig, frozen=True, kw_only=True):
    forget_after_ns: int = 10_000_000_000
    """Watchers that have not asked again for so long."""


class CoordinationNode(Protocol[CoordinationConfig]):
    """Keeps what it has acknowledged, whatever happens to it."""

    def __init__(self, node: Peer, config: CoordinationConfig, rng: Random) -> None:
        super().__init__(node, config, rng)
        self._entries: dict[str, ViewEntry] = {}
        self._revision = 0
        self._watchers: dict[tuple[NodeId, str], int] = {}

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        for key, encoded in recovered.saved.items():
            entry = msgspec.msgpack.decode(encoded, type=ViewEntry)
            self._entries[key] = entry
            self._revision = max(self._revision, entry.revision)

    @handles(Watch)
    def _handle_watch(self, now: int, source: NodeId, message: Watch, fx: Effects) -> None:
        self._watchers[source, message.prefix] = now
        fx.send_after_append(source, self._view(message.prefix))

    @handles(Put)
    def _handle_put(self, now: int, source: NodeId, message: Put, fx: Effects) -> None:
        known = self._entries.get(message.key)
        if message.revision != (known.revision if known is not None else 0):
            fx.send_after_append(source, PutAnswer(message.request, message.key, 0))
            return
        self._revision += 1
        entry = ViewEntry(message.key, message.value, self._revision)
        self._entries[message.key] = entry
        fx.save(message.key, msgspec.msgpack.encode(entry))
        fx.send_after_append(source, PutAnswer(message.request, message.key, self._revision))
        for watcher, prefix in self._live_watchers(now):
            if message.key.startswith(prefix):
                fx.send_after_append(watcher, self._view(prefix))

    def _live_watchers(self, now: int) -> list[tuple[NodeId, str]]:
        oldest = now - self.config.forget_after_ns
        self._watchers = {who: at for who, at in self._watchers.items() if at >= oldest}
        return list(self._watchers)

    def _view(self, prefix: str) -> View:
        found = (entry for key, entry in self._entries.items() if key.startswith(prefix))
        return View(prefix, self._revision, tuple(found))
