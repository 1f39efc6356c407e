"""Who is who: node identifiers and addresses."""

from typing import Annotated

from msgspec import Meta, Struct

from epicast.core.ranges import Id

NodeId = Id
"""A 64-bit unsigned integer, unique in a deployment and stable across restarts."""

MAX_NODE_ID = 2**64 - 1
COORDINATION_ID = MAX_NODE_ID
"""The coordination service is a peer like any other, under this reserved id. It is never at the
other end of a connection: whoever says so is refused."""


MAX_HOST_CHARACTERS = 200


class Peer(Struct, frozen=True, array_like=True, gc=False):
    """A node and where to reach it; travels inside membership messages."""

    id: NodeId
    host: Annotated[str, Meta(max_length=MAX_HOST_CHARACTERS)] = ""
    port: int = 0

    def __str__(self) -> str:
        return f"{self.id}@{self.host}:{self.port}" if self.host else str(self.id)


class Group(Struct, frozen=True, array_like=True, gc=False):
    """A multicast group: a destination that stands for whoever joined it."""

    id: int
    host: str = ""
    port: int = 0
