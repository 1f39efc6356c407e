"""What events collect that turn out never to have been: nothing."""

from __future__ import annotations

from epicast.protocols.sprinkler import ProxyConfig
from tests.protocols.sprinkler.chain.one_region import MS, SECOND, Chain

LARGE = b"." * 2000


def test_a_subscriber_is_shown_what_only_a_lost_event_would_have_collected() -> None:
    chain = Chain(3)
    chain.publish((b"a", b"old"))
    chain.run(SECOND)
    assert chain.acknowledged == [b"old"]
    chain.cut_off(chain.replicas[-1])
    chain.publish((b"a", b"new"))
    reader = chain.subscribe("early")  # at the head, which has both and may show one
    chain.run(100 * MS)
    assert chain.acknowledged == [b"old"]
    chain.simulation.crash(chain.publisher)  # or it would publish it again
    chain.lose_all_but_tail()
    late = chain.subscribe("late")
    chain.run(10 * SECOND)
    assert chain.delivered == {reader.id: [b"old"], late.id: [b"old"]}


def test_a_successor_gets_what_it_may_have_to_go_on_without_the_collector() -> None:
    """It catches up from history in small steps, and its predecessor is lost between two."""
    chain = Chain(2, ProxyConfig(chunk_bytes=1000, window_bytes=1000, recent_bytes=0))
    cut = chain.cut_off(chain.replicas[-1])
    chain.publish((b"x", LARGE))  # which fills the window
    chain.run(50 * MS)
    chain.publish((b"a", b"old"), (b"b", LARGE), (b"a", b"new"))
    chain.run(50 * MS)
    assert not chain.acknowledged

    def lose_head() -> None:
        if b"old" in chain.acknowledged and chain.replicas[0].alive:
            chain.simulation.crash(chain.replicas[0])
            chain.simulation.crash(chain.publisher)

    chain.on_acknowledge = lose_head
    chain.simulation.network.mend(cut)
    chain.run(10 * SECOND)
    assert not chain.replicas[0].alive
    late = chain.subscribe("late")
    chain.run(5 * SECOND)
    assert b"new" in chain.delivered[late.id] or b"old" in chain.delivered[late.id]
