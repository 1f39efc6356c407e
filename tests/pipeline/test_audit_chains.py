"""Chains: what replicas logged is put together, and nobody is accused of what one of them lacks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.evidence_files import (
    MILLISECOND,
    SECOND,
    MadeStream,
    got_rows,
    write_replica,
    write_subscriber,
)
from bench.numpy_audit import audit_in_memory
from epicast.pipeline.audit import audit_logs
from epicast.pipeline.audit.claims import Claims
from epicast.pipeline.audit.links import KeyEnds, link_across
from tests.pipeline.conftest import MASTER
from tests.pipeline.test_audit_faults import EVENTS, FAULTS, RULES, Scene, check, invent, promise

SIZE = 12
pieces = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, SIZE - 1), st.lists(st.integers(0, 2), max_size=6)),
    max_size=10,
)
"""A log, where it begins to speak, and what it says: contents."""


@settings(max_examples=200, deadline=None)
@given(pieces, st.booleans())
def test_claims_are_votes(said: list[tuple[int, int, list[int]]], as_slices: bool) -> None:
    claims = Claims(SIZE)
    first_said: dict[int, dict[int, int]] = {at: {} for at in range(SIZE)}
    anything: dict[int, list[tuple[int, int]]] = {at: [] for at in range(SIZE)}
    for time, (log, begin, contents) in enumerate(said):
        contents = contents[: SIZE - begin]
        times = np.array([100 + (7 * time + i) % 5 for i in range(len(contents))], dtype=np.int64)
        numbers: Any = np.arange(begin, begin + len(contents))
        where = slice(begin, begin + len(contents)) if as_slices else numbers
        claims.take(log, where, np.array(contents, dtype=np.uint64), times)
        for at, content, when in zip(numbers.tolist(), contents, times.tolist(), strict=True):
            first_said[at].setdefault(log, content)
            anything[at].append((content, when))
    disputes = {at: dispute.who for dispute in claims.settle() for at in dispute.at.tolist()}
    for at in range(SIZE):
        assert claims.known[at] == bool(anything[at])
        if not anything[at]:
            continue
        assert claims.times[at] == min(when for _, when in anything[at])
        contents = [content for content, _ in anything[at]]
        assert (at in disputes) == (len(set(contents)) > 1)
        if at not in disputes:
            assert claims.contents[at] == contents[0]
            continue
        votes = Counter(first_said[at].values())
        stands = int(claims.contents[at])
        assert votes[stands] == max(votes.values())
        others = [log for log, content in sorted(first_said[at].items()) if content != stands]
        if others:
            assert disputes[at] == others[0]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(0, 29), st.integers(1, 30)), max_size=8),
    st.integers(1, 10),
)
def test_links_where_logs_overlap(
    keys: list[int], more: list[tuple[int, int]], stretch: int
) -> None:
    """One log has everything, others some of it, cut elsewhere and later."""
    cuts = [(low, low + stretch, 0) for low in range(0, len(keys), stretch)]
    cuts += [(low, low + size, 5) for low, size in more]
    ends = []
    for low, high, lag in cuts:
        part = keys[low:high]
        for key in set(part):
            at = [low + i + 1 for i, other in enumerate(part) if other == key]
            ends.append((key, at[0], at[-1], 100 * at[0] + lag))
    table = np.array(ends, dtype=np.int64).reshape(-1, 4)
    found = link_across(KeyEnds(table[:, 0].astype(np.uint64), *table[:, 1:].T))
    links = dict(zip(found.seqs.tolist(), found.nexts.tolist(), strict=True))
    for seq, key in enumerate(keys, 1):
        later = [s for s in range(seq + 1, len(keys) + 1) if keys[s - 1] == key]
        in_one_piece = later and any(low < seq and later[0] <= high for low, high, _ in cuts)
        if seq in links:
            assert [links[seq]] == later[:1]
        else:
            assert in_one_piece or not later
    for seq, after, time in zip(links, found.nexts.tolist(), found.times.tolist(), strict=True):
        if (seq - 1) // stretch != (after - 1) // stretch:
            assert time == 100 * after


class Chain(Scene):
    """The same, with a region of three replicas: the first was killed, started again and joined
    at the end; the second heard of everything a little later; the third has all."""

    def write_owner(self) -> list[Path]:
        root, stream = self.root, self.stream
        small = {"file_bytes": 1 << 12}
        return [
            write_replica(root, stream, 1, last=2000, close=False, **small),
            write_replica(root, stream, 1, first=3001, run="s", lag_ns=MILLISECOND, **small),
            write_replica(root, stream, 2, lag_ns=3 * MILLISECOND, **small),
            write_replica(root, stream, 3, **small),
        ]


def names(logs: list[Path]) -> set[str]:
    return {log.name for log in logs}


def test_an_honest_chain(tmp_path: Path) -> None:
    scene = Chain(tmp_path)
    scene.write()
    result = audit_in_memory(tmp_path, RULES)
    check(result, {})
    assert result.is_complete
    assert result.events == EVENTS
    assert [(Path(log.log).name, log.covered) for log in result.truncated] == [
        ("owner-us+1-r", True)
    ]
    alone = tmp_path / "alone"
    Scene(alone).write()
    expected = audit_in_memory(alone, RULES)
    assert result.totals == expected.totals


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_faults_are_found_as_ever(tmp_path: Path, fault: Callable[[Scene], dict[str, int]]) -> None:
    scene = Chain(tmp_path)
    expected = fault(scene)
    scene.write()
    check(audit_in_memory(tmp_path, RULES), expected)


def test_on_spark(tmp_path: Path, spark: Any) -> None:
    scene = Chain(tmp_path)
    expected = promise(scene) | invent(scene)
    scene.write()
    result = audit_logs(tmp_path, spark=spark, master=MASTER, rules=RULES)
    check(result, expected)
    again = audit_in_memory(tmp_path, RULES)
    again.seconds = result.seconds
    assert result == again


def test_replicas_that_contradict_each_other(tmp_path: Path) -> None:
    """Most decide, so that only who is alone with its opinion is blamed."""
    scene = Chain(tmp_path)
    scene.write()
    other = MadeStream(events=EVENTS, latest_per_key=True, keys=50)
    other.contents[[5, 17, 3000]] += np.uint64(1)
    write_replica(tmp_path, other, 0, run="x")
    result = audit_in_memory(tmp_path, RULES)
    assert result.violations == {"conflicting": 3}
    assert [(each.what, each.who, each.first) for each in result.findings] == [
        ("conflicting", "us/0", number) for number in (6, 18, 3001)
    ]


def test_a_replica_whose_clock_is_slow(tmp_path: Path) -> None:
    """It says it had stored what was not even sent."""
    scene = Chain(tmp_path)
    scene.write()
    write_replica(tmp_path, scene.stream, 4, last=300, lag_ns=-SECOND)
    assert audit_in_memory(tmp_path, RULES).violations == {"clock": 300 // scene.stream.batch}


def test_what_no_replica_logged_is_not_judged(tmp_path: Path) -> None:
    """Two were killed while the third was away, and lost the same part of their logs."""
    stream = MadeStream(events=EVENTS)
    write_replica(tmp_path, stream, 1, last=2000, close=False)
    write_replica(tmp_path, stream, 2, last=2500, close=False)
    write_replica(tmp_path, stream, 3, first=3001)
    write_subscriber(tmp_path, stream, got_rows(stream, bits=9))
    result = audit_in_memory(tmp_path, RULES)
    assert result.violations == {}
    # A range has up to seven events, and is not judged if it has one that is in no log.
    assert 500 <= result.totals.counts.unjudged < 500 + 14
    assert not any(log.covered for log in result.truncated)
    assert not result.holds


def test_nobody_was_left(tmp_path: Path) -> None:
    """A replica was stopped, and those that went on were killed: who knows what they did last."""
    stream = MadeStream(events=EVENTS)
    write_replica(tmp_path, stream, 1, last=4000)
    logs = [write_replica(tmp_path, stream, number, close=False) for number in (2, 3)]
    rows = got_rows(stream, bits=9)
    write_subscriber(tmp_path, stream, rows)
    result = audit_in_memory(tmp_path, RULES)
    assert names([Path(log.log) for log in result.truncated if not log.covered]) == names(logs)
    assert result.violations == {}
    assert not result.holds
    assert audit_in_memory(tmp_path, RULES, accept_truncated=True).holds


def test_what_came_after_the_last_log_was_closed(tmp_path: Path) -> None:
    """Whoever closed it does not know, and the log of somebody else is cut."""
    scene = Chain(tmp_path)
    expected = invent(scene)
    scene.live["time"][-2:] += 120 * SECOND
    scene.write()
    result = audit_in_memory(tmp_path, RULES)
    assert result.violations == {}
    assert result.totals.counts.unjudged == expected["forged"]
    assert not result.holds


def test_a_log_whose_head_is_gone(tmp_path: Path) -> None:
    """It may be of any region: all of them must have somebody who knows."""
    scene = Chain(tmp_path)
    logs = scene.write_owner()
    scene.write_users()
    [file] = logs[0].glob("000001.arrow")
    for other in logs[0].iterdir():
        if other != file:
            other.unlink()
    os.truncate(file, 20)
    assert audit_in_memory(tmp_path, RULES).holds
    for log in logs[1:]:
        for file in log.iterdir():
            os.truncate(file, 20)
    result = audit_in_memory(tmp_path, RULES)
    assert not result.holds
    assert result.violations == {}


def test_events_without_their_publishers(tmp_path: Path) -> None:
    """Copied events may not say who published them: then nobody is accused of losing them."""
    scene = Chain(tmp_path)
    expected = promise(scene)
    scene.write_users()
    unnamed = MadeStream(events=EVENTS, latest_per_key=True, keys=50, publisher=0)
    write_replica(tmp_path, unnamed, 1)
    result = audit_in_memory(tmp_path, RULES)
    assert result.violations == {}
    assert result.totals.counts.unjudged == EVENTS + expected["acked_but_lost"]
    write_replica(tmp_path, scene.stream, 2)
    check(audit_in_memory(tmp_path, RULES), expected)
