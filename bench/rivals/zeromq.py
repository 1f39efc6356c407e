"""ZeroMQ PUB/SUB, no broker: blocking sockets, one send and one receive per event.

No high-water marks, so nothing is dropped. Many events in one message would be faster, but then
the application would have to make and take apart the batches.
"""

import select
import sys
import time

from bench.rivals.events import events, no_package
from bench.rivals.processes import Team, hear, play, tell

_HELLO, _START = b"hello", b"start"
"""A subscription takes a moment to reach the publisher: it says hello until everybody hears it."""


def missing() -> str | None:
    return no_package("zmq", "pyzmq")


def serve(team: Team) -> None:
    """The publisher is the server."""


def publish(_: None, count: int) -> None:
    import zmq

    publisher = zmq.Context().socket(zmq.PUB)
    publisher.setsockopt(zmq.SNDHWM, 0)
    tell(publisher.bind_to_random_port("tcp://127.0.0.1"))
    payloads = events(count)
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        publisher.send(_HELLO)
    hear()
    publisher.send(_START)
    send = publisher.send
    started = time.monotonic_ns()
    for payload in payloads:
        send(payload)
    tell(started)
    hear()  # what is queued goes out as long as the process lives


def subscribe(port: int, count: int) -> None:
    import zmq

    subscriber = zmq.Context().socket(zmq.SUB)
    subscriber.setsockopt(zmq.RCVHWM, 0)
    subscriber.setsockopt(zmq.SUBSCRIBE, b"")
    subscriber.connect(f"tcp://127.0.0.1:{port}")
    assert subscriber.recv() == _HELLO
    tell("ready")
    while subscriber.recv() != _START:
        pass
    receive = subscriber.recv
    for _ in range(count):
        receive()
    tell(time.monotonic_ns())


if __name__ == "__main__":
    play({"publish": publish, "subscribe": subscribe})
