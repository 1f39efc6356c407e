"""Shared interests against a model that keeps one line per topic and peer."""

from hypothesis import given
from hypothesis import strategies as st

from epicast.core.sharing import SharedInterest, SharedLinks

TOPICS, PEERS = range(1, 4), range(10, 12)
steps = st.lists(
    st.tuples(
        st.sampled_from(["connect", "disconnect", "up", "down", "settle", "forget"]),
        st.sampled_from(TOPICS),
        st.sampled_from(PEERS),
    ),
    max_size=60,
)


class Model:
    """`state[topic, peer]` is absent, "asked" or "told"; the driver has one line per peer."""

    def __init__(self) -> None:
        self.state: dict[tuple[int, int], str] = {}
        self.link: dict[int, str] = {}

    def topics(self, peer: int) -> set[int]:
        return {topic for topic, other in self.state if other == peer}

    def connect(self, topic: int, peer: int) -> bool:
        self.state[topic, peer] = "asked"
        first = peer not in self.link
        self.link.setdefault(peer, "asked")
        return first

    def disconnect(self, topic: int, peer: int) -> bool:
        if self.state.pop((topic, peer), None) is None or self.topics(peer):
            return False
        del self.link[peer]
        return True

    def tell(self, peer: int) -> set[int]:
        """All that asked and were not told, of a peer that is up."""
        asked = {topic for topic in self.topics(peer) if self.state[topic, peer] == "asked"}
        for topic in asked:
            self.state[topic, peer] = "told"
        return asked


@given(steps)
def test_links(script: list[tuple[str, int, int]]) -> None:
    subject, model = SharedLinks(), Model()
    for what, topic, peer in script:
        if what == "connect":
            assert subject.connect(topic, peer) == model.connect(topic, peer)
        elif what == "disconnect":
            assert subject.disconnect(topic, peer) == model.disconnect(topic, peer)
        elif what == "up":
            expected = model.tell(peer) if peer in model.link else set()
            if peer in model.link:
                model.link[peer] = "up"
            assert set(subject.went_up(peer)) == expected
        elif what == "down":
            expected = model.topics(peer)
            model.state = {k: v for k, v in model.state.items() if k[1] != peer}
            model.link.pop(peer, None)
            told = subject.went_down(peer)
            assert set(told) == expected and len(told) == len(expected)
        elif what == "forget":
            expected = {p for p in PEERS if model.disconnect(topic, p)}
            assert set(subject.forget(topic)) == expected
        else:
            waiting, subject.unanswered = subject.unanswered, []
            told = [(t, p) for t, p in waiting if subject.answer(t, p)]
            expected = {(t, p) for p in PEERS if model.link.get(p) == "up" for t in model.tell(p)}
            assert set(told) == expected and len(told) == len(expected)
        assert {p: set(topics) for p, topics in subject.interests().items()} == {
            p: model.topics(p) for p in model.link
        }
        assert len(subject) == len(model.link)


def test_turns_go_round() -> None:
    links = SharedLinks()
    for topic in (5, 3, 9):
        links.connect(topic, 1)
    assert [links.turns(1) for _ in range(4)] == [[5, 3, 9], [3, 9, 5], [9, 5, 3], [5, 3, 9]]
    links.disconnect(9, 1)
    assert sorted(links.turns(1)) == [3, 5]
    assert links.turns(2) == []


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(TOPICS), st.sampled_from("ab"))))
def test_plain_interests(script: list[tuple[bool, int, str]]) -> None:
    subject, model = SharedInterest[str](), set[tuple[int, str]]()
    for wanted, topic, key in script:
        before = {t for t, k in model if k == key}
        if wanted:
            model.add((topic, key))
            assert subject.add(topic, key) == (not before)
        else:
            model.discard((topic, key))
            assert subject.remove(topic, key) == (before == {topic})
    lonely = {key for topic, key in model if topic == 1 and not {(2, key), (3, key)} & model}
    assert set(subject.forget(1)) == lonely
