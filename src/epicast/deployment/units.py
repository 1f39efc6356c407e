"""The quantities of configuration and scenario files, as field types and as functions.

| type | written | in memory |
|---|---|---|
| `Duration` | "150ms", "1.5 min" | `int`, nanoseconds |
| `Size` | "10KB" (1000), "64KiB" (1024) | `int`, bytes |
| `Bandwidth` | "1Gbps" (bits), "10MB/s" (bytes) | `int`, bytes per second, rounded |
| `Fraction` | "5%" or 0.05 | `float` from 0 to 1 |
| `Frequency` | "40/s", "3/min" | `float`, per second |
| `FractionRate` | "3%/min" | `float`, share of the whole per second |

To Python, and to msgspec on the wire, a `Duration` is a plain `int`; only `load_document` looks at
the annotation and insists on a unit. Bounds are added with `msgspec.Meta`, in the unit of memory:
`Annotated[Duration, Meta(ge=MILLISECOND)]`.
"""

from __future__ import annotations

from fractions import Fraction as Exact
from typing import Annotated

from msgspec import Meta

from epicast.deployment.quantity import RealQuantity, WholeQuantity

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

_DECIMAL = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {f"{prefix}i": 2 ** (10 * power) for power, prefix in enumerate("KMGT", 1)}
_BYTES = {"B": 1} | {f"{prefix}B": size for prefix, size in (_DECIMAL | _BINARY).items()}
_BITS_PER_SECOND = {"bps": Exact(1, 8)} | {f"{k}bps": Exact(n, 8) for k, n in _DECIMAL.items()}
_BYTES_PER_SECOND = {f"{unit}/s": Exact(size) for unit, size in _BYTES.items()}
_PER = {"/s": Exact(1), "/ms": Exact(1000), "/min": Exact(1, 60), "/h": Exact(1, 3600)}

DURATION = WholeQuantity(
    "duration",
    "150ms",
    {"ns": 1, "us": MICROSECOND, "ms": MILLISECOND, "s": SECOND, "min": MINUTE, "h": HOUR},
    aliases={"µs": "us", "μs": "us"},
)
SIZE = WholeQuantity("size", "64KiB", _BYTES, aliases={"kB": "KB"})
BANDWIDTH = WholeQuantity(
    "bandwidth",
    "10Mbps",
    _BITS_PER_SECOND | _BYTES_PER_SECOND,
    aliases={"kbps": "Kbps", "kB/s": "KB/s"},
    rounded=True,
)
FRACTION = RealQuantity("fraction", "5%", {"%": Exact(1, 100)}, limit=1)
FREQUENCY = RealQuantity("frequency", "40/s", _PER)
FRACTION_RATE = RealQuantity(
    "fraction per time", "3%/min", {f"%{unit}": scale / 100 for unit, scale in _PER.items()}
)

Duration = Annotated[int, Meta(extra={"quantity": DURATION})]
Size = Annotated[int, Meta(extra={"quantity": SIZE})]
Bandwidth = Annotated[int, Meta(extra={"quantity": BANDWIDTH})]
Fraction = Annotated[float, Meta(extra={"quantity": FRACTION})]
Frequency = Annotated[float, Meta(extra={"quantity": FREQUENCY})]
FractionRate = Annotated[float, Meta(extra={"quantity": FRACTION_RATE})]

parse_duration = DURATION.parse
parse_size = SIZE.parse
parse_bandwidth = BANDWIDTH.parse
parse_fraction = FRACTION.parse
parse_frequency = FREQUENCY.parse
parse_fraction_rate = FRACTION_RATE.parse

format_duration = DURATION.format
format_size = SIZE.format
format_bandwidth = BANDWIDTH.format

_SUFFIXES = ("_ns", "_bytes_per_second", "_bytes", "_per_second")


def without_unit(name: str) -> str:
    """For `rename=` of a struct: the field `interval_ns` is the key `interval` in a file.

    In code a name ends in its unit because the number has lost it; in a file the value has its own.
    """
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name
