"""The events all rivals publish, and small things they share."""

import socket
from importlib.util import find_spec
from itertools import cycle, islice

EVENT_BYTES = 10
CHANNEL = "epicast"


def events(count: int) -> list[bytes]:
    """Made before the clock runs; a thousand different ones in turn."""
    return list(islice(cycle([b"%010d" % number for number in range(1000)]), count))


def no_package(module: str, package: str) -> str | None:
    if find_spec(module):
        return None
    return f"the package {package} is not installed: pip install 'epicast[bench]'"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
