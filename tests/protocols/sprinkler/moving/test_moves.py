"""Streams that are moved, step by step."""

from __future__ import annotations

import pytest

from epicast.protocols.sprinkler.moving.messages import AcceptLoss, MoveOutcome
from tests.protocols.sprinkler.moving.world import MS, REGIONS, SECOND, MovingWorld

NO_RESETS = dict.fromkeys(REGIONS, 0)
ONE_RESET = dict.fromkeys(REGIONS, 1)


def test_nobody_notices_that_a_stream_is_handed_over() -> None:
    world = MovingWorld()
    world.publish_everywhere()
    epochs = world.epochs()
    world.move("b")
    world.publish_everywhere(60)
    world.run(3 * SECOND)
    [reply] = world.replies
    assert reply.outcome is MoveOutcome.DONE and {reply.epoch} == epochs == world.epochs()
    assert world.owners() == {("b", 1)} and world.numbering() == ["b"]
    assert world.resets == NO_RESETS
    world.check_all_read()
    assert world.moved("a", at="b").outcome is MoveOutcome.DONE
    world.publish_everywhere()
    world.run(SECOND)
    assert world.owners() == {("a", 2)} and world.resets == NO_RESETS
    world.check_all_read()


def test_a_stream_that_nothing_was_published_to() -> None:
    world = MovingWorld()
    assert world.moved("b").outcome is MoveOutcome.DONE
    world.publish_everywhere()
    world.run(SECOND)
    assert world.numbering() == ["b"] and world.resets == NO_RESETS
    world.check_all_read()


def test_who_owns_a_stream_is_remembered_and_counts_more_than_the_file() -> None:
    world = MovingWorld()
    world.publish_everywhere()
    world.moved("b")
    for region in REGIONS:
        world.crash(region)
    world.start("a")  # alone, it could still believe what is in the file
    world.publish("a")
    world.run(SECOND)
    assert not world.proxy("a").owns(world.stream)
    world.start("b")
    world.start("c")
    world.publish_everywhere()
    world.run(5 * SECOND)
    assert world.owners() == {("b", 1)} and world.numbering() == ["b"]
    assert world.resets == NO_RESETS
    world.check_all_read()


def test_a_region_that_was_away_learns_of_it() -> None:
    world = MovingWorld()
    world.crash("c")
    world.move("b")
    world.run(3 * SECOND)
    world.start("c")
    world.publish_everywhere()
    world.run(3 * SECOND)
    assert world.owners() == {("b", 1)} and world.resets == NO_RESETS
    world.check_all_read()


@pytest.mark.parametrize("region", ["a", "b"])
@pytest.mark.parametrize("after", [1, 45, 100])
def test_a_side_fails_in_the_midst_of_it(region: str, after: int) -> None:
    world = MovingWorld()
    world.publish_everywhere()
    world.move("b")
    world.run(after * MS)
    world.crash(region)
    world.publish_everywhere()
    world.start(region)
    world.publish_everywhere()
    world.run(15 * SECOND)
    [owner] = world.numbering()
    assert {name for name, _ in world.owners()} == {owner} and world.resets == NO_RESETS
    world.check_all_read()


def test_a_region_that_cannot_be_heard_is_given_nothing() -> None:
    world = MovingWorld()
    world.publish_everywhere()
    cut = world.isolate("b")
    world.run(20 * MS)  # the connection stands, and nothing comes through
    world.move("b")
    world.publish_everywhere(100)
    world.run(15 * SECOND)
    [reply] = world.replies
    assert reply.outcome is MoveOutcome.REFUSED and "b does not answer" in reply.detail
    assert world.owners() == {("a", 0)} and world.numbering() == ["a"]
    world.mend(cut)
    world.run(10 * SECOND)
    world.check_all_read()


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("a", "a owns it already"),
        ("d", "there is no such region"),
        ("bare", "keeps nothing on disk: give that region a data folder first"),
    ],
)
def test_what_is_refused(to: str, said: str) -> None:
    world = MovingWorld()
    reply = world.moved(to)
    assert reply.outcome is MoveOutcome.REFUSED and said in reply.detail
    assert world.owners() == {("a", 0)}


def test_who_does_not_own_it_says_who_does() -> None:
    world = MovingWorld()
    reply = world.moved("b", at="c")
    assert reply.outcome is MoveOutcome.ELSEWHERE and "a owns it" in reply.detail
    world.geo.ask_to_move("s", "b", world.geo.proxies["a"], force=True)
    world.run(SECOND)
    assert world.replies[-1].outcome is MoveOutcome.ELSEWHERE and world.owners() == {("a", 0)}


def test_acknowledgements_that_wait_for_regions_are_given_by_the_new_owner() -> None:
    world = MovingWorld()
    cut = world.isolate("c")
    world.run(SECOND)
    world.publish("a", 3, level="regions=3")
    world.run(SECOND)
    assert not world.acknowledged
    world.moved("b")
    world.mend(cut)
    world.publish_everywhere()
    world.run(5 * SECOND)
    world.check_all_read()


# -- by force --------------------------------------------------------------------------------------


def test_taken_by_force_while_the_owner_is_gone() -> None:
    world = MovingWorld()
    world.publish_everywhere()
    world.run(SECOND)
    world.crash("a")
    world.publish_everywhere()
    assert world.moved("b", force=True).outcome is MoveOutcome.DONE
    world.publish_everywhere()
    world.start("a")
    world.run(5 * SECOND)
    assert world.owners() == {("b", 1)} and world.numbering() == ["b"]
    assert world.resets == ONE_RESET and not world.losses("a")
    world.check_all_read()


def test_what_only_the_old_owner_had_is_said_until_it_is_accepted() -> None:
    world = MovingWorld()
    world.publish_everywhere()
    world.run(SECOND)
    cut = world.isolate("a")
    world.run(SECOND)
    before = len(world.acknowledged)
    world.publish("a", 7)  # it does not know yet, and acknowledges
    world.run(SECOND)
    assert len(world.acknowledged) == before + 7
    world.moved("b", force=True)
    world.publish("b", 5)
    world.run(SECOND)
    world.mend(cut)
    world.run(15 * SECOND)
    assert world.losses("a") == [7] and not world.losses("b") and not world.losses("c")
    assert world.owners() == {("b", 1)} and world.numbering() == ["b"]
    assert world.resets == ONE_RESET
    world.check_all_read(but=7)
    world.crash("a")
    world.start("a")
    world.run(SECOND)
    assert world.losses("a") == [7], "it was forgotten"
    proxy = world.geo.proxies["a"]
    world.simulation.stimulate(proxy, "on_messages", 4711, [AcceptLoss(world.stream)])
    world.run(SECOND)
    world.crash("a")
    world.start("a")
    assert not world.losses("a")


def test_an_owner_that_lost_its_disk_goes_on_with_what_others_have() -> None:
    world = MovingWorld()
    world.publish_everywhere()
    world.moved("b")
    world.publish_everywhere()
    world.run(SECOND)
    world.crash("b", lose_disk=True)
    world.publish("a", 3)
    world.run(SECOND)
    world.start("b")
    world.run(10 * SECOND)
    assert world.owners() == {("b", 2)} and world.numbering() == ["b"]
    world.publish_everywhere()
    world.run(3 * SECOND)
    assert world.resets == ONE_RESET
    world.check_all_read()


def test_a_former_owner_that_lost_its_disk_does_no_lasting_harm() -> None:
    """It numbers events until it hears that they are not its own to number; they are lost."""
    world = MovingWorld()
    world.publish_everywhere()
    world.moved("b")
    world.crash("a", lose_disk=True)
    cut = world.isolate("a")
    world.start("a")
    world.run(SECOND)
    world.publish("a", 4)
    world.run(2 * SECOND)
    world.mend(cut)
    world.run(15 * SECOND)
    world.publish_everywhere()
    world.run(3 * SECOND)
    assert {name for name, _ in world.owners()} == {"b"} and world.numbering() == ["b"]
    assert world.losses("a") == [4]
    world.check_all_read(but=4)


def test_two_regions_that_are_told_to_take_it_agree_on_one() -> None:
    world = MovingWorld()
    world.publish_everywhere()
    world.crash("a")
    cut = world.isolate("c")
    world.move("b", force=True)
    world.move("c", force=True)
    world.publish_everywhere()
    world.run(2 * SECOND)
    assert len(world.owners()) == 2
    world.mend(cut)
    world.start("a")
    world.run(15 * SECOND)
    [owner] = world.numbering()
    assert {name for name, _ in world.owners()} == {owner}
    loser = "c" if owner == "b" else "b"
    assert world.losses(loser), "what it had numbered is gone"
    world.check_all_read(but=len(set(world.acknowledged) - set(world.read["a"])))
