"""Who is in the chain: what one replica makes of what it hears."""

from __future__ import annotations

from typing import Any

import pytest

from epicast.core import COORDINATION_ID, ConfigError, Effects, Peer, Recovered
from epicast.protocols.coordination import Put, PutAnswer, View, ViewEntry, Watch
from epicast.protocols.sprinkler import ProxyConfig
from epicast.protocols.sprinkler.alarms import AlarmKind
from epicast.protocols.sprinkler.chain.configuration import (
    ChainConfig,
    ChainPlan,
    Member,
    decode_config,
    encode_config,
)
from epicast.protocols.sprinkler.chain.keeper import Keeper
from epicast.protocols.sprinkler.chain.lineage import Lineage
from epicast.protocols.sprinkler.chain.messages import Beat, Place
from epicast.protocols.sprinkler.chain.resuming import Told

A, B, C = 1, 2, 3
KEY = "chains/r"
MS = 1_000_000
CONFIG = ProxyConfig()
INCARNATION = 10
STREAM = 4


def place(end: int, *, doubtful: bool = False, lineage: Lineage = ((1, 1),)) -> Place:
    return Place(STREAM, 7, end, lineage, doubtful)


class Rig:
    """One keeper, and all it says."""

    def __init__(self, me: int, *, saved: bool = True, durable: bool = True) -> None:
        plan = ChainPlan(KEY, (Peer(A), Peer(B), Peer(C)), durable)
        self.me = me
        self.keeper = Keeper(Peer(me), CONFIG, plan)
        self.now = 0
        self.fx = Effects()
        recovered = Recovered(INCARNATION, saved={"chain": b""} if saved else {})
        self.keeper.start(0, recovered, self.fx)
        for peer in (A, B, C):
            if peer != me:
                self.keeper.peer_up(peer)

    def said(self, kind: type) -> list[Any]:
        found = [m for to, m, _ in self.fx.sends if to == COORDINATION_ID and isinstance(m, kind)]
        self.fx.clear()
        return found

    def view(self, config: ChainConfig | None, revision: int = 0) -> bool:
        entries = ()
        if config is not None:
            entries = (ViewEntry(KEY, encode_config(config), revision),)
        return self.keeper.on_view(self.now, View(KEY, revision, entries), self.fx)

    def tell(self, replica: int, place: Place) -> None:
        """Say what a member that was started again has."""
        told = Told(INCARNATION, self.keeper.chain.epoch, {place.stream: place})
        self.keeper.candidates.tell(replica, told)

    def pass_time(self, ms: int, *heard: int, incarnation: int = INCARNATION) -> None:
        """With a beat of each of `heard` every 100 ms."""
        if not self.keeper.candidates.has_told(self.me, INCARNATION, self.keeper.chain.epoch):
            self.tell(self.me, place(100))
        self.keeper._synced = frozenset({STREAM})
        for _ in range(0, ms, 100):
            self.now += 100 * MS
            for peer in heard:
                beat = Beat(incarnation, self.keeper.chain.epoch)
                self.keeper.heard(self.now, peer, beat, self.fx)
            self.keeper.tick(self.now, self.fx)

    def proposed(self) -> list[list[int]]:
        """The chains it has proposed since the last time."""
        return [
            [member.id for member in decode_config(KEY, put.value).members]
            for put in self.said(Put)
        ]


def chain(epoch: int, *members: int, incarnation: int = INCARNATION) -> ChainConfig:
    return ChainConfig(epoch, tuple(Member(member, incarnation) for member in members))


def test_only_the_first_begins() -> None:
    for me, wanted in ((A, [[A]]), (B, [])):
        rig = Rig(me)
        rig.pass_time(5000)
        assert rig.proposed() == [], "whether there is a chain is not known yet"
        rig.view(None)
        rig.pass_time(100)
        assert rig.proposed() == wanted


def test_a_silent_neighbour_is_removed_by_its_neighbours_only() -> None:
    for me, wanted in ((B, [[A, B]]), (A, [])):
        rig = Rig(me)
        rig.view(chain(3, A, B, C), 7)
        rig.pass_time(300, A, B, C)
        assert rig.proposed() == []
        rig.pass_time(800, A, B)
        assert rig.proposed()[:1] == wanted


def test_a_broken_connection_is_noticed_sooner_and_one_that_stands_again_is_not() -> None:
    rig = Rig(A)
    rig.view(chain(3, A, B, C), 7)
    rig.pass_time(500, B, C)
    rig.keeper.peer_down(rig.now, B)
    rig.pass_time(200, C)
    assert rig.proposed() == [[A, C]]
    again = Rig(A)
    again.view(chain(3, A, B, C), 7)
    again.pass_time(500, B, C)
    again.keeper.peer_down(again.now, B)
    again.keeper.peer_up(B)
    again.pass_time(400, B, C)
    assert again.proposed() == []


def test_a_neighbour_that_was_started_again_or_cannot_store_is_removed() -> None:
    rig = Rig(A)
    rig.view(chain(3, A, B), 7)
    rig.pass_time(100, B, incarnation=INCARNATION + 1)
    assert rig.proposed() == [[A]]
    ailing = Rig(A)
    ailing.view(chain(3, A, B), 7)
    ailing.keeper.heard(0, B, Beat(INCARNATION, 3, ailing=True), ailing.fx)
    ailing.pass_time(100)
    assert ailing.proposed() == [[A]]
    both = Rig(A)
    both.view(chain(3, A, B), 7)
    both.keeper.ailing = True
    both.keeper.heard(0, B, Beat(INCARNATION, 3, ailing=True), both.fx)
    both.pass_time(100)
    assert both.proposed() == [], "then nobody could store"


def test_a_proposal_is_made_again_in_the_same_words_until_it_is_answered() -> None:
    rig = Rig(A)
    rig.view(chain(3, A, B), 7)
    rig.keeper.peer_down(rig.now, B)
    rig.pass_time(2000)
    puts = rig.said(Put)
    assert len(puts) > 1 and len(set(map(repr, puts))) == 1 and puts[0].revision == 7
    assert rig.keeper.on_put(rig.now, PutAnswer(puts[0].request, KEY, 8), rig.fx)
    assert rig.keeper.chain == ChainConfig(4, (Member(A, INCARNATION),)) and rig.keeper.place == 0


def test_who_was_too_late_proposes_nothing_before_it_knows_why() -> None:
    rig = Rig(A)
    rig.view(chain(3, A, B), 7)
    rig.keeper.peer_down(rig.now, B)
    rig.pass_time(300)
    [put] = rig.said(Put)
    assert not rig.keeper.on_put(rig.now, PutAnswer(put.request, KEY, 0), rig.fx)
    assert rig.said(Watch)
    assert not rig.view(chain(3, A, B), 7), "that is what it knew"
    rig.pass_time(1000)
    assert rig.proposed() == []
    assert rig.view(chain(4, B), 8) and rig.keeper.place is None


def test_what_is_older_is_not_believed() -> None:
    rig = Rig(A)
    assert rig.view(chain(5, A, B), 9)
    assert not rig.view(chain(4, B, A), 8)
    assert rig.keeper.chain.epoch == 5


def test_a_member_that_was_started_again_waits_its_turn() -> None:
    """Somebody who was a member all the time would remove it."""
    for me, first_ms in ((A, 3000), (B, 6000)):
        rig = Rig(me)
        rig.view(chain(3, A, B, incarnation=INCARNATION - 1), 7)
        rig.pass_time(first_ms - 100)
        assert rig.proposed() == []
        rig.pass_time(100)
        assert rig.proposed() == [[me]]


def test_who_was_started_again_does_not_go_on_alone_while_a_member_is_heard_of() -> None:
    """That one has everything, and will remove it when it reaches the coordination service."""
    rig = Rig(A)
    rig.view(chain(3, A, B, C, incarnation=INCARNATION - 1), 7)
    rig.pass_time(20_000, B, incarnation=INCARNATION - 1)
    rig.pass_time(2900)
    assert rig.proposed() == []
    rig.pass_time(100)
    assert rig.proposed() == [[A]]


def test_others_that_were_started_again_too_are_no_members() -> None:
    rig = Rig(A)
    rig.view(chain(3, A, B, C, incarnation=INCARNATION - 1), 7)
    rig.pass_time(3000, B, C)
    assert rig.proposed() == [[A]], "although they have not told what they have"


@pytest.mark.parametrize("me", [A, B, C])
@pytest.mark.parametrize(
    ("a", "b", "c", "goes_on"),
    [
        (place(100), place(100), place(100), A),
        (place(90), place(100), place(100), B),
        (place(90, doubtful=True), place(100), place(100), B),
        (place(100, doubtful=True), place(100, doubtful=True), place(100), A),
        (place(100, doubtful=True), place(100, doubtful=True), place(90), A),
        (place(80, doubtful=True), place(70, doubtful=True), place(90), C),
        (place(50, doubtful=True), place(40, doubtful=True), place(60, doubtful=True), C),
        # A has noted that it numbers from 101 on, and then lost what came before.
        (place(50, doubtful=True, lineage=((1, 1), (9, 101))), place(90), place(80), B),
        (place(100), place(105, lineage=((1, 1), (9, 96))), place(110), B),
    ],
)
def test_who_has_most_goes_on_at_once_when_all_members_were_started_again(
    me: int, a: Place, b: Place, c: Place, goes_on: int
) -> None:
    rig = Rig(me)
    rig.view(chain(3, A, B, C, incarnation=INCARNATION - 1), 7)
    for replica, its in ((A, a), (B, b), (C, c)):
        rig.tell(replica, its)
    rig.pass_time(200, *{A, B, C} - {me})
    assert rig.proposed()[:1] == ([[me]] if me == goes_on else [])
    rig.pass_time(20_000, *{A, B, C} - {me})
    assert me == goes_on or rig.proposed() == [], "somebody is heard of who has more"


def test_who_may_lack_something_waits_longer_for_those_that_have_not_come_back() -> None:
    for doubtful, ms in ((False, 3000), (True, 33_000)):
        rig = Rig(A)
        rig.view(chain(3, A, B, C, incarnation=INCARNATION - 1), 7)
        rig.tell(A, place(100, doubtful=doubtful))
        rig.pass_time(ms - 100)
        assert rig.proposed() == []
        rig.pass_time(100)
        assert rig.proposed() == [[A]]


def test_who_was_the_last_goes_on_at_once_but_not_without_its_disk() -> None:
    for saved, durable, wanted in ((True, True, [[A]]), (False, True, []), (False, False, [[A]])):
        rig = Rig(A, saved=saved, durable=durable)
        rig.view(chain(3, A, incarnation=INCARNATION - 1), 7)
        rig.pass_time(20_000)
        assert rig.proposed()[:1] == wanted


def test_a_newcomer_proposes_nothing() -> None:
    rig = Rig(C)
    rig.view(chain(3, A, B), 7)
    rig.pass_time(20_000, A, B)
    assert rig.proposed() == [] and rig.keeper.place is None


def test_alarms() -> None:
    rig = Rig(C)
    rig.view(chain(3, A, B), 7)
    rig.pass_time(6000, A)
    kinds = {(alarm.kind, alarm.peer) for alarm in rig.keeper.alarms(rig.now)}
    assert kinds == {
        (AlarmKind.REPLICA, B), (AlarmKind.OUTSIDE, 0), (AlarmKind.COORDINATION, 0),
    }  # fmt: skip
    rig.view(chain(3, A, B), 7)
    assert AlarmKind.COORDINATION not in {alarm.kind for alarm in rig.keeper.alarms(rig.now)}


def test_what_is_no_chain_is_refused_with_its_name() -> None:
    with pytest.raises(ConfigError, match=KEY):
        decode_config(KEY, b"[]")
    rig = Rig(A)
    assert not rig.keeper.on_view(0, View(KEY, 5, (ViewEntry(KEY, b"{", 5),)), rig.fx)
    rig.pass_time(5000)
    assert rig.proposed() == [], "who knows what it means to whom"
