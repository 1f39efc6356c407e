"""Files people write, read strictly: TOML text in, validated structs out. Pure code.

A document is described by a `msgspec.Struct` whose fields may be quantities (`Duration`, `Size`…).
`load_document` turns text into that struct or raises one `ConfigError` that lists every problem
with file, line, key, what was found and what was expected. What is not in the struct is an error:
a misspelled key that is silently ignored costs more than one that is refused.

The one file of a deployment, `geoplex.toml`, is read by `load_geoplex`; see `geoplex.py`.
"""

from epicast.deployment.access import AccessControl, Action, Verdict
from epicast.deployment.addresses import Address, parse_address
from epicast.deployment.embedded import EMBEDDED_PORTS, embedded_geoplex, embedded_text
from epicast.deployment.geoplex import (
    Geoplex,
    Link,
    Region,
    Replica,
    Stream,
    Topic,
    load_geoplex,
    parse_geoplex,
)
from epicast.deployment.loading import load_document, load_section
from epicast.deployment.naming import (
    UnknownRegion,
    UnknownStream,
    UnknownTopic,
    node_id_of,
    stream_id,
    topic_id,
)
from epicast.deployment.problems import Problem, ProblemsFound
from epicast.deployment.sections import BudgetSection, NodeBudget
from epicast.deployment.simulate_section import SimulateSection, StreamWorkload
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
    "EMBEDDED_PORTS", "HOUR", "MICROSECOND", "MILLISECOND", "MINUTE", "SECOND", "AccessControl",
    "Action", "Address", "Bandwidth", "BudgetSection", "Duration", "Fraction", "FractionRate",
    "Frequency", "Geoplex", "Link", "NodeBudget", "Problem", "ProblemsFound", "Region",
    "Replica",
    "SimulateSection", "Size", "Stream", "StreamWorkload", "Topic", "UnknownRegion",
    "UnknownStream", "UnknownTopic", "Verdict", "embedded_geoplex", "embedded_text",
    "format_bandwidth", "format_duration", "format_size", "load_document", "load_geoplex",
    "load_section", "node_id_of",
    "parse_address", "parse_bandwidth", "parse_duration", "parse_fraction",
    "parse_fraction_rate", "parse_frequency", "parse_geoplex", "parse_size",
    "stream_id", "topic_id", "without_unit",
]  # fmt: skip
