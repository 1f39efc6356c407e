"""Files people write, read strictly: TOML text in, validated structs out. Pure code.

A document is described by a `msgspec.Struct` whose fields may be quantities (`Duration`, `Size`…).
`load_document` turns text into that struct or raises one `ConfigError` that lists every problem
with file, line, key, what was found and what was expected. What is not in the struct is an error:
a misspelled key that is silently ignored costs more than one that is refused.
"""

from epicast.deployment.loading import load_document
from epicast.deployment.units import (
    HOUR,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    SECOND,
    Bandwidth,
    Duration,
    Fraction,
    FractionRate,
    Frequency,
    Size,
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

__all__ = [
    "HOUR", "MICROSECOND", "MILLISECOND", "MINUTE", "SECOND", "Bandwidth", "Duration", "Fraction",
    "FractionRate", "Frequency", "Size", "format_bandwidth", "format_duration", "format_size",
    "load_document", "parse_bandwidth", "parse_duration", "parse_fraction", "parse_fraction_rate",
    "parse_frequency", "parse_size", "without_unit",
]  # fmt: skip
