"""Who is in a chain, as the coordination service keeps it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from epicast.core import ConfigError, NodeId, Peer
from epicast.protocols.sprinkler.moving.tenure import Tenure

MOST_TENURES = 500
"""The coordination service keeps values of up to 64 KiB."""


class Member(Struct, frozen=True, array_like=True):
    id: NodeId
    incarnation: int
    """A replica that was started again is not the one that was a member."""


class ChainConfig(Struct, frozen=True):
    epoch: int = 0
    members: tuple[Member, ...] = ()
    """The head first."""
    tenures: tuple[Tenure, ...] = ()
    """Of streams that this region was given, has taken, or has given away: the last of each."""

    def place_of(self, node: NodeId) -> int | None:
        return next((at for at, member in enumerate(self.members) if member.id == node), None)

    def without(self, node: NodeId) -> ChainConfig:
        return self.changed(tuple(member for member in self.members if member.id != node))

    def changed(self, members: tuple[Member, ...]) -> ChainConfig:
        return ChainConfig(self.epoch + 1, members, self.tenures)

    def with_tenure(self, tenure: Tenure) -> ChainConfig:
        others = tuple(each for each in self.tenures if each.stream != tenure.stream)
        return ChainConfig(self.epoch + 1, self.members, (*others, tenure))

    @property
    def head(self) -> NodeId:
        return self.members[0].id if self.members else 0

    @property
    def tail(self) -> NodeId:
        return self.members[-1].id if self.members else 0


class ChainPlan(Struct, frozen=True):
    """A replica's place among those of its region."""

    key: str
    """Of the chain's configuration in the coordination service."""
    replicas: tuple[Peer, ...]
    """All there are, this one too. The first one begins."""
    durable: bool = True
    """Whether replicas keep anything when they are started again."""


def encode_config(config: ChainConfig) -> bytes:
    return msgspec.json.encode(config)


def decode_config(key: str, value: bytes) -> ChainConfig:
    try:
        return msgspec.json.decode(value, type=ChainConfig)
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"what the coordination service has under {key!r} is no chain: {error}; if somebody "
            "else uses that name, give the geoplex another one"
        ) from error
