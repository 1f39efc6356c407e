"""Moving a stream of a running geoplex: who is to be asked, what may be lost, what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random

from msgspec import Struct

from epicast.core import Config, EpicastError, Peer
from epicast.deployment import parse_address, stream_id
from epicast.geo.asking import first_notice
from epicast.geo.status import ProxyStatus, StreamStatus
from epicast.protocols.sprinkler.moving.messages import (
    AcceptLoss,
    MoveOutcome,
    MoveReply,
    MoveRequest,
)
from epicast.protocols.sprinkler.moving.operator import Operator, Request
from epicast.runtime.messages import Declined
from epicast.runtime.tls import Tls


class MoveRefused(EpicastError):
    """A stream was not moved; the message says why, and what to do."""


class MoveImpossible(MoveRefused):
    """Wrong names, or nothing to do."""


class OwnerSilent(MoveRefused):
    """The region that owns the stream does not answer."""


class MoveUnknown(MoveRefused):
    """It was asked for, and what has become of it was not heard."""


class Situation(Struct, frozen=True, kw_only=True):
    """A stream as all who answer have it, before it is moved."""

    stream: str
    owner: str
    target: str
    there: StreamStatus | None
    """In the region that is to have it, as the replica that is furthest has it."""
    furthest: tuple[int, int]
    """Epoch and number up to which anybody has said to have it."""
    best: str
    """The region that answers and has most of it."""
    best_head: int
    owner_answers: bool

    @property
    def missing(self) -> int:
        """How many events somebody has, or had, that the region does not have: at least."""
        if self.there is None:
            return 0
        epoch, seq = self.furthest
        return max(0, seq - self.there.head) if epoch == self.there.epoch else seq


def survey(proxies: Mapping[str, ProxyStatus], stream: str, target: str) -> Situation:
    """`proxies`: those that answer, by the name of region or replica."""
    anybody = next(iter(proxies.values()))
    regions = {_region(name) for name in anybody.regions}
    found = {
        name: next((s for s in proxy.streams if s.name == stream), None)
        for name, proxy in proxies.items()
    }
    having = {name: status for name, status in found.items() if status is not None}
    if not having:
        known = ", ".join(sorted(s.name for s in anybody.streams))
        raise MoveImpossible(f"there is no stream {stream!r}; there are {known}")
    if target not in regions:
        raise MoveImpossible(
            f"there is no region {target!r}; there are {', '.join(sorted(regions))}"
        )
    owner = max(having.values(), key=lambda status: status.term).owner
    there = [status for name, status in having.items() if _region(name) == target]
    best_name, best = max(having.items(), key=lambda item: (item[1].epoch, item[1].head))
    return Situation(
        stream=stream,
        owner=owner,
        target=target,
        there=max(there, key=lambda status: (status.epoch, status.head), default=None),
        furthest=max(max(s.furthest, (s.epoch, s.head)) for s in having.values()),
        best=_region(best_name),
        best_head=best.head,
        owner_answers=any(_region(name) == owner for name in proxies),
    )


def _region(name: str) -> str:
    return name.partition("/")[0]


async def move(
    addresses: Mapping[str, str],
    situation: Situation,
    *,
    force: bool,
    timeout: float,
    tls: Tls | None = None,
    token: str = "",
) -> MoveReply:
    """Have it done, and wait for it. `addresses` are those of all replicas, by name."""
    asked = situation.target if force else situation.owner
    request = MoveRequest(stream_id(situation.stream), situation.target, force)
    refusals = []
    silent = True
    for name, address in addresses.items():
        if _region(name) != asked:
            continue
        try:
            reply = await first_notice(
                *parse_address(address), timeout, partial(_operator, request), tls=tls, token=token
            )
        except EpicastError as error:
            refusals.append(str(error))
            continue
        silent = False
        if isinstance(reply, Declined):
            raise MoveRefused(f"{name} does not move it: {reply.reason}")
        if not isinstance(reply, MoveReply):
            raise MoveUnknown(
                f"{name} was asked and did not say what came of it; `epicast status` shows who "
                f"owns {situation.stream} now"
            )
        if reply.outcome is MoveOutcome.ELSEWHERE:
            refusals.append(reply.detail)
        elif reply.outcome is MoveOutcome.REFUSED:
            raise MoveRefused(f"{name} does not move {situation.stream}: {reply.detail}")
        else:
            return reply
    said = "; ".join(dict.fromkeys(refusals))
    if silent and not force:
        raise OwnerSilent(silent_owner(situation, said))
    raise MoveRefused(f"{asked} does not move {situation.stream}: {said or 'it does not answer'}")


def silent_owner(situation: Situation, said: str = "") -> str:
    why = f" ({said})" if said else ""
    return (
        f"{situation.owner} owns {situation.stream} and does not answer{why}. Nothing was changed. "
        "Have it started again; if it is lost for good, take the stream with --force"
    )


async def accept_loss(
    addresses: Mapping[str, str],
    stream: str,
    *,
    timeout: float,
    tls: Tls | None = None,
    token: str = "",
) -> None:
    """End the alarm about it, wherever it is raised."""
    request = AcceptLoss(stream_id(stream))
    for name, address in addresses.items():
        reply = await first_notice(
            *parse_address(address), timeout, partial(_operator, request), tls=tls, token=token
        )
        if isinstance(reply, Declined):
            raise MoveRefused(f"{name} does not take note of it: {reply.reason}")
        if not isinstance(reply, MoveReply) or reply.outcome is not MoveOutcome.DONE:
            detail = reply.detail if isinstance(reply, MoveReply) else "it does not answer"
            raise MoveRefused(f"{name} does not take note of it: {detail}")


def _operator(request: Request, node: Peer) -> Operator:
    return Operator(node, Config(), Random(0), request=request)
