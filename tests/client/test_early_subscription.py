"""Early delivery up to the application: a protocol that is given balls at random, a subscription
with little room, and an application that reads when it likes, applies and rolls back."""

import asyncio
from random import Random

import pytest

from epicast import Confirmed, EventBatch, Gap, Revised
from epicast.client.topics.early import EarlySubscription, EarlySubscriptions
from epicast.core import ConfigError, Event
from epicast.core.batch_layout import Run
from epicast.core.effects import Notice
from epicast.protocols.epto import EarlyStep
from epicast.protocols.epto.entries import by_source
from tests.protocols.epto.test_protocol import OTHER, THIRD, ball, node, publish
from tests.protocols.single import Single

Name = tuple[int, int]


class Application:
    def __init__(self, subscription: EarlySubscription) -> None:
        self.subscription = subscription
        self.applied: list[Name] = []
        self.confirmed = 0
        self.history: list[Name | int] = []
        """What was confirmed, and how many events each gap stands for."""
        self.revisions = self.gaps = self.early = 0

    async def read(self, most: int) -> None:
        for _ in range(most):
            item = await self.subscription.next_batch(timeout=0)
            if item is None:
                return
            self.take(item)

    def take(self, item: EventBatch | Gap | Confirmed | Revised) -> None:
        match item:
            case EventBatch():
                self.applied += [(item.stream, number) for number in item.seqs.tolist()]
            case Confirmed():
                new = self.applied[self.confirmed : item.up_to]
                assert len(new) == item.events
                self.history += new
                self.confirmed = item.up_to
                self.early += self.confirmed < len(self.applied)
            case Revised():
                assert item.after >= self.confirmed, "what is confirmed stays"
                assert len(self.applied) - item.after == item.events
                del self.applied[item.after :]
                self.revisions += 1
            case Gap():
                assert self.confirmed == len(self.applied), "what is missing is missing here"
                self.history.append(item.events)
                self.gaps += 1

    def check(self, order: list[Name]) -> None:
        assert self.confirmed == len(self.applied)
        place = 0
        for what in self.history:
            if isinstance(what, int):
                place += what
            else:
                assert what == order[place]
                place += 1
        assert place == len(order)


def round_of(single: Single, early: EarlySubscriptions, order: list[Name]) -> None:
    single.fire("round")
    for batch in single.fx.deliveries:
        for part in by_source(batch):
            order += [(part.stream, number) for number in part.seqs.tolist()]
    for operation in single.fx.operations:
        if isinstance(operation, Notice) and isinstance(operation.value, EarlyStep):
            early.receive(operation.value)


async def run_seed(seed: int) -> Application:
    rng = Random(seed)
    single = node(clock="logical")
    early = EarlySubscriptions()
    window = rng.choice((1, 3000, 10_000, 1 << 20))
    subscription = EarlySubscription(rng.choice((0.2, 0.5, 0.8)), window, lambda _: None)
    early.add(subscription)
    early.follow(single.protocol)  # type: ignore[arg-type]
    application = Application(subscription)
    order: list[Name] = []
    numbers = {OTHER: 0, THIRD: 0}
    time = 10
    for _ in range(80):
        time += rng.randint(0, 3)
        if rng.random() < 0.6:
            source = rng.choice((OTHER, THIRD))
            numbers[source] += 1
            single.receive(source, ball((10 * time + rng.randint(0, 60), source,
                                         numbers[source], 0)))  # fmt: skip
        round_of(single, early, order)
        await application.read(rng.choice((0, 0, 1, 2, 30)))
    for _ in range(8):
        round_of(single, early, order)
    await application.read(1000)
    application.check(order)
    return application


def test_what_was_confirmed_is_the_order_whatever_was_revised_and_given_up() -> None:
    async def main() -> None:
        found = [await run_seed(seed) for seed in range(60)]
        assert sum(each.early for each in found) > 100
        assert sum(each.revisions for each in found) > 100
        assert 0 < sum(each.gaps > 0 for each in found) < 60, "some had room for everything"

    asyncio.run(main())


def test_a_hole_is_told_where_it_is() -> None:
    async def main() -> None:
        subscription = EarlySubscription(0.5, 1 << 20, lambda _: None)
        subscription.receive(EventBatch.build(1, 1, [b"delivered, which comes as a step too"]))
        subscription.receive(Gap(2, 7, 5, 6))
        given = EventBatch.build(0, 1, [b"x"]).renumbered(0, 0, 1, 5, (Run(3, 1, 1),))
        subscription.receive_step(EarlyStep(1, 0, given, 1))
        assert await subscription.get() == Gap(2, 7, 5, 6)
        item = await subscription.get()
        assert isinstance(item, Event) and item.payload == b"x"
        assert await subscription.get() == Confirmed(1, 1)
        assert await subscription.get(timeout=0) is None

    asyncio.run(main())


def test_a_protocol_that_is_started_anew_takes_back_what_is_not_confirmed() -> None:
    async def main() -> None:
        early = EarlySubscriptions()
        subscription = EarlySubscription(0.5, 1 << 20, lambda _: None)
        early.add(subscription)
        for number in (1, 2):
            single = node(clock="logical")
            early.follow(single.protocol)  # type: ignore[arg-type]
            order: list[Name] = []
            for _ in range(3):
                single.fire("round")
            publish(single, 1, b"first")
            for _ in range(6):
                round_of(single, early, order)
            publish(single, 2, b"second")
            round_of(single, early, order)
            kinds = []
            while (item := await subscription.next_batch(timeout=0)) is not None:
                kinds.append(type(item))
            assert kinds == [Revised] * (number - 1) + [EventBatch, Confirmed, EventBatch]
        early.remove(subscription)
        publish(single, 3, b"third")
        round_of(single, early, order)
        assert await subscription.next_batch(timeout=0) is None

    asyncio.run(main())


@pytest.mark.parametrize("wrong", [0, 1.0, "0.9"])
def test_what_is_no_probability_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match="early"):
        EarlySubscription(wrong, 1000, lambda _: None)  # type: ignore[arg-type]
