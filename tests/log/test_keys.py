"""The table of keys, and chains of events of a key, against dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from epicast.core import EventBatch
from epicast.log.chains import KeyChains
from epicast.log.keys import KeyTable
from epicast.log.records import framed_batches
from epicast.log.rows import Rows, Scanner
from tests.log.streams import KEYS

some_keys = st.lists(st.sampled_from(KEYS) | st.binary(max_size=20), max_size=60)


@settings(max_examples=100, deadline=None)
@given(st.lists(some_keys, max_size=8))
def test_exchange_returns_what_was_there(columns: list[list[bytes]]) -> None:
    table = KeyTable()
    model: dict[bytes, int] = {}
    value = 0
    for column in columns:
        values = np.arange(value + 1, value + len(column) + 1, dtype=np.uint64)
        expected = []
        for key in column:
            value += 1
            expected.append(model.get(key, 0))
            if key:
                model[key] = value
        assert table.exchange(Rows.of_keys(column), values).tolist() == expected
    assert len(table) == len(model)
    asked = [*model, b"nobody", b""]
    assert table.get(asked).tolist() == [model.get(key, 0) for key in asked]


def test_growing_to_many_keys_of_all_lengths() -> None:
    table = KeyTable()
    keys = [b"%d" % number * (1 + number % 7) for number in range(30_000)]
    for low in range(0, len(keys), 997):
        part = keys[low : low + 997]
        values = np.arange(low + 1, low + len(part) + 1, dtype=np.uint64)
        assert not table.exchange(Rows.of_keys(part), values).any()
    assert table.get(keys).tolist() == list(range(1, len(keys) + 1))
    assert table.columns[0].ctypes.data % 64 == 0, "a slot in two cache lines costs a third more"


def test_keys_that_differ_only_in_their_middle() -> None:
    """What is in the slot is the same for all of them."""
    table = KeyTable()
    keys = [b"12345678" + b"%04d" % number * 3 + b"87654321" for number in range(500)]
    values = np.arange(1, 501, dtype=np.uint64)
    assert not table.exchange(Rows.of_keys(keys), values).any()
    assert table.get(keys).tolist() == values.tolist()
    assert table.exchange(Rows.of_keys(keys[::-1]), values).tolist() == values[::-1].tolist()
    assert table.get([b"1234567887654321", keys[0][:-1]]).tolist() == [0, 0]


def test_what_is_not_wanted_any_more_is_dropped_instead_of_growing() -> None:
    wanted = 0

    def recent(values: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return values > np.uint64(wanted)

    table = KeyTable(recent)
    for number in range(200):
        keys = [b"key %d" % (1000 * number + index) for index in range(1000)]
        values = np.arange(1000 * number + 1, 1000 * (number + 1) + 1, dtype=np.uint64)
        table.exchange(Rows.of_keys(keys), values)
        wanted = max(0, 1000 * (number - 3))
        assert table.get(keys).tolist() == values.tolist()
    assert table.memory_bytes < 2_000_000, "200,000 keys were seen, 4,000 are wanted"


def rows_of(scanner: Scanner, first: int, keys: list[bytes]) -> Rows:
    payloads = [b"p" * (first % 5) for _ in keys]
    blob = framed_batches([EventBatch.build(7, first, payloads, keys=keys, time=first)])
    return scanner.scan(blob, 0, len(blob))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_chains_find_all_events_of_a_key(data: st.DataObject) -> None:
    dead: set[int] = set()
    model: dict[bytes, list[int]] = {}

    def is_live(seqs: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return np.array([seq not in dead for seq in seqs.tolist()], dtype=np.bool_)

    chains = KeyChains(is_live)
    scanner = Scanner()
    end = 0
    for _ in range(data.draw(st.integers(1, 12))):
        keys = data.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=30))
        keys *= data.draw(st.sampled_from([1, 1, 60]))  # enough to make room for
        chains.add(rows_of(scanner, end + 1, keys))
        for seq, key in enumerate(keys, start=end + 1):
            if key:
                model.setdefault(key, []).append(seq)
        end += len(keys)
        dead.update(range(1, data.draw(st.integers(1, end))))
        asked = tuple(data.draw(st.sets(st.sampled_from([*KEYS[1:], b"nobody"]), max_size=3)))
        bound, cut = data.draw(st.integers(0, end + 1)), data.draw(st.booleans())
        found = chains.below(asked, bound, cut=cut)
        got = {(found.key(row), found.seqs.item(row)) for row in range(found.count)}
        expected = {(key, s) for key in asked for s in model.get(key, []) if s < bound}
        assert {pair for pair in got if pair[1] not in dead} == {
            pair for pair in expected if pair[1] not in dead
        }
        assert got <= expected
        if cut:
            for key in asked:
                model[key] = [seq for seq in model.get(key, []) if seq >= bound]
