"""A Redis server without persistence, and what both ways of using it share."""

import shutil
import time
from typing import Any

from bench.rivals.events import free_port, no_package
from bench.rivals.processes import PartFailed, Team

PIPELINE = 1_000
"""Commands sent at once."""
_START_SECONDS = 10.0
_ATTEMPTS = 5


def missing() -> str | None:
    if shutil.which("redis-server") is None:
        return "there is no redis-server: apt-get install redis-server"
    return no_package("redis", "redis") or no_package("hiredis", "hiredis")


def serve(team: Team) -> int:
    """A port can be taken between finding it and using it: then another one is tried."""
    for _ in range(_ATTEMPTS):
        port = free_port()
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "no", "--dir", str(team.folder)]
        # Redis cuts off a subscriber that is 32 MB behind; everything must be received.
        command += ["--client-output-buffer-limit", "pubsub 0 0 0"]
        server = team.run("redis-server", command)
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and server.process.poll() is None:
            if _answers(port):
                return port
            time.sleep(0.02)
    raise PartFailed("redis-server does not start")


def connect(port: int) -> Any:
    import redis

    return redis.Redis(host="127.0.0.1", port=port, protocol=2)  # 3 makes no clear difference


def _answers(port: int) -> bool:
    import redis

    try:
        with connect(port) as client:
            return bool(client.ping())
    except redis.ConnectionError:
        return False
