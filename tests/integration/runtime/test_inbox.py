"""The order of a step's input, against a list of everything in the order it came."""

from hypothesis import given
from hypothesis import strategies as st

from epicast.runtime.inbox import Inbox

PEERS = st.integers(1, 3)
stimuli = st.lists(
    st.one_of(
        st.tuples(st.just("message"), PEERS),
        st.tuples(st.just("up"), PEERS),
        st.tuples(st.just("down"), PEERS),
        st.tuples(st.just("withdraw"), PEERS),
    ),
    max_size=30,
)


def drain(inbox: Inbox) -> list[tuple[str, int, int]]:
    """What a step would hand to the protocol: (kind, peer, message number)."""
    told: list[tuple[str, int, int]] = []
    while inbox.rounds:
        current = inbox.rounds.popleft()
        while current.downs:
            told.append(("down", inbox.take_report(current.downs), 0))
        while current.ups:
            told.append(("up", inbox.take_report(current.ups), 0))
        for peer, messages in current.messages.items():
            told += [("message", peer, number) for number in messages]  # type: ignore[misc]
    return told


def expected_of(peer: int, given_stimuli: list[tuple[str, int]]) -> list[tuple[str, int, int]]:
    """One peer's share: all messages in order, and the last report that was not withdrawn."""
    told: list[tuple[str, int, int]] = []
    for number, (kind, who) in enumerate(given_stimuli):
        if who != peer:
            continue
        pending = next((entry for entry in told if entry[0] != "message"), None)
        if kind == "message":
            told.append(("message", peer, number))
        elif kind == "up" and pending is None:
            told.append(("up", peer, 0))
        elif kind in ("down", "withdraw"):
            if pending is not None:
                told.remove(pending)
            if kind == "down":
                told.append(("down", peer, 0))
    return told


@given(stimuli)
def test_order_per_peer_is_the_order_of_arrival(given_stimuli: list[tuple[str, int]]) -> None:
    inbox = Inbox()
    for number, (kind, peer) in enumerate(given_stimuli):
        if kind == "message":
            inbox.add_messages(peer, [number])  # type: ignore[list-item]
        elif kind == "up":
            inbox.add_up(peer)
        elif kind == "down":
            inbox.add_down(peer)
        else:
            inbox.withdraw(peer)
    told = drain(inbox)
    for peer in (1, 2, 3):
        mine = [entry for entry in told if entry[1] == peer]
        expected = expected_of(peer, given_stimuli)
        reports = [entry for entry in mine if entry[0] != "message"]
        assert reports == [entry for entry in expected if entry[0] != "message"]
        assert [e for e in mine if e[0] == "message"] == [e for e in expected if e[0] == "message"]
        if reports == [("down", peer, 0)]:
            # What came before the down is handled before it, what came after it after.
            assert mine.index(reports[0]) == expected.index(reports[0])
        assert not inbox.has_report(peer)


def test_one_round_has_a_fixed_order() -> None:
    inbox = Inbox()
    inbox.add_messages(3, ["m3"])  # type: ignore[list-item]
    inbox.add_up(2)
    inbox.add_messages(1, ["m1"])  # type: ignore[list-item]
    inbox.add_down(4)
    inbox.add_messages(3, ["n3"])  # type: ignore[list-item]
    assert len(inbox.rounds) == 1
    assert [(kind, peer) for kind, peer, _ in drain(inbox)] == [
        ("down", 4), ("up", 2), ("message", 3), ("message", 3), ("message", 1),
    ]  # fmt: skip
