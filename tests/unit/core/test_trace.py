"""Trace rows: what the digest notices, what is kept, and the Arrow form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import Trace, TraceKind
from epicast.core import trace as trace_module
from epicast.core.trace import COLUMNS

u64 = st.integers(0, 2**64 - 1)
rows = st.tuples(
    st.integers(0, 2**63 - 1), u64, st.sampled_from(TraceKind), u64, u64, u64, u64, u64,
    st.sampled_from(["", "Rumor", "queue full", "żółw"]),
)  # fmt: skip


@pytest.fixture(params=[1 << 15, 3], ids=["default blocks", "blocks of 3"])
def block_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "_BLOCK_ROWS", request.param)


def traced(script: list[tuple[int, ...]], **options: int) -> Trace:
    trace = Trace(**options)
    for row in script:
        trace.add(*row)
    return trace


BASE = [
    (1, 10, TraceKind.SEND, 11, 5, 1, 3, 100, "Rumor"),
    (2, 11, TraceKind.RECEIVE, 10, 5, 1, 3, 100, "Rumor"),
    (2, 11, TraceKind.DELIVER, 0, 5, 1, 3, 90, ""),
    (3, 12, TraceKind.DROP, 0, 0, 0, 0, 0, "queue full"),
]


@pytest.mark.usefixtures("block_rows")
class TestDigest:
    def test_same_rows_same_digest(self) -> None:
        assert traced(BASE).digest() == traced(BASE).digest()
        assert traced(BASE).digest() == traced(BASE, keep=False).digest()

    @pytest.mark.parametrize("column", range(9))
    @pytest.mark.parametrize("row", range(4))
    def test_every_value_counts(self, row: int, column: int) -> None:
        changed = [list(each) for each in BASE]
        value = changed[row][column]
        changed[row][column] = "other" if isinstance(value, str) else value + 1
        assert traced(changed).digest() != traced(BASE).digest()

    def test_the_order_counts(self) -> None:
        assert traced(BASE[::-1]).digest() != traced(BASE).digest()

    def test_a_missing_row_counts(self) -> None:
        assert traced(BASE[:-1]).digest() != traced(BASE).digest()

    def test_the_text_of_a_detail_counts_not_only_its_place(self) -> None:
        renamed = [(*row[:-1], row[-1].replace("Rumor", "Ball")) for row in BASE]
        assert traced(renamed).digest() != traced(BASE).digest()

    @pytest.mark.parametrize("asked_after", range(4))
    def test_asking_in_between_changes_nothing(self, asked_after: int) -> None:
        trace = Trace()
        for index, row in enumerate(BASE):
            trace.add(*row)
            if index == asked_after:
                trace.digest()
                trace.columns()
        assert trace.digest() == traced(BASE).digest()


def test_the_digest_does_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = set()
    for size in (1, 2, 3, 1000):
        monkeypatch.setattr(trace_module, "_BLOCK_ROWS", size)
        digests.add(traced(BASE).digest())
    assert len(digests) == 1


@given(st.lists(rows, max_size=20))
def test_columns_and_arrow_say_what_was_added(script: list[tuple[int, ...]]) -> None:
    trace = traced(script)
    columns = trace.columns()
    for index, name in enumerate(COLUMNS[:-1]):
        assert columns[name].tolist() == [row[index] for row in script]
    assert [trace.details[code] for code in columns["detail"]] == [row[-1] for row in script]
    table = trace.to_arrow()
    assert tuple(table.column_names) == COLUMNS
    for index, name in enumerate(COLUMNS):
        expected = [row[index] for row in script]
        if name == "kind":
            expected = [kind.name.lower() for kind in expected]
        assert table[name].to_pylist() == expected


def test_arrow_types_are_the_schema_files_have() -> None:
    types = {field.name: str(field.type) for field in traced(BASE).to_arrow().schema}
    spelled = "dictionary<values=string, indices=int32, ordered=0>"
    numbers = dict.fromkeys(("node", "peer", "stream", "first", "last", "bytes"), "uint64")
    assert types == {"time": "int64", "kind": spelled, "detail": spelled, **numbers}


def test_numbers_of_kinds_never_change() -> None:
    assert [kind.name for kind in TraceKind][:18] == [
        "PUBLISH", "SEND", "RECEIVE", "DELIVER", "DROP", "PEER_UP", "PEER_DOWN", "VIEW_ADD",
        "VIEW_REMOVE", "START", "STOP", "CRASH", "APPEND", "ACKNOWLEDGE", "REFUSE", "FAULT",
        "CONNECT", "DISCONNECT",
    ]  # fmt: skip
    assert [int(kind) for kind in TraceKind] == list(range(len(TraceKind)))


@pytest.mark.usefixtures("block_rows")
@pytest.mark.parametrize("limit", [0, 1, 3, 4, 7, 100])
def test_only_the_oldest_rows_are_kept(limit: int) -> None:
    """Even where blocks of different sizes come after the limit was reached."""
    script = [(time, 1, TraceKind.SEND) for time in range(20)]
    trace = Trace(max_rows=limit)
    for index, row in enumerate(script):
        trace.add(*row)
        if index % 4 == 2:
            trace.digest()
    assert trace.columns()["time"].tolist() == list(range(min(limit, 20)))
    assert trace.truncated == (limit < 20)
    assert trace.rows_seen == 20
    assert trace.digest() == traced(script).digest()


def test_digesting_only_keeps_nothing() -> None:
    trace = traced(BASE, keep=False)
    assert trace.rows_seen == 4
    assert trace.columns()["time"].dtype == np.uint64
    assert len(trace.columns()["time"]) == 0
    assert trace.to_arrow().num_rows == 0
    assert not trace.truncated
