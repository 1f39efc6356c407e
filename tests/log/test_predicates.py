"""The predicate language: what parses, what does not and why, and how it is encoded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import Event, EventBatch
from epicast.log import PredicateError, describe, gc_payload, parse, split_gc_payload
from epicast.log.predicate import Predicate, ast, decode, encode, matches, plan
from epicast.log.records import framed_batches
from epicast.log.rows import Scanner
from tests.log import reference
from tests.log.streams import events, in_batches, predicates


@settings(max_examples=300, deadline=None)
@given(predicates)
def test_text_and_bytes_lead_back_to_the_predicate(predicate: Predicate) -> None:
    assert parse(describe(predicate)) == predicate
    assert decode(encode(predicate)) == predicate
    assert split_gc_payload(gc_payload(predicate, b"more")) == (predicate, b"more")


@settings(max_examples=200, deadline=None)
@given(predicates, events())
def test_columns_say_what_the_reference_says(predicate: Predicate, stream: list[Event]) -> None:
    blob = framed_batches(in_batches(stream, [9, 1, 30]))
    rows = Scanner().scan(blob, 0, len(blob))
    expected = [reference.matches(predicate, event) for event in stream]
    assert matches(predicate, rows).tolist() == expected


@settings(max_examples=200, deadline=None)
@given(predicates, events())
def test_plans_hold(predicate: Predicate, stream: list[Event]) -> None:
    known = plan(predicate)
    matched = [event for event in stream if reference.matches(predicate, event)]
    if known.keys is not None:
        assert all(event.key in known.keys for event in matched)
    if known.seq_below is not None:
        assert all(event.seq < known.seq_below for event in matched)
    if known.is_keys:
        assert matched == [event for event in stream if event.key in (known.keys or ())]
    if known.is_seq_below:
        assert matched == [event for event in stream if event.seq < (known.seq_below or 0)]
    if known.is_closed:
        for event in matched:
            older = [e for e in stream if e.key == event.key and e.seq < event.seq]
            assert all(reference.matches(predicate, other) for other in older)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('key == "a"', "key in ('a')"),
        ('key == "a" or key == "b"', 'key in ("b", "a", "b")'),
        ('key == x"00ff"', 'key == "\\x00\\xff"'),
        ("size > 5", "not size < 6"),
        ("size >= 5", "not (size < 5)"),
        ("not not seq < 5", "seq < 5"),
        ("seq < 1 and (size < 2 and seq < 3)", "seq < 3 and size < 2 and seq < 1"),
        ("seq < 1_000", "seq<1000"),
        ('published_before "1970-01-01T00:00:01Z"', "published_before 1000000000"),
        ('published_before "1970-01-01T01:00:00.5+01:00"', "published_before 500000000"),
        ('key == "ü\\n"', 'key == x"c3bc0a"'),
    ],
)
def test_spellings_of_the_same_predicate(one: str, other: str) -> None:
    assert parse(one) == parse(other)
    assert encode(parse(one)) == encode(parse(other))


def test_and_binds_closer_than_or() -> None:
    assert parse("seq < 1 or seq < 2 and size < 3") == parse("seq < 1 or (seq < 2 and size < 3)")
    assert parse("not seq < 1 and size < 3") == parse("(not seq < 1) and size < 3")


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "`key`, `seq`"),
        ("   ", 3, "`key`, `seq`"),
        ("key", 3, "`==` or `!=`"),
        ("key = 'a'", 4, "a condition, a value or a sign"),
        ("key == a", 7, "a quoted value"),
        ("key == 'a", 7, "a condition, a value or a sign"),
        ("key == 'a' 'b'", 11, "`and`, `or` or the end"),
        ("key in 'a'", 7, "`(`"),
        ("key in ('a' 'b')", 12, "`,` or `)`"),
        ("key in ()", 8, "a quoted value"),
        ("key prefix 5", 11, "a quoted value"),
        ("key == '\\q'", 8, "one of"),
        ('key == x"0"', 7, "hexadecimal"),
        ("seq > 5", 4, "`<`"),
        ("seq < 'a'", 6, "a sequence number"),
        ("seq < 99999999999999999999", 6, "up to"),
        ("size ~ 5", 5, "a condition, a value or a sign"),
        ("size == ", 8, "a number of bytes"),
        ("published_before 'yesterday'", 17, "a time like"),
        ("published_before '2026-01-01'", 17, "a time like"),
        ("seq < 5 and", 11, "`key`, `seq`"),
        ("(seq < 5", 8, "`)`"),
        ("seq < 5)", 7, "`and`, `or` or the end"),
        ("not", 3, "`key`, `seq`"),
        ("__import__('os')", 0, "`key`, `seq`"),
        ("(" * 30 + "seq < 1" + ")" * 30, 16, "levels"),
        (" and ".join(f"size < {n}" for n in range(300)), 0, "256 conditions"),
        ("key in (" + ",".join(f"'{n}'" for n in range(1100)) + ")", 0, "1024 keys"),
        ("x" * 70000, 65536, "65536 characters"),
    ],
)
def test_errors_name_the_place_and_what_was_expected(
    text: str, position: int, expected: str
) -> None:
    with pytest.raises(PredicateError) as caught:
        parse(text)
    assert caught.value.position == position
    assert expected in caught.value.expected
    assert f"position {position}" in str(caught.value)


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\x02\x03\x05",  # another version
        b"\x01",
        b"\x01\x63",  # no such condition
        b"\x01\x03",  # cut off
        b"\x01\x03\x85\x00",  # a number longer than it needs to be
        b"\x01\x03" + b"\xff" * 10,
        b"\x01\x03\x05\x00",  # something behind it
        b"\x01\x01\x00",  # no keys
        b"\x01\x01\x02\x01b\x01a",  # not sorted
        b"\x01\x01\x02\x01a\x01a",  # repeated
        b"\x01\x01\x01\x05ab",
        b"\x01\x10\x10\x03\x05",  # not not
        b"\x01\x11\x00",  # and of nothing
        b"\x01\x11\x01\x03\x05",  # and of one
        b"\x01\x11\x02\x05\x05\x03\x05",  # not sorted
        b"\x01" + b"\x10" * 40 + b"\x03\x05",
        b"\x01\x11\xff\x7f",
        b"\x01\x02\xff\xff\x7f",
    ],
)
def test_bytes_that_are_not_a_canonical_predicate_are_refused(encoded: bytes) -> None:
    with pytest.raises(PredicateError):
        decode(encoded)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_refused(encoded: bytes) -> None:
    try:
        predicate = decode(b"\x01" + encoded)
    except PredicateError:
        return
    assert encode(predicate) == b"\x01" + encoded


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.text(alphabet="keysqiznot ()<=>'\"x0123,", max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        predicate = parse(text)
    except PredicateError as error:
        assert 0 <= error.position <= len(text)
        return
    assert parse(describe(predicate)) == predicate


def test_the_encoding_stays_what_it_is() -> None:
    """These bytes are in logs."""
    text = 'key in ("a", "bc") or key prefix "t/" and seq < 300 and not size < 5'
    assert encode(parse(text)).hex() == (
        "01" "12" "02" "01" "02" "0161" "026263" "11" "03" "02" "02742f" "03" "ac02" "10" "0505"
    )  # fmt: skip
    assert encode(parse("published_before 1000")).hex() == "0104e807"


def test_a_predicate_too_large_to_encode_is_refused() -> None:
    with pytest.raises(PredicateError, match="65536 bytes"):
        gc_payload(ast.key_in(bytes([n]) * 1000 for n in range(100)))


def test_evaluation_of_many_keys() -> None:
    keys = [b"key-%d" % n for n in range(3000)]
    batch = EventBatch.build(7, 1, [b""] * 3000, keys=keys)
    blob = framed_batches([batch])
    rows = Scanner().scan(blob, 0, len(blob))
    wanted = ast.key_in(keys[::3])
    assert matches(wanted, rows).tolist() == [n % 3 == 0 for n in range(3000)]
