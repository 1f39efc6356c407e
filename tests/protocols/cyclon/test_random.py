"""Whatever a node is sent, its view stays sane; ages compared with a list that is counted up."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import Peer
from epicast.protocols.cyclon import messages
from epicast.protocols.cyclon.messages import Entry
from epicast.protocols.cyclon.view import AgedView
from tests.protocols.cyclon.nodes import ME, node
from tests.protocols.harness import SECOND

IDS = st.sampled_from([*range(8), ME])
PEERS = st.builds(Peer, IDS)
ENTRIES = st.builds(Entry, PEERS, st.integers(-2, 30))
SOME = st.lists(ENTRIES, max_size=6).map(tuple)
NUMBER = st.integers(0, 5)
MESSAGES = st.one_of(
    st.builds(messages.ShuffleRequest, PEERS, NUMBER, SOME),
    st.builds(messages.ShuffleAnswer, NUMBER, SOME),
    st.builds(messages.JoinRequest, PEERS),
    st.builds(messages.JoinWalk, PEERS, st.integers(-1, 7)),
    st.builds(messages.JoinSwap, ENTRIES),
)


def speaker(message):
    """Requests come from whom they say; the rest from anybody."""
    claimed = getattr(message, "sender", getattr(message, "joiner", None))
    return IDS if claimed is None else st.one_of(st.just(claimed.id), IDS)


STEPS = st.one_of(
    MESSAGES.flatmap(lambda message: st.tuples(speaker(message), st.just(message))),
    st.integers(0, 30 * SECOND),
)


@settings(max_examples=200, deadline=None)
@given(contacts=st.lists(IDS, max_size=2), steps=st.lists(STEPS, max_size=60))
def test_any_sequence_of_stimuli(contacts, steps):
    single = node(contacts=tuple(contacts))
    for step in steps:
        if isinstance(step, int):
            single.wait(step)
        else:
            single.receive(*step)
        assert sorted(single.told) == sorted(single.protocol.neighbors())
        assert all(to != ME for to, _ in single.sends)


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 9), st.integers(0, 5)),
            st.tuples(st.just("pop"), st.integers(0, 9)),
            st.just(("grow",)),
        )
    )
)
def test_ages_are_those_of_a_plain_list(steps):
    view, model = AgedView(), {}
    for step in steps:
        match step:
            case ("add", peer, age):
                view.add(Entry(Peer(peer), age))
                model[peer] = age
            case ("pop", peer) if peer in model:
                assert view.pop(peer) == Entry(Peer(peer), model.pop(peer))
            case ("grow",):
                view.grow_older()
                model = {peer: age + 1 for peer, age in model.items()}
        assert len(view) == len(model)
        assert view.total_age() == sum(model.values())
        assert {e.peer.id: e.age for e in view.sample(Random(1), 99)} == model
        if model:
            assert model[view.oldest().id] == max(model.values())
