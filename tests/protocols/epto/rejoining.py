"""Small systems whose nodes leave, come back under the same id, or join late, drawn from a seed.

The model of `orders` cannot join, so this is judged by what is published and when it is stamped: no
event is delivered twice in one life of a node, the order is the same everywhere, and what is
reported missing was published, and stamped after the order of that life began.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import combinations
from random import Random
from typing import Any

from epicast.core import Effects, EventBatch, Peer, Publication, Recovered
from epicast.core.effects import Notice
from epicast.protocols.epto import Epto, EptoConfig, Missing, OwnEvents
from epicast.protocols.membership import FullMembership
from tests.protocols.epto.orders import IDS, MAX_AHEAD, PERIOD, balls, entries, events_of


class Life:
    """From joining to leaving."""

    def __init__(self, member: Member, ids: list[int], config: EptoConfig, rng: Random) -> None:
        self.who = member.identity
        sampler = FullMembership(self.who, ids, Random(rng.getrandbits(32)))
        self.protocol = Epto(Peer(self.who), config, Random(rng.getrandbits(32)), sampler)
        self.protocol.own = member.own
        self.fx = Effects()
        self.fx.wall_offset = member.wall_offset
        self.order: list[tuple[int, int]] = []
        self.holes: list[tuple[int, int]] = []

    def collect(self) -> None:
        for batch in self.fx.deliveries:
            self.order += [(source, number) for source, number, _ in events_of(batch)]
        for operation in self.fx.operations:
            if isinstance(operation, Notice) and isinstance(operation.value, Missing):
                gap = operation.value
                self.holes += [(gap.source, number) for number in range(gap.first, gap.last + 1)]
        self.fx.clear()

    @property
    def start(self) -> int:
        """The timestamp after which it is owed everything."""
        return self.protocol._sources.start


class Member:
    def __init__(self, identity: int, rng: Random) -> None:
        self.identity = identity
        self.own = OwnEvents()
        self.next_number = 1
        self.wall_offset = 10**9 + rng.randrange(PERIOD)
        self.life: Life | None = None
        self.lives: list[Life] = []


class Rejoining:
    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.ids = list(IDS[: rng.randint(3, 5)])
        self.config = EptoConfig(
            clock=rng.choice(("global", "logical")), system_size=len(self.ids),
            ttl=rng.randint(2, 3), round_period_ns=PERIOD, max_clock_ahead_ns=MAX_AHEAD,
            idle_fanout=rng.randint(1, 3),
        )  # fmt: skip
        self.loss = rng.choice((0.0, 0.0, 0.1))
        self.members = {identity: Member(identity, rng) for identity in self.ids}
        self.stamps: dict[tuple[int, int], int] = {}
        self._agenda: list[tuple[int, int, int, Any]] = []
        self._sequence = 0

    def run(self) -> None:
        rng, late = self.rng, self.ids[-1]
        for identity in self.ids:
            self._at(rng.randrange(30, 60) * PERIOD if identity == late else 0, identity, "join")
            for _ in range(rng.randint(0, 12)):
                self._at(rng.randrange(120 * PERIOD), identity, "publish")
        for identity in rng.sample(self.ids[:-1], rng.randint(1, 2)):
            leaves = rng.randrange(5, 50)
            self._at(leaves * PERIOD, identity, "leave")
            self._at((leaves + rng.randint(1, 60)) * PERIOD, identity, "join")
        while self._agenda and self._agenda[0][0] < 180 * PERIOD:
            now, _, identity, what = heappop(self._agenda)
            self._step(now, self.members[identity], what)
        for member in self.members.values():
            assert member.own.published == member.next_number - 1, "every number was published"

    def _at(self, time: int, identity: int, what: Any) -> None:
        self._sequence += 1
        heappush(self._agenda, (time, self._sequence, identity, what))

    def _step(self, now: int, member: Member, what: Any) -> None:
        if what == "join":
            member.life = Life(member, self.ids, self.config, self.rng)
            member.lives.append(member.life)
            there = [each for each in self.members.values() if each.life and each is not member]
            contacts = [Peer(each.identity) for each in there] if now else []
            member.life.protocol.on_start(now, contacts, Recovered(), member.life.fx)
            self._at(now + self.rng.randrange(PERIOD), member.identity, ("round", member.life))
            return
        life = member.life
        if life is None:
            return
        if what == "leave":
            life.protocol.on_stop(now, life.fx)
            member.life = None
        elif what == "publish":
            first, member.next_number = member.next_number, member.next_number + 2
            batch = EventBatch.build(member.identity, first, [b"", b""])
            publication = Publication(member.identity, first, batch)
            life.protocol.on_publish(now, (publication,), life.fx)
        elif what[0] == "round":
            if what[1] is not life:
                return
            life.protocol.on_deadline(now, "round", life.fx)
            life.protocol.check_invariants()
            pause = int(PERIOD * self.rng.uniform(0.8, 1.2))
            self._at(now + pause, member.identity, what)
        else:
            sender, message = what
            life.protocol.on_messages(now, sender, (message,), life.fx)
        self._send(now, life)
        life.collect()

    def _send(self, now: int, life: Life) -> None:
        for targets, message in balls(life):
            for time, source, first, rows in entries(message):
                for number in range(first, first + rows):
                    assert self.stamps.setdefault((source, number), time) == time
            for target in targets:
                if self.rng.random() >= self.loss:
                    delay = int(self.rng.random() * PERIOD)
                    self._at(now + delay, target, (life.who, message))

    def judge(self) -> None:
        lives = [life for member in self.members.values() for life in member.lives]
        for life in lives:
            assert len(set(life.order)) == len(life.order), "delivered twice"
            assert len(set(life.holes)) == len(life.holes), "reported twice"
            assert not set(life.holes) & set(life.order), "reported missing and delivered"
            for gap in life.holes:
                assert gap in self.stamps, f"{gap} was never published"
                assert self.stamps[gap] > life.start, f"{gap} is from before the time of {life.who}"
        for one, other in combinations(lives, 2):
            theirs, mine = set(other.order), set(one.order)
            common = [event for event in one.order if event in theirs]
            assert common == [event for event in other.order if event in mine], "total order"


def run_rejoining(seed: int) -> Rejoining:
    """Raises AssertionError if anything is not as it should be."""
    case = Rejoining(seed)
    case.run()
    case.judge()
    return case
