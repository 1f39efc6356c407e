"""Which kinds of peers may send which message types; checked before a message is handled.

A peer has one part at a time: stranger, client, agent, proxy, replica or coordination service. A
node handles a message if its table lists the type with the sender's part; any other message is
dropped and counted. The rights of publishers, subscribers and operators are in `permits`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from epicast.core import AnyMessage, Effects, NodeId, Protocol
from epicast.core.protocol import ConfigT
from epicast.protocols.coordination import PutAnswer, View
from epicast.protocols.reinforcement.messages import ViewExchange
from epicast.protocols.sprinkler import messages as said
from epicast.protocols.sprinkler.chain import messages as chain
from epicast.protocols.sprinkler.moving import messages as moving

Part = int
STRANGER: Part = 1
CLIENT: Part = 2
"""Attached to this node, and nothing else."""
AGENT: Part = 4
"""An agent of the region."""
PROXY: Part = 8
"""To a proxy, one of another region; to an agent or client, the one it is attached to."""
REPLICA: Part = 16
"""To a proxy, another replica of its region; to an agent or client, one it is not attached to."""
COORDINATION: Part = 32

ANYBODY = STRANGER | CLIENT | AGENT | PROXY | REPLICA
_ATTACHED = CLIENT | AGENT | PROXY
_REGION = AGENT | PROXY | REPLICA

Table = Mapping[type, Part]

TO_PROXIES: Table = {
    said.Attach: ANYBODY,
    said.Poll: ANYBODY,
    said.Subscribe: _ATTACHED,
    said.Unsubscribe: _ATTACHED,
    said.Consumed: _ATTACHED,
    said.Publish: ANYBODY,
    said.Request: ANYBODY,
    said.StatusRequest: ANYBODY,
    moving.MoveRequest: ANYBODY,
    moving.AcceptLoss: ANYBODY,
    said.Notify: ANYBODY,
    ViewExchange: AGENT,
    said.Published: PROXY | REPLICA,
    said.Refused: PROXY | REPLICA,
    said.Events: PROXY | REPLICA,
    said.Tail: PROXY | REPLICA,
    said.Restart: PROXY | REPLICA,
    said.Advertisement: PROXY,
    moving.Ownerships: PROXY,
    chain.Beat: REPLICA,
    chain.Link: REPLICA,
    chain.Linked: REPLICA,
    chain.Progress: REPLICA,
    chain.Dismissed: REPLICA,
    View: COORDINATION,
    PutAnswer: COORDINATION,
}
TO_EDGES: Table = {
    said.Welcome: PROXY,
    said.Advertisement: PROXY,
    said.Events: PROXY,
    said.Tail: PROXY,
    said.Restart: PROXY,
    said.Forbidden: PROXY,
    said.Published: PROXY,
    said.Refused: PROXY,
    said.SendAgain: PROXY,
    chain.Dismissed: PROXY,
    said.Notify: _REGION,
    said.Request: _REGION,
    said.Answer: _REGION,
    ViewExchange: _REGION,
}
TO_SIDECARS: Table = {
    **TO_EDGES,
    said.Attach: STRANGER | CLIENT | AGENT,
    said.Poll: ANYBODY,
    said.Publish: ANYBODY,
    said.StatusRequest: ANYBODY,
    said.Subscribe: CLIENT,
    said.Unsubscribe: CLIENT,
    said.Consumed: CLIENT,
}


class Guarded(Protocol[ConfigT]):
    """A protocol that handles a message only if its sender may say it."""

    may_say: ClassVar[Table]

    @abstractmethod
    def _part_of(self, peer: NodeId) -> Part: ...

    def on_messages(
        self, now: int, source: NodeId, messages: Sequence[AnyMessage], fx: Effects
    ) -> None:
        for message in messages:
            kind = type(message)
            if kind not in self._handlers or self.may_say.get(kind, 0) & self._part_of(source):
                super().on_messages(now, source, (message,), fx)
            else:
                fx.drop(f"{kind.__name__} from a peer that may not send it", source)
