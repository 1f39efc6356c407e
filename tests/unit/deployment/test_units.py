"""Quantities: exact, strict about units, and errors that say what to write instead."""

from fractions import Fraction as Exact

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import ConfigError
from epicast.deployment import (
    format_bandwidth,
    format_duration,
    format_size,
    parse_bandwidth,
    parse_duration,
    parse_fraction,
    parse_fraction_rate,
    parse_frequency,
    parse_size,
    without_unit,
)

WHOLE = st.integers(0, 2**63 - 1)
PARSERS = [
    parse_duration, parse_size, parse_bandwidth, parse_fraction, parse_frequency,
    parse_fraction_rate,
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("10ns", 10),
        ("3us", 3_000),
        ("3µs", 3_000),
        ("3μs", 3_000),
        ("150ms", 150_000_000),
        ("2s", 2_000_000_000),
        ("1.5 min", 90_000_000_000),
        ("1h", 3_600_000_000_000),
        ("0s", 0),
        ("0.3us", 300),  # 0.3 * 1000 is 299.99… in floats
        ("0.000000001s", 1),
        (" 7ms ", 7_000_000),
    ],
)
def test_duration(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds
    assert type(parse_duration(text)) is int


@pytest.mark.parametrize(
    ("text", "size"),
    [("10B", 10), ("10KB", 10_000), ("10kB", 10_000), ("64KiB", 65_536), ("1.5MiB", 1_572_864)],
)
def test_size(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "bytes_per_second"),
    [
        ("1Gbps", 125_000_000),
        ("10Mbps", 1_250_000),
        ("10 kbps", 1_250),
        ("12bps", 2),  # 1.5 bytes, rounded
        ("10MB/s", 10_000_000),
        ("1KiB/s", 1_024),
        ("0bps", 0),
    ],
)
def test_bandwidth(text: str, bytes_per_second: int) -> None:
    assert parse_bandwidth(text) == bytes_per_second


@pytest.mark.parametrize(
    ("value", "fraction"), [("5%", 0.05), (0.05, 0.05), (0, 0.0), (1, 1.0), ("100%", 1.0)]
)
def test_fraction(value: object, fraction: float) -> None:
    assert parse_fraction(value) == fraction
    assert type(parse_fraction(value)) is float


def test_rates_are_per_second() -> None:
    assert parse_fraction_rate("3%/min") == 0.03 / 60
    assert parse_fraction_rate("50%/s") == 0.5
    assert parse_frequency("40/s") == 40.0
    assert parse_frequency("3/min") == 0.05
    assert parse_frequency("2/ms") == 2000.0


@given(WHOLE)
def test_text_of_a_whole_quantity_reads_back(number: int) -> None:
    assert parse_duration(format_duration(number)) == number
    assert parse_size(format_size(number)) == number
    assert parse_bandwidth(format_bandwidth(number)) == number


def test_format_picks_the_largest_unit_without_a_fraction() -> None:
    assert format_duration(90_000_000_000) == "90s"
    assert format_duration(120_000_000_000) == "2min"
    assert format_duration(0) == "0ns"
    assert format_size(65_536) == "64KiB"
    assert format_bandwidth(125_000_000) == "1Gbps"


@given(st.decimals(0, 10**6, places=6), st.sampled_from(["ns", "us", "ms", "s", "min", "h"]))
def test_duration_is_exact_or_refused(number: object, unit: str) -> None:
    scales = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
    exact = Exact(str(number)) * scales[unit]
    if exact.denominator == 1:
        assert parse_duration(f"{number}{unit}") == exact
    else:
        with pytest.raises(ConfigError, match="not a whole multiple of 1ns"):
            parse_duration(f"{number}{unit}")


@given(
    st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.booleans(), st.lists(st.text()))
)
def test_nothing_but_a_config_error_comes_out(value: object) -> None:
    for parse in PARSERS:
        try:
            number = parse(value)
        except ConfigError as error:
            assert "expected a" in str(error) and "such as '" in str(error)
        else:
            assert 0 <= number < 2**63


@pytest.mark.parametrize(
    ("parse", "value", "parts"),
    [
        (parse_duration, 5, ["a duration such as '150ms'", "found 5", "without a unit", "ns, us"]),
        (parse_duration, "5", ["found '5'", "without a unit"]),
        (parse_duration, "10Mbps", ["'Mbps' is not one of ns, us, ms, s, min, h"]),
        (parse_duration, "5 MS", ["did you mean the unit 'ms'?"]),
        (parse_duration, "-5ms", ["negative"]),
        (parse_duration, "1e3ms", ["'e3ms' is not one of"]),
        (parse_duration, "٣s", ["write a number and a unit"]),
        (parse_duration, "9999999999h", ["too large"]),
        (parse_duration, True, ["found true"]),
        (parse_duration, ["5ms"], ["found an array"]),
        (parse_duration, "9" * 10_000 + "s", ["write a number and a unit", "…"]),
        (parse_size, "10 ms", ["a size such as '64KiB'", "'ms' is not one of B, KB"]),
        (parse_bandwidth, "10mbps", ["a bandwidth such as '10Mbps'", "the unit 'Mbps'?"]),
        (parse_bandwidth, "1bps", ["not a whole multiple of 1B/s"]),
        (parse_fraction, 5, ["a number from 0 to 1", "did you mean '5%'?"]),
        (parse_fraction, -0.1, ["a number from 0 to 1, found -0.1"]),
        (parse_fraction, float("nan"), ["found nan"]),
        (parse_fraction, "101%", ["the most is 100%"]),
        (parse_frequency, "40", ["without a unit (/s, /ms, /min, /h)"]),
        (parse_frequency, "3%/min", ["'%/min' is not one of"]),
        (parse_fraction_rate, "3/min", ["'/min' is not one of %/s"]),
    ],
)  # fmt: skip
def test_error_says_what_to_write(parse: object, value: object, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(value)  # type: ignore[operator]
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


def test_without_unit() -> None:
    names = ["interval_ns", "buffer_bytes", "uplink_bytes_per_second", "events_per_second", "view"]
    assert [*map(without_unit, names)] == ["interval", "buffer", "uplink", "events", "view"]
