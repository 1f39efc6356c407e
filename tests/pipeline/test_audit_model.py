"""Random logs, honest and not, judged like the model judges them event by event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from bench.evidence_files import BEGIN, MILLISECOND, SECOND, MadeStream, write_subscriber
from bench.numpy_audit import audit_in_memory
from epicast.core import EventBatch, EventKind
from epicast.core.batch_layout import Run
from epicast.evidence import (
    Facts,
    Kind,
    OwnerLog,
    PublisherLog,
    Role,
    content_hashes,
    event_hashes,
)
from epicast.evidence.schema import StreamFacts
from epicast.log import GcPolicy, gc_payload, parse
from epicast.pipeline.audit import Counts, Rules, audit_logs
from tests.pipeline.audit_model import Model, Row, Stored
from tests.pipeline.conftest import MASTER

STREAM = 2**63 + 12345
"""Larger than any number Spark has."""
RULES = Rules(block_bits=4, grace_ns=20 * MILLISECOND, clock_tolerance_ns=2 * MILLISECOND)
KEYS = [b"", b"a", b"ab", b"b", b"key number four"]
POLICIES = [
    GcPolicy(),
    GcPolicy(latest_per_key=True),
    GcPolicy(last_n=9),
    GcPolicy(latest_per_key=True, last_n=30),
]
PREDICATES = [
    "key == 'a'", "key == 'b'", "seq < 20", "seq < 45", "size < 4", "key prefix 'a' and seq < 40",
    "not key == 'b'", "key == 'a' or key == 'ab'",
]  # fmt: skip


class Replicas:
    """Logs of a chain. Every batch is logged at once by whoever is the tail, and later, in whatever
    pieces, by some of the others."""

    def __init__(self, world: World, facts: dict[str, Any], count: int) -> None:
        self._world = world
        self._logs = [
            OwnerLog(
                world.root, Facts(role=Role.OWNER, name=f"us/{number}", **facts),
                wall_clock_ns=lambda: world.now,
            )
            for number in range(count)
        ]  # fmt: skip
        self._waiting: list[list[EventBatch]] = [[] for _ in self._logs]

    def stored(self, batch: EventBatch) -> None:
        random = self._world.random
        tail = random.randrange(len(self._logs))
        for number, waiting in enumerate(self._waiting):
            if waiting and (number == tail or random.random() < 0.4):
                self._catch_up(number)
        self._logs[tail].stored(batch)
        for number, waiting in enumerate(self._waiting):
            if number != tail and random.random() < 0.7:
                waiting.append(batch)

    def _catch_up(self, number: int) -> None:
        random, waiting = self._world.random, self._waiting[number]
        for batch in waiting:
            low = random.randrange(batch.first, batch.last + 1)
            high = random.randrange(low, batch.last + 1)
            self._logs[number].stored(batch.slice(low, high))
        waiting.clear()

    def dropped(self, stream: int, epoch: int, last: int) -> None:
        self._logs[0].dropped(stream, epoch, last)

    def close(self, newest: EventBatch, may_be_killed: bool) -> None:
        """All but one may have been killed; that one has the newest, and knows that was all."""
        now, self._world.now = self._world.now, BEGIN + 3600 * SECOND
        self._logs[0].stored(newest)
        self._logs[0].close()
        for number, log in enumerate(self._logs[1:], 1):
            self._catch_up(number)
            log.flush()
            if not may_be_killed or self._world.random.random() < 0.5:
                log.close()
        self._world.now = now


class World:
    """A stream of two epochs with its owner's logs, and whoever is made up to have used it."""

    def __init__(self, root: Path, seed: int, replicas: int = 1) -> None:
        self.root = root
        self.random = Random(seed)
        self.policy = self.random.choice(POLICIES)
        self.model = Model(self.policy, RULES)
        self.now = BEGIN
        facts = StreamFacts("stream", "us", self.policy.latest_per_key, self.policy.last_n, None)
        self._facts: dict[str, Any] = {"region": "us", "streams": {STREAM: facts}, "run": "r"}
        self._own_numbers = {1: 1, 2**64 - 2: 1}
        self._acked: list[tuple[int, int, int, int]] = []
        self._newest: EventBatch
        log = Replicas(self, self._facts, replicas)
        end = self._store(log, 1, 1, self.random.randrange(20, 60))
        if self.random.random() < 0.6:
            first = self.random.choice([1, end + 1, self.random.randrange(2, end + 1)])
            kept = {s: e for s, e in self.model.epochs[1].items() if s < first}
            self.model.epochs[2] = kept
            self._store(log, 2, first, self.random.randrange(5, 40))
        if self.random.random() < 0.3:
            self.now += MILLISECOND
            last = self.random.randrange(1, 15)
            epoch = max(self.model.epochs)
            log.dropped(STREAM, epoch, last)
            self.model.dropped = [(epoch, last, self.now)]
        # Of an epoch that has ended, a log that was cut leaves it open what was in it.
        log.close(self._newest, may_be_killed=len(self.model.epochs) == 1)

    def _store(self, log: Replicas, epoch: int, first: int, count: int) -> int:
        stored = self.model.epochs.setdefault(epoch, {})
        end = first + count - 1
        while first <= end:
            self.now += self.random.randrange(3 * MILLISECOND)
            size = min(self.random.randrange(1, 9), end - first + 1)
            batch = self._batch(epoch, first, size)
            contents = content_hashes(batch)
            hashes = event_hashes(contents, batch.seqs.astype(np.uint64))
            for event, content, hashed in zip(
                batch.events(), contents.tolist(), hashes.tolist(), strict=True
            ):
                each = Stored(event, content, hashed, self.now)
                stored[event.seq] = each
                self.model.own[epoch].add(event.seq)
            log.stored(batch)
            self._newest = batch
            first += size
        return end

    def _batch(self, epoch: int, first: int, size: int) -> EventBatch:
        keys, payloads, kinds = [], [], []
        only_keys = self.random.random() < 0.3  # owners write down less of these
        for _ in range(size):
            keys.append(self.random.choice(KEYS[-1:] if only_keys else KEYS))
            is_gc = not only_keys and self.random.random() < 0.08
            kinds.append(EventKind.GC if is_gc else EventKind.DATA)
            payload = b"" if only_keys else self.random.randbytes(self.random.randrange(8))
            if is_gc:
                payload = gc_payload(parse(self.random.choice(PREDICATES)))
            payloads.append(payload)
        publisher = self.random.choice(list(self._own_numbers))
        own = self._own_numbers[publisher]
        self._own_numbers[publisher] += size
        batch = EventBatch.build(
            STREAM, first, payloads, keys=keys, kinds=kinds, epoch=epoch, time=self.now,
            runs=[Run(publisher, own, size)],
        )  # fmt: skip
        contents = content_hashes(batch).tolist()
        for index, (event, content) in enumerate(zip(batch.events(), contents, strict=True)):
            self.model.published[publisher, own + index] = Stored(event, content, 0, self.now)
        self._acked.append((publisher, own, size, self.now))
        return batch

    def publish(self) -> None:
        """Acknowledgements, some of them for what was never stored, or for something else."""
        facts = Facts(role=Role.PUBLISHER, name="app", **self._facts)
        log = PublisherLog(self.root, facts, wall_clock_ns=lambda: self.now)
        for publisher, first, count, time in self._acked:
            self.now = time
            count += self.random.choice([0, 0, 0, 1, 3])
            contents = [
                self.model.published[publisher, n].content
                for n in range(first, first + count)
                if (publisher, n) in self.model.published
            ]
            content = (sum(contents) + (self.random.random() < 0.1)) % 2**64
            log.acknowledged(STREAM, 1, publisher, first, count, 0, (time, content))
            self.model.judge_acked(publisher, first, first + count - 1, (content, time, time))
        log.close()

    def subscribe(self, name: str) -> None:
        rows = list(self._rows())
        self.model.judge(rows)
        made = MadeStream(id=STREAM)
        columns = {
            "kind": (np.uint8, [row.kind for row in rows]),
            "stream": (np.uint64, [STREAM] * len(rows)),
            "epoch": (np.uint64, [row.epoch for row in rows]),
            "first": (np.uint64, [row.first for row in rows]),
            "last": (np.uint64, [row.last for row in rows]),
            "subscription": (np.uint32, [row.subscription for row in rows]),
            "time": (np.int64, [row.time for row in rows]),
            "digest": (np.uint64, [row.digest for row in rows]),
        }
        got = {key: np.array(values, dtype=kind) for key, (kind, values) in columns.items()}
        rows_at_once = self.random.randrange(1, 20)
        made.latest_per_key, made.last_n = self.policy.latest_per_key, self.policy.last_n
        made.name = "stream"
        write_subscriber(self.root, made, got, name, rows_at_once, file_bytes=2000)

    def _rows(self) -> Iterator[Row]:
        """Several subscriptions in turn."""
        walks = [self._walk(number) for number in range(1, self.random.randrange(2, 5))]
        self.now = BEGIN + self.random.randrange(150 * MILLISECOND)
        while walks:
            walk = self.random.choice(walks)
            row = next(walk, None)
            if row is None:
                walks.remove(walk)
            else:
                yield row

    def _walk(self, number: int) -> Iterator[Row]:
        """Mostly in order, with all kinds of mistakes."""
        random = self.random
        faulty = random.random() < 0.7
        epoch, at = min(self.model.epochs), random.randrange(1, 10)
        yield Row(Kind.OPENED, number, epoch, at, 0, self.now)
        for _ in range(random.randrange(1, 25)):
            self.now += random.randrange(8 * MILLISECOND)
            mistake = random.random() if faulty else 1.0
            if mistake < 0.08:
                at = max(1, at + random.randrange(-6, 7))
            elif mistake < 0.12:
                epoch = random.choice([*self.model.epochs, 9])
            elif mistake < 0.16:
                self.now -= 4 * MILLISECOND
            elif random.random() < 0.04:
                epoch = random.choice([epoch, max(self.model.epochs)])
                at += random.randrange(4)
                yield Row(Kind.RESET, number, epoch, at, 0, self.now)
            row = self._range(number, epoch, at, faulty)
            if row is None:
                break
            yield row
            at = row.last + 1
        if random.random() < 0.6:
            self.now += random.randrange(60 * MILLISECOND)
            last = at - 1 + (random.randrange(3) if faulty else 0)
            yield Row(Kind.CLOSED, number, epoch, 0, last, self.now)

    def _range(self, number: int, epoch: int, first: int, faulty: bool) -> Row | None:
        random = self.random
        stored = self.model.stored_in(epoch)
        last = first + random.randrange(7)
        last = min(last, (((first - 1) >> RULES.block_bits) + 1) << RULES.block_bits)
        if not faulty:
            last = min(last, max(stored, default=0))
            if last < first:
                return None
        if random.random() < 0.3:
            return Row(Kind.TOMBSTONES, number, epoch, first, last, self.now)
        hashes = [stored[seq].hashed for seq in range(first, last + 1) if seq in stored]
        digest = (sum(hashes) + (faulty and random.random() < 0.05)) % 2**64
        return Row(Kind.EVENTS, number, epoch, first, last, self.now, digest)


def make(root: Path, seed: int, replicas: int = 1) -> Model:
    world = World(root, seed, replicas)
    world.publish()
    for name in ("one", "two")[: world.random.randrange(1, 3)]:
        world.subscribe(name)
    return world.model


def compare(counts: Counts, oldest: int, model: Model) -> None:
    assert counts == model.counts
    assert oldest == model.oldest


@pytest.mark.parametrize("part", range(4))
def test_like_the_model(tmp_path: Path, part: int) -> None:
    seen = Counts()
    for seed in range(60 * part, 60 * part + 60):
        root = tmp_path / str(seed)
        model = make(root, seed)
        result = audit_in_memory(root, RULES)
        try:
            compare(result.totals.counts, result.totals.staleness.max_ns, model)
            assert not result.truncated
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        seen.add(model.counts)
    # What never happens is not tested.
    happened = {name for name in seen.__struct_fields__ if getattr(seen, name)}
    assert happened == set(seen.__struct_fields__) - {"unjudged", "conflicting"}


def test_chains_like_the_model(tmp_path: Path) -> None:
    """The model knows one owner; together, replicas know as much."""
    killed = 0
    for seed in range(1000, 1060):
        root = tmp_path / str(seed)
        model = make(root, seed, replicas=3)
        result = audit_in_memory(root, RULES)
        try:
            compare(result.totals.counts, result.totals.staleness.max_ns, model)
            assert all(log.covered for log in result.truncated)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        killed += len(result.truncated)
    assert killed > 10


def test_like_the_model_on_spark(tmp_path: Path, spark: Any) -> None:
    model = make(tmp_path, 1)
    result = audit_logs(tmp_path, spark=spark, master=MASTER, rules=RULES)
    compare(result.totals.counts, result.totals.staleness.max_ns, model)
