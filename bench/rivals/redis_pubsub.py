"""Redis publish/subscribe: pipelines of PUBLISH, and `listen`, parsed by hiredis; blocking."""

import time

from bench.rivals.events import CHANNEL, events
from bench.rivals.processes import hear, play, tell
from bench.rivals.redis_server import PIPELINE, connect, missing, serve

__all__ = ["missing", "serve"]


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
            pipeline.publish(CHANNEL, payload)
        pipeline.execute()
    tell(started)


def subscribe(port: int, count: int) -> None:
    subscription = connect(port).pubsub()
    subscription.subscribe(CHANNEL)
    messages = subscription.listen()
    assert next(messages)["type"] == "subscribe"
    tell("ready")
    for _, message in zip(range(count), messages, strict=False):
        message["data"]
    tell(time.monotonic_ns())


if __name__ == "__main__":
    play({"publish": publish, "subscribe": subscribe})
