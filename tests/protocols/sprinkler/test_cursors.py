"""Subscribers of a proxy: in order, without gaps, about a window ahead at most, never stuck."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core.effects import Effects, Read
from epicast.protocols.sprinkler import ProxyConfig
from epicast.protocols.sprinkler.cursors import Cursors
from epicast.protocols.sprinkler.messages import Consumed, Events, Restart, Subscribe, Tail
from epicast.protocols.sprinkler.states import StreamState
from tests.protocols.sprinkler.parts import INFO, STREAM, effects, events, numbers, stabilise

PEER = 5


class Rig:
    """A proxy's cursors, a history that holds everything, and one subscriber."""

    def __init__(self, *, window: int, chunk: int, recent: int, subscriptions: int = 1) -> None:
        self.config = ProxyConfig(chunk_bytes=chunk, recent_bytes=recent)
        self.state = StreamState(INFO, 1, 0, recent)
        self.cursors = Cursors(self.config, {STREAM: self.state})
        self.history = []
        self.reads: list[Read] = []
        self.room = 1 << 30
        self.window = window
        self.got: dict[int, list] = {}
        self.consumed: dict[int, int] = {}
        self.largest = 0
        for number in range(1, subscriptions + 1):
            self.got[number] = []
            self.consumed[number] = 0
            self.do("subscribe", PEER, Subscribe(number, STREAM, 1, 0, window))

    def do(self, method: str, *arguments: object) -> None:
        fx = effects(self.room)
        getattr(self.cursors, method)(*arguments, fx)
        self.reads += [op for op in fx.operations if isinstance(op, Read)]
        for _, message, _ in fx.sends:
            assert not isinstance(message, Restart)
            each = [message.number] if isinstance(message, Events) else list(self.got)
            for number in each:
                for batch in message.batches:
                    self.take(number, batch, pushed=isinstance(message, Tail))

    def take(self, number: int, batch: object, *, pushed: bool) -> None:
        """As `Subscription` does it: what does not fit is not taken."""
        got = self.got[number]
        end = got[-1].last if got else 0
        assert pushed or batch.first == end + 1
        if batch.first == end + 1:
            got.append(batch)
        self.check(number)

    def check(self, number: int) -> None:
        """Not more than a window, and what was sent when it was not quite full."""
        waiting = [b.wire_size() for b in self.got[number] if b.last > self.consumed[number]]
        over = max(self.config.chunk_bytes, self.largest)
        assert sum(waiting) <= self.window - 1 + over or len(waiting) == 1

    def expose(self, sizes: list[tuple[int, int]]) -> None:
        for count, size in sizes:
            batch = events(self.state.taken + 1, count, size=size)
            self.largest = max(self.largest, batch.wire_size())
            self.history.append(batch)
            self.state.take(batch)
        self.do("exposed", self.state, stabilise(self.state, self.state.taken))

    def answer(self, fails: bool = False) -> None:
        read = self.reads.pop(0)
        found, size = [], 0
        for batch in self.history if not fails else []:
            if batch.last < read.first:
                continue
            part = batch.slice(max(read.first, batch.first), batch.last)
            size += part.wire_size()
            if found and size > read.max_bytes:
                break
            found.append(part)
        self.do("on_read", read.token, found)

    def consume(self, number: int, share: float) -> None:
        got = self.got[number]
        if got:
            batch = got[min(len(got) - 1, int(share * len(got)))]
            self.consumed[number] = max(self.consumed[number], batch.last)
            self.do("handle_consumed", PEER, Consumed(number, 1, self.consumed[number]))

    def finish(self) -> None:
        self.room = 1 << 30
        for _ in range(10_000):
            self.do("retry_reads")
            self.do("ready", PEER)
            while self.reads:
                self.answer()
            for number in self.got:
                self.consume(number, 1.0)
            if all(numbers(got) == list(range(1, self.state.end + 1)) for got in self.got.values()):
                return
        raise AssertionError({number: numbers(got) for number, got in self.got.items()})


SIZES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 300)), min_size=1, max_size=5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("expose"), SIZES),
        st.tuples(st.just("consume"), st.tuples(st.integers(1, 2), st.floats(0, 1))),
        st.tuples(st.just("answer"), st.booleans()),
        st.tuples(st.just("room"), st.sampled_from((0, 100, 1000, 1 << 30))),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(
    steps=STEPS,
    window=st.integers(1, 3000),
    chunk=st.integers(1, 1500),
    recent=st.sampled_from((0, 500, 1 << 20)),
    subscriptions=st.integers(1, 2),
)
def test_whatever_happens_the_window_holds_and_nobody_gets_stuck(
    steps, window, chunk, recent, subscriptions
):
    rig = Rig(window=window, chunk=chunk, recent=recent, subscriptions=subscriptions)
    for step, argument in steps:
        if step == "expose":
            rig.expose(argument)
        elif step == "consume":
            number, share = argument
            if number in rig.got:
                rig.consume(number, share)
        elif step == "answer":
            if rig.reads:
                rig.answer(argument)
        else:
            rig.room = argument
            rig.do("ready", PEER)
    rig.finish()


def test_those_at_the_tail_get_the_same_message():
    rig = Rig(window=10_000, chunk=1000, recent=1 << 20)
    rig.do("subscribe", 6, Subscribe(1, STREAM, 1, 0, 10_000))
    fx = effects()
    rig.state.take(events(1))
    rig.cursors.exposed(rig.state, stabilise(rig.state, 1), fx)
    [(to, message, _)] = fx.sends
    assert (to, type(message)) == ([PEER, 6], Tail)


def test_a_link_that_is_full_is_left_alone_until_it_is_ready():
    """What a step has sent so far does not show in the link's room: it has to be subtracted."""
    rig = Rig(window=1 << 20, chunk=100, recent=1 << 20)
    rig.room = 0
    rig.expose([(1, 500)] * 20)
    assert rig.got[1] == []
    rig.room = 2000
    rig.do("ready", PEER)
    assert sum(batch.wire_size() for batch in rig.got[1]) <= 2600
    rig.finish()


def test_a_subscription_of_an_earlier_epoch_is_told_to_start_over():
    rig = Rig(window=1000, chunk=1000, recent=1000)
    rig.state.restart(2, Effects())
    fx = effects()
    rig.cursors.epoch_changed(rig.state, fx)
    [(to, message, _)] = fx.sends
    assert (to, message) == (PEER, Restart(1, STREAM, 2, 0))


def test_what_was_consumed_of_an_earlier_epoch_says_nothing_about_this_one():
    """It would skip the first events of the new epoch, and acknowledge them for another region."""
    rig = Rig(window=1000, chunk=1000, recent=1000)
    rig.state.restart(2, Effects())
    rig.cursors.epoch_changed(rig.state, effects())
    assert rig.cursors.handle_consumed(PEER, Consumed(1, 1, 90), effects()) == 0
    rig.state.take(events(1, epoch=2))
    fx = effects()
    rig.cursors.exposed(rig.state, stabilise(rig.state, 1), fx)
    assert [message for _, message, _ in fx.sends] == [Tail((events(1, epoch=2),))]


def test_a_subscriber_that_had_more_from_an_earlier_subscription_is_not_sent_it_again():
    rig = Rig(window=1 << 20, chunk=1000, recent=1 << 20)
    rig.do("handle_consumed", PEER, Consumed(1, 1, 3))
    fx = effects()
    rig.state.take(events(1, 5))
    rig.cursors.exposed(rig.state, stabilise(rig.state, 5), fx)
    [(_, message, _)] = fx.sends
    assert numbers(message.batches) == [4, 5]


def test_there_are_only_so_many_subscriptions():
    config = ProxyConfig(max_subscriptions=2)
    cursors = Cursors(config, {STREAM: StreamState(INFO, 1, 0, 0)})
    taken = [
        cursors.subscribe(PEER, Subscribe(number, STREAM, 1, 0, 1), effects())
        for number in (1, 2, 3, 2)
    ]
    assert taken == [True, True, False, True]  # the last one takes the place of its namesake
    cursors.forget(PEER)
    assert cursors.count == 0
