"""Where two histories part, against a model that has the histories themselves."""

from hypothesis import given
from hypothesis import strategies as st

from epicast.protocols.sprinkler.chain.lineage import VOID, Lineage, begun, common_end


class Numbered:
    """A history whose events say who numbered them, and when."""

    def __init__(self) -> None:
        self.events: list[tuple[int, int]] = []
        self.lineage: Lineage = ()

    def copy_of(self, other: "Numbered", end: int) -> None:
        self.events = other.events[:end]
        self.lineage = other.lineage

    def number(self, epoch: int, count: int) -> None:
        self.lineage = begun(self.lineage, epoch, len(self.events) + 1)
        self.events += [(epoch, at) for at in range(count)]


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 4), st.integers(0, 3)),
    max_size=12,
)


@given(STEPS)
def test_what_is_called_common_is_common(steps: list[tuple[int, int, int, int]]) -> None:
    """Replicas in turn take over with part of what another has, and number more."""
    replicas = [Numbered() for _ in range(3)]
    for epoch, (source, head, count, missing) in enumerate(steps, 1):
        taken = max(0, len(replicas[source].events) - missing)
        replicas[head].copy_of(replicas[source], taken)
        replicas[head].number(epoch, count)
    for one in replicas:
        for other in replicas:
            end = common_end(one.lineage, len(one.events), other.lineage, len(other.events))
            assert one.events[:end] == other.events[:end]


def test_a_prefix_is_recognised_as_one() -> None:
    whole = Numbered()
    for epoch in (1, 2, 5):
        whole.number(epoch, 10)
    part = Numbered()
    part.copy_of(whole, 25)
    assert common_end(whole.lineage, 30, part.lineage, 25) == 25
    assert common_end(part.lineage, 25, whole.lineage, 30) == 25


def test_histories_from_before_there_was_a_chain_are_one() -> None:
    assert common_end((), 7, (), 5) == 5
    assert common_end(((3, 8),), 9, (), 7) == 7
    assert common_end(((3, 8),), 9, (), 8) == 7, "8 was numbered by somebody else"


def test_what_is_being_forgotten_has_nothing_in_common() -> None:
    assert common_end(((1, 1),), 9, VOID, 9) == 0


def test_a_lineage_is_bounded_and_names_only_what_was_numbered() -> None:
    lineage: Lineage = ()
    for epoch in range(1, 200):
        lineage = begun(lineage, epoch, epoch * 10)
    assert len(lineage) == 64 and lineage[-1] == (199, 1990)
    assert begun(((1, 1), (2, 50)), 3, 50) == ((1, 1), (3, 50)), "epoch 2 has numbered nothing"
