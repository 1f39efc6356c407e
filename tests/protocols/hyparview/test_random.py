"""Whatever is said to a node, in whatever order, it stays sane; whatever happens to an overlay, it
becomes one again."""

from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from epicast.core import Peer
from epicast.protocols.hyparview import HyParView, HyParViewConfig, messages
from tests.protocols.harness import SECOND, Network
from tests.protocols.hyparview.nodes import asymmetric, pieces
from tests.protocols.single import Single

IDS = st.integers(0, 11)
PEERS = st.builds(Peer, IDS)
SOME = st.lists(PEERS, max_size=12).map(tuple)
TTL = st.integers(-1, 8)
MESSAGES = st.one_of(
    st.builds(messages.Join, PEERS),
    st.builds(messages.Welcome, PEERS, SOME),
    st.builds(messages.ForwardJoin, PEERS, TTL),
    st.builds(messages.Neighbor, PEERS, st.booleans()),
    st.builds(messages.NeighborReply, st.booleans()),
    st.builds(messages.Disconnect, st.booleans()),
    st.builds(messages.Shuffle, PEERS, TTL, SOME),
    st.builds(messages.ShuffleReply, SOME),
    st.builds(messages.KeepAlive, st.integers(-1, 10**10)),
    st.builds(messages.KeepAliveReply, st.integers(-1, 10**10)),
)
# Joins and requests are honest here, or most would be turned away at the door.
HONEST = IDS.flatmap(
    lambda me: st.tuples(
        st.just("receive"),
        st.just(me),
        st.sampled_from(
            [
                messages.Join(Peer(me)),
                messages.Neighbor(Peer(me), True),
                messages.Neighbor(Peer(me), False),
                messages.NeighborReply(True),
                messages.NeighborReply(False),
                messages.Welcome(Peer(me), ()),
            ]
        ),
    )
)
STEPS = st.one_of(
    HONEST,
    st.tuples(st.just("receive"), IDS, MESSAGES),
    st.tuples(st.just("up"), st.integers(0, 5)),
    st.tuples(st.just("down"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.integers(0, 20 * SECOND)),
)


@settings(max_examples=200, deadline=None)
@given(
    view=st.integers(2, 4),
    factor=st.sampled_from([1, 1.5, 2]),
    contacts=st.lists(IDS, max_size=3),
    steps=st.lists(STEPS, max_size=60),
)
def test_any_sequence_of_stimuli(view, factor, contacts, steps):
    config = HyParViewConfig(
        active_view=view, expansion_factor=factor, passive_view=5, max_contacts=2, lost_memory=2
    )
    single = Single(HyParView(Peer(0), config, Random(1)))
    single.start(*contacts)
    for step in steps:
        wanted = sorted(single.interest)
        match step:
            case ("receive", source, message):
                single.receive(source, message)
            case ("up" | "down" as what, index) if wanted:
                getattr(single, what)(wanted[index % len(wanted)])
            case ("wait", duration):
                single.wait(duration)
        # Exactly the neighbours, and the one being asked, are worth a connection.
        attempt = single.protocol._attempt
        asked = {attempt.peer.id} if attempt else set()
        assert single.interest == set(single.protocol.active) | asked
        assert single.told == single.protocol.neighbors()


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["start", "kill", "leave", "pause", "resume", "split", "mend", "run"]),
        st.integers(0, 1000),
    ),
    max_size=40,
)


# Always the same examples: healing is all but certain, see the deviations of the package.
@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000), actions=ACTIONS)
@example(
    # Two splits on end and a pause: a side of three that had forgotten the other.
    seed=80,
    actions=[("leave", 117), ("leave", 326), ("start", 316), ("kill", 172), ("run", 345),
             ("split", 216), ("run", 626), ("split", 256), ("start", 0), ("leave", 988),
             ("pause", 345), ("run", 345)],
)  # fmt: skip
def test_an_overlay_left_alone_becomes_one_and_symmetric(seed, actions):
    """Three contacts stay up all the time (but may be paused and cut off), others come and go."""
    network = Network()
    config = HyParViewConfig(active_view=3, passive_view=8)
    stopped: set[int] = set()

    def start(me: int) -> None:
        network.start(HyParView(Peer(me), config, Random(seed * 7919 + me)), [1, 2, 3])

    for me in range(1, 10):
        start(me)
        network.run(SECOND)
    for action, number in actions:
        alive = sorted(set(network.nodes) - stopped)
        mortal = [me for me in alive if me > 3]
        match action:
            case "start":
                start(max(network.nodes) + 1)
            case "kill" | "leave" if mortal:
                getattr(network, action)(mortal[number % len(mortal)])
            case "pause" if alive:
                stopped.add(alive[number % len(alive)])
                network.pause(alive[number % len(alive)])
            case "resume" if stopped:
                network.resume(stopped.pop())
            case "split":
                network.partition([me for me in network.nodes if (me + number) % 3])
            case "mend":
                network.partition()
            case _:
                network.run(number * SECOND // 50)
    network.partition()
    for me in sorted(stopped):
        network.resume(me)
    network.run(180 * SECOND)
    assert asymmetric(network) == []
    assert pieces(network) == 1
