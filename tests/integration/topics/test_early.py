"""Early delivery among real peers: an application that rolls back when told to has the order."""

import pytest

import epicast
from epicast import Confirmed, EptoConfig, Event, Revised, Topic, TopicSubscription
from tests.integration.runtime.conftest import Run
from tests.integration.topics.support import peers, take
from tests.integration.topics.test_ordered import CONFIG, joined


class Application:
    """Applies events as they come."""

    def __init__(self, subscription: TopicSubscription) -> None:
        self._subscription = subscription
        self.applied: list[Event] = []
        self.confirmed = 0
        self.most_unconfirmed = 0
        """When something was confirmed: only events given early are left then."""

    async def read_until_confirmed(self, events: int) -> None:
        while self.confirmed < events:
            item = await self._subscription.get(timeout=20)
            match item:
                case Event():
                    self.applied.append(item)
                case Confirmed():
                    self.confirmed = item.up_to
                    unconfirmed = len(self.applied) - self.confirmed
                    self.most_unconfirmed = max(self.most_unconfirmed, unconfirmed)
                case Revised():
                    assert item.after >= self.confirmed
                    del self.applied[item.after :]
                case _:
                    raise AssertionError(f"{item} after {self.confirmed} of {events}")


async def publish_some(topics: list[Topic], number: int) -> int:
    for topic in topics:
        await topic.publish(b"%d" % number)
    await topics[0].publish_many([b"a", b"bb"])
    return len(topics) + 2


@pytest.mark.parametrize("clock", ["global", "logical"])
def test_what_is_confirmed_is_what_others_get(run: Run, clock: str) -> None:
    async def main() -> None:
        config = EptoConfig(
            clock=clock,  # type: ignore[arg-type]
            round_period_ns=CONFIG.round_period_ns,
            min_round_ns=CONFIG.min_round_ns,
            shuffle_period_ns=CONFIG.shuffle_period_ns,
        )
        async with peers(3) as nodes:
            topics = await joined(nodes, config)
            plain = [topic.subscribe() for topic in topics]
            readers = [Application(topic.subscribe(early=0.3)) for topic in topics]
            published, number = 0, 0
            while not all(reader.most_unconfirmed for reader in readers):
                number += 1
                published += await publish_some(topics, number)
                for reader in readers:
                    await reader.read_until_confirmed(max(0, published - 20))
            for reader, subscription in zip(readers, plain, strict=True):
                await reader.read_until_confirmed(published)
                assert reader.applied == await take(subscription, published)
            assert topics[0].statistics()["epto.early_given"] >= published

    run(main())


def test_who_subscribes_before_the_topic_runs_gets_all_of_it(run: Run) -> None:
    async def main() -> None:
        async with peers(2) as nodes:
            early = [
                node.topic("orders", "ordered", config=CONFIG).subscribe(early=0.9)
                for node in nodes
            ]
            topics = await joined(nodes, CONFIG)
            await topics[0].publish(b"x")
            for subscription in early:
                reader = Application(subscription)
                await reader.read_until_confirmed(1)
                assert [event.payload for event in reader.applied] == [b"x"]
            early[0].close()
            await topics[1].publish(b"y")
            await Application(early[1]).read_until_confirmed(2)
            assert early[0].closed

    run(main())


def test_early_is_for_ordered_topics_and_probabilities(run: Run) -> None:
    async def main() -> None:
        async with peers(1) as (node,):
            with pytest.raises(epicast.EpicastError, match=r"early: .*'gossip'.*'ordered'"):
                node.topic("chat").subscribe(early=0.9)
            with pytest.raises(epicast.EpicastError, match=r"early: 1 is not between 0 and 1"):
                node.topic("orders", "ordered").subscribe(early=1)
            assert node.topic("orders", "ordered").statistics()["subscriptions"] == 0

    run(main())
