"""Small systems with anything that may happen to balls and clocks, drawn from a seed.

Every node runs beside the dumb model, gets the same balls at the same times, and must send and
deliver the same. At the end the properties of section 5.2.2 are checked from what was delivered.
With early readers, applications that apply early events and roll back follow each round. Now and
then a publication is refused, with others behind it in the same step.
"""

from __future__ import annotations

import struct
from heapq import heappop, heappush
from itertools import combinations
from random import Random
from typing import Protocol as Interface

from epicast.core import Effects, EventBatch, Peer, Publication, Recovered
from epicast.core.effects import Notice, Refuse
from epicast.protocols.epto import EarlyReader, EarlyStep, Epto, EptoConfig, Missing
from epicast.protocols.epto.messages import Ball
from epicast.protocols.membership import FullMembership
from tests.protocols.epto.early_model import Application, Places
from tests.protocols.epto.model import Entry, Model

PERIOD = 1_000_000
MAX_AHEAD = 50 * PERIOD
LARGEST = 100
"""Bytes of an event."""
IDS = (3, 2**63 + 9, 8, 2**64 - 2, 11)


class Sender(Interface):
    fx: Effects


class Node:
    def __init__(self, identity: int, ids: list[int], config: EptoConfig, rng: Random) -> None:
        sampler = FullMembership(identity, ids, Random(rng.getrandbits(32)))
        self.protocol = Epto(Peer(identity), config, Random(rng.getrandbits(32)), sampler)
        self.model = Model(
            identity, config.ttl, config.clock == "logical", MAX_AHEAD, config.extra_rounds,
            config.system_size <= 16, 0 if config.adaptive_period else 1,
        )  # fmt: skip
        self.fx = Effects()
        self.fx.wall_offset = 10**9 + rng.choice((0, 0, 1, 5, 30)) * rng.randrange(PERIOD)
        self.period = int(PERIOD * rng.uniform(0.5, 2))
        self.next_number = 1
        self.order: list[tuple[int, int, bytes]] = []
        self.holes: set[tuple[int, int]] = set()
        self.places: Places | None = None
        self.readers: dict[int, tuple[EarlyReader, Application]] = {}
        self.left: list[Application] = []
        self.refused = 0

    def collect(self) -> None:
        """Take up what was delivered and reported missing."""
        for batch in self.fx.deliveries:
            self.order += events_of(batch)
        for operation in self.fx.operations:
            if isinstance(operation, Notice) and isinstance(operation.value, EarlyStep):
                self._apply(operation.value)
            if isinstance(operation, Notice) and isinstance(operation.value, Missing):
                gap = operation.value
                new = {(gap.source, number) for number in range(gap.first, gap.last + 1)}
                assert not new & self.holes, f"reported twice: {gap}"
                self.holes |= new
        self.fx.clear()

    def _apply(self, step: EarlyStep) -> None:
        _, application = self.readers[step.reader]
        application.revise(step.revised)
        if step.batch is not None:
            place = application.since + len(application.applied) + 1
            assert step.batch.first == place, "numbered by the place in the order"
            application.apply(events_of(step.batch))
        application.confirm(step.confirmed)

    def change_readers(self, rng: Random) -> None:
        """Before a round: some come, some go, some begin anew."""
        early = self.protocol.early
        if self.places is None:
            self.places = Places(self.model)
            self.protocol.pending()
        if len(self.readers) < 3 and rng.random() < 0.5:
            reader = early.add(rng.choice((0.052, 0.31, 0.61, 0.83)))
            application = Application(reader.probability, self.places, len(self.order))
            self.readers[reader.number] = (reader, application)
        for reader, application in list(self.readers.values()):
            fate = rng.random()
            if fate < 0.03:
                early.remove(reader)
                del self.readers[reader.number]
                self.left.append(application)
            elif fate < 0.06:
                reader.restart()
                application.restart()

    def check_readers(self, wall: int, new: list[Entry]) -> None:
        assert self.places is not None
        self.places.round(wall, new)
        for _, application in self.readers.values():
            application.check(wall, new, self.order)
        stable = [each.stable for each in self.protocol.pending()]
        wanted = [self.places.likely(entry) for entry in self.places.ages]
        assert len(stable) == len(wanted)
        assert all(abs(one - other) < 1e-6 for one, other in zip(stable, wanted, strict=True))


def events_of(batch: EventBatch) -> list[tuple[int, int, bytes]]:
    payloads = iter(batch.payloads())
    return [
        (run.publisher, number, next(payloads))
        for run in batch.runs
        for number in range(run.first, run.first + run.count)
    ]


def entries(ball: Ball) -> dict[Entry, int]:
    n = ball.entries
    columns = [struct.unpack_from(f"<{n}q", ball.columns, 8 * n * at) for at in range(4)]
    ttls = ball.columns[32 * n : 33 * n]
    return {
        (time, source % 2**64, first, extent >> 32): ttl
        for time, source, first, extent, ttl in zip(*columns, ttls, strict=True)
    }


def balls(node: Sender) -> list[tuple[list[int], Ball]]:
    """What the node sends, probes left out, and to whom."""
    return [
        (targets, message) for targets, message, _ in node.fx.sends if isinstance(message, Ball)
    ]


def payload(source: int, number: int) -> bytes:
    return b"%d/%d" % (source, number) * (number % 3)


def run_orders(seed: int, *, early: bool = False) -> dict[int, Node]:
    """Raises AssertionError if anything is not as it should be."""
    rng, readers_rng = Random(seed), Random(-seed)
    ids = list(IDS[: rng.randint(2, 4)])
    config = EptoConfig(
        clock=rng.choice(("global", "logical")),
        system_size=rng.choice((len(ids), 100)),
        ttl=rng.randint(1, 3),
        extra_rounds=rng.randint(0, 1),
        adaptive_period=rng.random() < 0.5,  # latencies are never measured: hops age nothing
        idle_fanout=0,
        round_period_ns=PERIOD,
        max_clock_ahead_ns=MAX_AHEAD,
        max_datagram_bytes=rng.choice((100, 1 << 20)),
        max_datagrams=64,
        max_event_bytes=LARGEST,
    )
    nodes = {identity: Node(identity, ids, config, rng) for identity in ids}
    loss, slowest = rng.choice((0.0, 0.0, 0.2, 0.6)), rng.choice((0.3, 1.0, 4.0, 10.0))
    twice = rng.choice((0.0, 0.0, 0.3))
    publish_until = rng.randint(3, 10) * PERIOD
    agenda: list[tuple[int, int, int, object]] = []
    sequence = 0

    def at(time: int, identity: int, what: object) -> None:
        nonlocal sequence
        sequence += 1
        heappush(agenda, (time, sequence, identity, what))

    for identity, node in nodes.items():
        node.protocol.on_start(0, (), Recovered(), node.fx)
        at(rng.randrange(PERIOD), identity, "round")
        for _ in range(rng.randint(0, 4) * (1 + 3 * early)):
            at(rng.randrange(publish_until), identity, "publish")
    end = publish_until + 40 * PERIOD
    while agenda and agenda[0][0] < end:
        now, _, identity, what = heappop(agenda)
        node = nodes[identity]
        wall = now + node.fx.wall_offset
        if what == "publish":
            _publish(node, identity, now, rng.randint(1, 4))
            if rng.random() < 0.2:
                _publish_too_much(node, identity, now)
        elif what == "round":
            if early:
                node.change_readers(readers_rng)
            ball, new = node.model.round(wall)
            node.protocol.on_deadline(now, "round", node.fx)
            _compare(node, ball, new)
            for targets, message in balls(node):
                for target in targets:
                    while rng.random() >= loss:
                        delay = int(rng.random() * slowest * PERIOD)
                        at(now + delay, target, (identity, message))
                        if rng.random() >= twice:
                            break
            node.collect()
            if early:
                node.check_readers(wall, new)
            at(now + int(node.period * rng.uniform(0.8, 1.2)), identity, "round")
        else:
            assert isinstance(what, tuple)
            sender, message = what
            node.model.receive(wall, entries(message), message.wall)
            node.protocol.on_messages(now, sender, (message,), node.fx)
            node.collect()
    _judge(nodes)
    return nodes


def _publish(node: Node, identity: int, now: int, rows: int) -> None:
    first = node.next_number
    node.next_number += rows
    payloads = [payload(identity, first + row) for row in range(rows)]
    batch = EventBatch.build(identity, first, payloads)
    node.model.publish(now + node.fx.wall_offset, first, rows)
    node.protocol.on_publish(now, (Publication(identity, first, batch),), node.fx)
    assert not node.fx.operations, node.fx.operations


def _publish_too_much(node: Node, identity: int, now: int) -> None:
    """One event is too large: it takes no number, nor does what was numbered behind it."""
    publications = []
    for first, size in enumerate((LARGEST + 1, 1), node.next_number):
        batch = EventBatch.build(identity, first, [b"+" * size])
        publications.append(Publication(identity, first, batch))
    node.protocol.on_publish(now, publications, node.fx)
    refused = [each.publication for each in node.fx.operations if isinstance(each, Refuse)]
    assert refused == publications
    node.refused += len(refused)
    node.fx.clear()


def _compare(node: Node, ball: dict[Entry, int], new: list[Entry]) -> None:
    sent: dict[Entry, int] = {}
    for _, message in balls(node):
        sent |= entries(message)
    assert sent == ball
    delivered = [
        (run.publisher, run.first, run.count) for batch in node.fx.deliveries for run in batch.runs
    ]
    assert delivered == [entry[1:] for entry in new]
    node.protocol.check_invariants()


def _judge(nodes: dict[int, Node]) -> None:
    for identity, node in nodes.items():
        ids = [(source, number) for source, number, _ in node.order]
        assert len(set(ids)) == len(ids), "integrity: delivered twice"
        for source, number, data in node.order:
            assert number < nodes[source].next_number, "integrity: never published"
            assert data == payload(source, number)
        own = [number for source, number in ids if source == identity]
        assert own == list(range(1, node.next_number)), "validity: its own events"
        assert not node.holes & set(ids), "reported missing and delivered"
        assert node.model.holes() <= node.holes, "a hole that was not reported"
    for one, other in combinations(nodes.values(), 2):
        theirs = {event[:2] for event in other.order}
        mine = {event[:2] for event in one.order}
        common = [event[:2] for event in one.order if event[:2] in theirs]
        assert common == [event[:2] for event in other.order if event[:2] in mine], "total order"
