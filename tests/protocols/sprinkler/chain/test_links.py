"""Who may join a chain."""

from __future__ import annotations

from epicast.core import Effects, EventBatch
from epicast.protocols.sprinkler import ProxyConfig, StreamInfo
from epicast.protocols.sprinkler.chain.links import ChainLinks
from epicast.protocols.sprinkler.chain.messages import Link, Place, Progress
from epicast.protocols.sprinkler.messages import Counter
from epicast.protocols.sprinkler.states import StreamState

STREAM, HERE, ELSEWHERE, NEWCOMER = 7, 1, 2, 30
OLD, NEW = 100, 200


class Tail:
    """Of a chain of one, which follows a stream of another region."""

    def __init__(self, epoch: int, end: int) -> None:
        info = StreamInfo(STREAM, "s", ELSEWHERE, "elsewhere")
        self.state = StreamState(info, epoch, end, 1 << 20)
        self.links = ChainLinks(HERE, ProxyConfig(), {STREAM: self.state})
        self.links.rearrange(1, 0, 0, is_member=True)
        self.fx = Effects()

    def meet(self, epoch: int, end: int) -> None:
        self.links.meet(NEWCOMER, Link(1, 5, (Place(STREAM, epoch, end, ()),)), self.fx)

    def hear(self, epoch: int, end: int) -> None:
        progress = Progress(1, (Counter(STREAM, epoch, end),), ())
        self.links.heed(NEWCOMER, progress, self.fx)

    def follow(self, epoch: int, end: int) -> None:
        """The stream's owner has begun an epoch, and this is in it."""
        self.state.restart(epoch, self.fx)
        self.links.epoch_changed(self.state, self.fx)
        self.state.take(EventBatch.build(STREAM, 1, [b"x"] * end, epoch=epoch))
        self.state.show(self.state.store(end)[-1].last)

    @property
    def lets_in(self) -> bool:
        return self.links.newcomer(0) is not None


def test_a_newcomer_that_has_the_same_is_let_in() -> None:
    tail = Tail(OLD, 5)
    tail.meet(OLD, 5)
    tail.hear(OLD, 5)
    assert tail.lets_in


def test_a_newcomer_in_a_newer_epoch_waits_until_the_chain_is_there_too() -> None:
    """As the tail it would tell others that the region has what only it has."""
    tail = Tail(OLD, 0)
    tail.meet(NEW, 3)
    assert not tail.lets_in
    tail.hear(NEW, 5)
    assert not tail.lets_in
    tail.follow(NEW, 5)
    assert tail.lets_in


def test_a_newcomer_that_is_ahead_in_the_epoch_the_chain_has_just_begun() -> None:
    tail = Tail(OLD, 2)
    tail.meet(NEW, 5)
    tail.follow(NEW, 3)
    assert not tail.lets_in, "it has more than the tail"


def test_an_epoch_in_between_is_not_that_of_the_newcomer() -> None:
    tail = Tail(OLD, 0)
    tail.meet(NEW, 5)
    tail.follow(NEW - 1, 5)
    assert not tail.lets_in
