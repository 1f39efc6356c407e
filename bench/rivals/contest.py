"""One publisher, three subscribers, small events: what other systems make of it in Python.

    throughput("zeromq", 1_000_000)          # events/s that reached the slowest subscriber
    latency("nats", rate=1000, seconds=5)    # ns from publishing to the subscriber's code
    missing("nats")                          # why it cannot run here, or None

Every publisher, subscriber and server is a process of its own on loopback, in the fastest sensible
style its Python client offers; each module says which. All are started and connected before the
clock runs, from the first publication to the last receipt by the slowest subscriber. Everybody must
receive everything. A rival that is not installed raises `NotInstalled`, with its name.
"""

from importlib import import_module
from types import ModuleType

from bench.rivals.processes import Part, Team

RIVALS = {
    "zeromq": "bench.rivals.zeromq",
    "nats": "bench.rivals.nats",
    "redis_pubsub": "bench.rivals.redis_pubsub",
    "redis_streams": "bench.rivals.redis_streams",
}
SUBSCRIBERS = 3
WARMUP_SECONDS = 0.3
"""Of a latency run; not counted."""
_PATIENCE_SECONDS = 30.0
_SLOWEST_EVENTS_PER_SECOND = 10_000


class NotInstalled(RuntimeError):
    """A rival's server or client is not there."""

    def __init__(self, rival: str, what: str) -> None:
        super().__init__(f"{rival} skipped: {what}")
        self.rival = rival


def missing(rival: str) -> str | None:
    """What of a rival is not installed, and how to get it; None if it can run."""
    return _module(rival).missing()


def installed() -> list[str]:
    return [rival for rival in RIVALS if missing(rival) is None]


def throughput(rival: str, events: int, subscribers: int = SUBSCRIBERS) -> float:
    """Events per second received by the slowest subscriber."""
    patience = _PATIENCE_SECONDS + events / _SLOWEST_EVENTS_PER_SECOND
    with Team() as team:
        publisher, receivers = _assemble(
            team, rival, ("publish", "subscribe"), subscribers, [events]
        )
        publisher.tell("go")
        started = publisher.hear(patience)
        finished = [receiver.hear(patience) for receiver in receivers]
    return events / (max(finished) - started) * 1e9


def latency(
    rival: str = "nats", rate: int = 1000, seconds: float = 5.0, subscribers: int = SUBSCRIBERS
) -> list[int]:
    """One-way latencies in nanoseconds, of every event at every subscriber, by subscriber."""
    warmup = round(rate * WARMUP_SECONDS)
    events = warmup + round(rate * seconds)
    patience = _PATIENCE_SECONDS + 2 * seconds
    with Team() as team:
        publisher, receivers = _assemble(
            team, rival, ("publish_paced", "subscribe_timed"), subscribers, [events, rate]
        )
        publisher.tell("go")
        publisher.hear(patience)
        measured = [receiver.hear(patience) for receiver in receivers]
    return [delay for delays in measured for delay in delays[warmup:]]


def _assemble(
    team: Team, rival: str, parts: tuple[str, str], subscribers: int, arguments: list[int]
) -> tuple[Part, list[Part]]:
    """A publisher and subscribers, connected."""
    module = _module(rival)
    if reason := module.missing():
        raise NotInstalled(rival, reason)
    publishing, receiving = parts
    publisher = team.start(RIVALS[rival], publishing, module.serve(team), *arguments)
    port = publisher.hear(_PATIENCE_SECONDS)
    receivers = [
        team.start(RIVALS[rival], receiving, port, *arguments[:1]) for _ in range(subscribers)
    ]
    for receiver in receivers:
        assert receiver.hear(_PATIENCE_SECONDS) == "ready"
    return publisher, receivers


def _module(rival: str) -> ModuleType:
    if rival not in RIVALS:
        raise ValueError(f"there is no rival {rival!r}; there are: {', '.join(RIVALS)}")
    return import_module(RIVALS[rival])
