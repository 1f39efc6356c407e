"""A topic that cannot be joined ends with an error that says why."""

import socket

import pytest

import epicast
from epicast.client.topics import topic as topics
from tests.integration.runtime.conftest import Run
from tests.integration.topics.support import CONFIG, LOOPBACK, peers


async def assert_ended(topic: epicast.Topic, got: epicast.TopicSubscription, match: str) -> None:
    """Check that waiting, subscribing and publishing raise `JoinFailed`."""
    for waiting in (topic.joined(20), got.get(timeout=20), topic.publish(b"x")):
        with pytest.raises(epicast.JoinFailed, match=match):
            await waiting
    assert topic.state == "left"
    with pytest.raises(epicast.JoinFailed, match=match):
        topic.subscribe()


@pytest.mark.parametrize("contact", ["nobody", "silent", "no-such-name.invalid"])
def test_after_the_time_given_whatever_the_contact_is(run: Run, contact: str) -> None:
    async def main() -> None:
        with socket.socket() as free:
            free.bind((LOOPBACK, 0))
            if contact == "silent":
                free.listen()
            here = f"{LOOPBACK}:{free.getsockname()[1]}"
            address = contact if "." in contact else here
            async with peers(1) as [node]:
                within = 0.25  # between the second look-up of the name and the third
                topic = node.topic("chat", config=CONFIG, contacts=[address], join_within=within)
                await assert_ended(topic, topic.subscribe(), "not joined within 0.25 seconds")

    run(main())


def test_a_topic_that_ended_so_can_be_joined_again(run: Run) -> None:
    async def main() -> None:
        async with peers(2) as [first, second]:
            topic = second.topic("chat", config=CONFIG, join_within=0.3)  # nobody else is in it
            await assert_ended(topic, topic.subscribe(), "0.3 seconds")
            first.topic("chat", config=CONFIG)
            again = second.topic("chat", config=CONFIG)
            assert again is not topic
            await again.joined(20)

    run(main())


def test_an_error_that_nobody_expected(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(mode: str) -> None:
        raise RuntimeError("no compiler for " + mode)

    async def main() -> None:
        async with peers(1) as [node]:
            topic = node.topic("chat", config=CONFIG)
            got = topic.subscribe()
            monkeypatch.setattr(topics, "topic_mode", broken)
            await assert_ended(topic, got, "cannot be joined: .*no compiler for gossip")
            monkeypatch.undo()

    run(main())
