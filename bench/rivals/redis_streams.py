"""Redis Streams: pipelines of XADD, and blocking XREAD of many entries at once, by hiredis."""

import time

from bench.rivals.events import CHANNEL, events
from bench.rivals.processes import hear, play, tell
from bench.rivals.redis_server import PIPELINE, connect, missing, serve

__all__ = ["missing", "serve"]

_READ = 1_000
"""Entries asked for at once."""
_BLOCK_MS = 60_000


def publish(port: int, count: int) -> None:
    client = connect(port)
    client.ping()
    tell(port)
    payloads = events(count)
    hear()
    started = time.monotonic_ns()
    for at in range(0, count, PIPELINE):
        pipeline = client.pipeline(transaction=False)
        for payload in payloads[at : at + PIPELINE]:
            pipeline.xadd(CHANNEL, {b"e": payload})
        pipeline.execute()
    tell(started)


def subscribe(port: int, count: int) -> None:
    client = connect(port)
    client.ping()
    tell("ready")
    last: str | bytes = "0"
    received = 0
    while received < count:
        [(_, entries)] = client.xread({CHANNEL: last}, count=_READ, block=_BLOCK_MS)
        for _, fields in entries:
            fields[b"e"]
        last = entries[-1][0]
        received += len(entries)
    tell(time.monotonic_ns())


if __name__ == "__main__":
    play({"publish": publish, "subscribe": subscribe})
