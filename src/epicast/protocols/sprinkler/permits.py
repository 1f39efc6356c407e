"""Whether somebody may do something: asked before anything is done, decided elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from epicast.core import NodeId
from epicast.deployment.access import Action
from epicast.protocols.sprinkler.messages import StreamInfo

Permit = Callable[[NodeId, Action, StreamInfo | None], str]
"""What stands against it; empty if nothing does. Without a stream it is about the node as such."""

IsAgent = Callable[[NodeId], bool]
"""Whether a peer has shown to be an agent, which others can connect to."""


def permit_all(_: NodeId, __: Action, ___: StreamInfo | None) -> str:
    return ""


def all_agents(_: NodeId) -> bool:
    return True
