"""Views, subscriptions and unsubscriptions of one node."""

from collections import Counter

import pytest

from epicast.core import Peer
from epicast.protocols.lpbcast.membership import MAX_LIFE
from epicast.protocols.lpbcast.messages import Gossip, Subscribe, Subscription, Unsubscription
from tests.protocols.harness import SECOND
from tests.protocols.lpbcast.nodes import (
    ME,
    ROUND,
    ages,
    batch,
    next_round,
    node,
    publish,
    subscriptions,
    system,
)


def known(single):
    return sorted(single.protocol.neighbors())


def passed_on(messages):
    return {member.peer.id for message in messages for member in message.subscriptions}


def test_newcomer_subscribes_at_its_contact_which_passes_it_on():
    joiner = node(contacts=(1,))
    joiner.start(1)
    [(to, message)] = joiner.sent(Subscribe)
    assert (to, message.subscription.peer) == ([1], Peer(ME))
    contact = node(7, 8)
    contact.receive(5, Subscribe(Subscription(Peer(5), 1)))
    assert known(contact) == [5, 7, 8]
    assert 5 in passed_on(next_round(contact))


def test_a_subscription_in_anothers_name_is_dropped():
    contact = node(7)
    contact.receive(5, Subscribe(Subscription(Peer(6), 1)))
    assert known(contact) == [7]
    assert contact.drops() == ["subscription in another's name"]


def test_every_gossip_carries_the_senders_own_subscription():
    single = node(1, 2, 3)
    for _ in range(5):
        messages = next_round(single)
        assert ME in passed_on(messages)


def test_gossip_goes_to_fanout_neighbours():
    single = node(1, 2, 3, 4)
    met = Counter()
    for _ in range(60):
        single.fire("round")
        [(targets, _)] = single.sent(Gossip)
        assert len(set(targets)) == 2
        met.update(targets)
    assert set(met) == {1, 2, 3, 4}
    assert min(met.values()) > 15  # 30 each on average


def test_what_leaves_the_view_is_passed_on():
    single = node(1, 2, 3, 4, max_subs=10)
    single.receive(5, subscriptions(5, 6, 7))
    assert len(known(single)) == 4
    assert passed_on(next_round(single)) == {1, 2, 3, 4, 5, 6, 7, ME}


def test_neighbours_told_to_the_layer_above_are_the_view():
    single = node(1, 2, 3, 4)
    for start in range(5, 60, 3):
        single.receive(start, subscriptions(start, start + 1, start + 2))
        assert sorted(single.told) == known(single)
        assert set(single.known()) >= set(single.told) - set(range(start))


def test_an_unsubscription_removes_the_leaver_and_is_passed_on_until_it_expires():
    single = node(1, 2, 3, unsubscription_rounds=5)
    single.receive(2, Gossip(unsubscriptions=(Unsubscription(1, 1, 3),)))
    assert known(single) == [2, 3]
    single.receive(2, subscriptions(1))  # others still have it in circulation
    assert known(single) == [2, 3]
    left = [message.unsubscriptions for message in next_round(single) + next_round(single)]
    assert left == [(Unsubscription(1, 1, 2),), (Unsubscription(1, 1, 1),)]
    assert next_round(single)[0].unsubscriptions == ()
    single.receive(2, subscriptions(1))
    assert known(single) == [1, 2, 3]


def test_a_node_that_comes_back_overrules_its_own_unsubscription():
    single = node(1, 2)
    single.receive(2, Gossip(unsubscriptions=(Unsubscription(1, 1, 10),)))
    single.receive(1, subscriptions(1, life=2))
    assert known(single) == [1, 2]
    single.receive(2, Gossip(unsubscriptions=(Unsubscription(1, 1, 11),)))
    assert known(single) == [1, 2]


def test_a_node_that_others_unsubscribe_says_that_it_is_there():
    single = node(1, 2)
    single.receive(1, Gossip(unsubscriptions=(Unsubscription(ME, 7, 10),)))
    assert single.drops() == ["unsubscription of this node"]
    [own] = [s for s in next_round(single)[0].subscriptions if s.peer.id == ME]
    assert own.life == 8


def test_rounds_of_an_unsubscription_are_limited_by_the_receiver():
    single = node(1, 2, unsubscription_rounds=2)
    single.receive(1, Gossip(unsubscriptions=(Unsubscription(9, 1, 10**12),)))
    assert next_round(single)[0].unsubscriptions == (Unsubscription(9, 1, 1),)
    assert next_round(single)[0].unsubscriptions == ()


def test_leaving_politely():
    single = node(1, 2, 3, 4)
    single.call("on_stop")
    [(targets, message)] = single.sends
    assert len(targets) == 2
    assert [item.peer for item in message.unsubscriptions] == [ME]
    assert message.subscriptions == ()
    assert single.protocol.next_deadline() is None


def test_a_leaver_takes_no_event_of_its_own_with_it():
    """Not those that waited for their turn, and not those that do not fit one round."""
    single = node(1, 2, 3, 4, max_events=12, critical_age_rounds=6, max_waiting=100,
                  max_message_bytes=700, max_datagrams=2)  # fmt: skip
    publish(single, batch(ME, 1, 60, size=100))
    assert single.protocol.statistics()["waiting"] > 50
    single.call("on_stop")
    messages = [message for _, message in single.sent(Gossip)]
    assert set(ages(messages)) == {(ME, seq) for seq in range(1, 61)}
    assert [item.peer for item in messages[0].unsubscriptions] == [ME]
    assert single.protocol.next_deadline() is None


def subscribed_again(single, rounds):
    asked = []
    for _ in range(rounds):
        single.fire("round")
        asked.append(len(single.sent(Subscribe)))
    return asked


def test_silence_makes_a_node_subscribe_again():
    single = node(contacts=(1,), resubscribe_rounds=3)
    assert subscribed_again(single, 4) == [1, 1, 1, 1]  # until it hears anything at all
    single.receive(1, subscriptions(1))
    assert subscribed_again(single, 6) == [0, 0, 1, 0, 0, 1]
    single.receive(1, subscriptions(1))
    assert subscribed_again(single, 1) == [0]


def test_a_newcomer_is_told_of_others_at_once_and_some_of_them_of_it():
    contact = node(7, 8, 9)
    newcomer = Subscription(Peer(5), 1)
    contact.receive(5, Subscribe(newcomer))
    [(to, introduction), (others, news)] = contact.sent(Gossip)
    assert to == [5]
    assert passed_on([introduction]) == {ME, 7, 8, 9}
    assert set(others) <= {7, 8, 9}
    assert news.subscriptions == (newcomer,)


def test_newcomers_beyond_the_limit_wait_for_the_next_gossip():
    contact = node(7, 8, 9, max_welcomes=2, max_subs=10)
    answered = 0
    for peer in range(20, 25):
        contact.receive(peer, Subscribe(Subscription(Peer(peer), 1)))
        answered += bool(contact.sent(Gossip))
    assert answered == 2
    assert {22, 23, 24} <= passed_on(next_round(contact))
    contact.receive(30, Subscribe(Subscription(Peer(30), 1)))
    assert contact.sent(Gossip)  # in the next round again


def test_views_of_many_that_join_at_once_are_full_within_three_rounds():
    network = system(40, gap=0, view_size=8, max_subs=8)
    network.run(3 * ROUND)
    sizes = sorted(len(protocol.neighbors()) for protocol in network.nodes.values())
    assert sizes[4] == 8, sizes  # all but a few


def test_lives_that_nobody_has_are_dropped():
    single = node(1, 2)
    single.receive(2, Gossip(unsubscriptions=(Unsubscription(1, MAX_LIFE, 10),)))
    assert single.drops() == ["implausible life"]
    assert known(single) == [1, 2]
    single.receive(2, subscriptions(3, life=MAX_LIFE + 1))
    assert single.drops() == ["implausible life"]
    assert known(single) == [1, 2]


def test_who_is_unsubscribed_by_others_again_and_again_has_the_last_word():
    victim, other = node(1, 2), node(1, 2)
    for life in (7, 2**40, MAX_LIFE - 1):
        victim.receive(1, Gossip(unsubscriptions=(Unsubscription(ME, life, 10),)))
    [own] = [s for s in next_round(victim)[0].subscriptions if s.peer.id == ME]
    mine = Subscription(Peer(5), own.life)
    other.receive(1, Gossip((mine,), (Unsubscription(5, MAX_LIFE - 1, 10),)))
    other.receive(1, Gossip((), (Unsubscription(5, MAX_LIFE, 10),)))
    assert 5 in known(other)


def test_select_process_spares_those_heard_of_seldom():
    """Fig. 14: of three, the one heard of much more often goes, nearly always."""
    kept = Counter()
    for seed in range(40):
        single = node(seed=seed, max_subs=2, membership="frequency")
        single.receive(1, subscriptions(1))
        for _ in range(20):
            single.receive(2, subscriptions(2))
        single.receive(3, subscriptions(3))
        kept.update(passed_on(next_round(single)) - {ME})
    assert kept[2] < 5
    assert min(kept[1], kept[3]) > 35


def test_select_process_spares_them_in_the_view_too():
    kept = Counter()
    for seed in range(40):
        single = node(seed=seed, view_size=2, membership="frequency")
        single.receive(1, subscriptions(1))
        for _ in range(20):
            single.receive(2, subscriptions(2))
        single.receive(3, subscriptions(3))
        kept.update(known(single))
    assert kept[2] < 5
    assert min(kept[1], kept[3]) > 35


def test_unsubscriptions_are_bounded():
    single = node(1, 2, max_unsubs=3)
    single.receive(1, Gossip(unsubscriptions=tuple(Unsubscription(n, 1, 9) for n in range(10, 30))))
    assert len(next_round(single)[0].unsubscriptions) == 3


def test_random_purging_does_not():
    kept = Counter()
    for seed in range(60):
        single = node(seed=seed, max_subs=2, membership="random")
        single.receive(1, subscriptions(1))
        for _ in range(20):
            single.receive(2, subscriptions(2))
        single.receive(3, subscriptions(3))
        kept.update(passed_on(next_round(single)) - {ME})
    assert min(kept[1], kept[2], kept[3]) > 20


def test_a_leaver_disappears_from_all_views():
    network = system(16)
    network.run(SECOND)
    known_to = Counter(peer for each in network.nodes.values() for peer in each.neighbors())
    [(leaver, _)] = known_to.most_common(1)
    network.leave(leaver)
    network.run(5 * ROUND)
    assert not any(leaver in protocol.neighbors() for protocol in network.nodes.values())


def test_a_crashed_node_fades_from_the_views():
    """Section 3.4: it no longer gossips about itself."""
    network = system(16)
    network.run(SECOND)
    network.kill(9)
    network.run(60 * ROUND)
    assert sum(9 in protocol.neighbors() for protocol in network.nodes.values()) <= 1


@pytest.mark.parametrize("contact_every", [0, 5])
def test_a_partition_that_both_sides_have_forgotten_is_mended_by_the_privileged_contact(
    contact_every,
):
    network = system(16, contact_every=contact_every, max_unsubs=8)
    network.run(SECOND)
    left, right = range(1, 9), range(9, 17)

    def across():
        return sum(
            (me in left) != (peer in left)
            for me, protocol in network.nodes.items()
            for peer in protocol.neighbors()
        )

    network.partition(left)
    for mine, others in ((left, right), (right, left)):
        gone = Gossip(unsubscriptions=tuple(Unsubscription(peer, 1, 20) for peer in others))
        for me in mine:
            network.do(me, lambda p, fx, gone=gone: p.on_messages(network.now, 0, [gone], fx))
    network.run(30 * ROUND)  # by then nobody is known to have left, nor to be there
    assert across() == 0
    network.partition()
    network.run(30 * ROUND)
    if contact_every:
        assert across() > 16  # of 64 entries, about half
    else:
        assert across() == 0  # nothing else mends it


def test_membership_can_go_in_every_kth_round_only_or_more_often_than_events():
    single = node(1, 2, membership_every=3)
    carried = [bool(next_round(single)[0].subscriptions) for _ in range(6)]
    assert carried == [False, False, True, False, False, True]
    single = node(1, 2, membership_extra=3)
    single.fire("round")
    begin, extra = single.now, 0
    while single.protocol.timers.deadline("views") < begin + ROUND:
        single.fire("views")
        extra += len(single.sends)
    assert extra == 3
