"""The geoplex of someone who has not written a file yet: three regions on this machine.

It is made as text, so that it can be shown, saved and changed like any other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from epicast.core.errors import ConfigError
from epicast.deployment.addresses import Address
from epicast.deployment.geoplex import Geoplex, parse_geoplex

EMBEDDED_REGIONS = ("us", "eu", "ap")
EMBEDDED_PORTS = (7400, 7401, 7402)

_STREAMS = """\
[streams.invalidations]
description = "Cache entries that are out of date; only the latest per key matters."
owner = "us"
latest_per_key = true

[streams.prices]
description = "The current price of everything; fast rather than safe."
owner = "eu"
ack = "memory"
latest_per_key = true

[streams.audit]
description = "What has been done by whom; nothing is ever collected."
owner = "ap"

[[links]]
from = "us"
to = "eu"
latency = "40ms"

[[links]]
from = "us"
to = "ap"
latency = "75ms"

[[links]]
from = "eu"
to = "ap"
latency = "110ms"
"""


def embedded_geoplex(
    ports: Sequence[int] = EMBEDDED_PORTS, data: str | None = None, host: str = "127.0.0.1"
) -> Geoplex:
    """Regions us, eu and ap on these ports; a folder each inside `data`, or all in memory."""
    return parse_geoplex(embedded_text(ports, data, host), "the embedded geoplex")


def embedded_text(
    ports: Sequence[int] = EMBEDDED_PORTS, data: str | None = None, host: str = "127.0.0.1"
) -> str:
    if len(ports) != len(EMBEDDED_REGIONS):
        raise ConfigError(f"expected a port for each of {', '.join(EMBEDDED_REGIONS)}: {ports}")
    parts = ['name = "embedded"\n']
    for name, port in zip(EMBEDDED_REGIONS, ports, strict=True):
        folder = "" if data is None else f"data = {_quoted(f'{data}/{name}')}\n"
        parts.append(f'[regions.{name}]\nproxy = "{Address(host, port)}"\n{folder}')
    return "\n".join([*parts, _STREAMS])


def _quoted(text: str) -> str:
    """TOML's basic strings are JSON's, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
