"""Which proxy a client tries next."""

from random import Random

from epicast.core import Peer, Recovered
from epicast.protocols.sprinkler import Client, ClientConfig
from epicast.protocols.sprinkler.messages import Welcome
from tests.protocols.single import Single
from tests.protocols.sprinkler.parts import INFO, counter

FIRST, SECOND, THIRD = Peer(11, "a", 1), Peer(12, "b", 1), Peer(13, "c", 1)
ONLY_AN_ADDRESS = Peer(99, "b", 1)


def attached() -> Single:
    """To the first of two addresses; its proxy names the replicas, one of which is at the other."""
    single = Single(Client(Peer(1), ClientConfig(), Random(1)))
    single.call("on_start", [FIRST, ONLY_AN_ADDRESS], Recovered())
    single.up(FIRST.id)
    welcome = Welcome("r", FIRST, (INFO,), (counter(0),), 500_000_000, proxies=(SECOND, THIRD))
    single.receive(FIRST.id, welcome)
    return single


def test_each_address_is_tried_once_in_a_round() -> None:
    single = attached()
    tried = []
    peer = FIRST.id
    for _ in range(6):
        single.down(peer)
        single.fire("connect")
        [peer] = single.connects()
        tried.append(peer)
    assert tried == [ONLY_AN_ADDRESS.id, THIRD.id, FIRST.id] * 2


def test_who_gives_no_welcome_is_left_for_the_next() -> None:
    single = attached()
    single.down(FIRST.id)
    single.fire("connect")
    single.up(ONLY_AN_ADDRESS.id)
    single.fire("attach")
    assert single.disconnects() == [ONLY_AN_ADDRESS.id]
    single.fire("connect")
    assert single.connects() == [THIRD.id]


def test_another_node_at_an_address_takes_the_place_of_the_one_that_was_sought() -> None:
    single = attached()
    single.down(FIRST.id)
    single.fire("connect")
    single.interest.remove(ONLY_AN_ADDRESS.id)  # the driver has ended it
    single.protocol.replace_proxy(ONLY_AN_ADDRESS.id, SECOND)
    single.call("on_timer")
    assert single.connects() == [SECOND.id]
    single.up(SECOND.id)
    single.receive(SECOND.id, Welcome("r", SECOND, (INFO,), (counter(0),), 500_000_000))
    assert single.protocol.statistics()["attached"] == 1
