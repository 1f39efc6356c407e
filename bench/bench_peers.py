"""One publisher, three subscribers, events of 10 bytes: Epicast beside ZeroMQ, NATS and Redis.

Ours is one region: a proxy, a publisher and three subscribers, all processes of their own, through
the public client library. The publisher calls `publish_nowait` for every event; the subscribers
consume in every public way there is. By batch, the publisher publishes columns and the subscribers
read them. Unlike the others, ours numbers, stores and acknowledges every event, and what the
subscribers got is compared with what was published. Candidates take turns: `harness.interleave`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.harness import Bar, Figure, Rates, Result, interleave
from bench.peer_parts import STREAM
from bench.peer_ways import BY_BATCH, SYNC_WAYS, WAYS
from bench.rivals import contest
from bench.rivals.processes import Part, Team
from epicast.deployment import parse_geoplex
from epicast.geo.local import LocalGeoplex

MODULE = "bench.peer_parts"
REGION = "here"
Role = tuple[Any, ...]
"""A part of `peer_parts`, and its arguments behind the address."""
SUBSCRIBERS = contest.SUBSCRIBERS
PATIENCE_S = 120.0
EVENTS = 3_000_000
"""A few seconds, as are the other counts."""
BATCHED_EVENTS = 40_000_000
RIVAL_EVENTS = {
    "zeromq": 2_000_000,
    "nats": 250_000,
    "redis_pubsub": 250_000,
    "redis_streams": 250_000,
}
GOALS = {"zeromq": 1.2, "nats": 8.0, "redis_pubsub": 8.0, "redis_streams": 8.0}
BATCH_GOAL = 8.0
SLOWEST_GOAL = 2.5
QUICK_SHARE = 0.01
QUICK = ("zeromq", "async_for", "sync_pull", "by_batch")


def run(quick: bool) -> Result:
    share, rounds = (QUICK_SHARE, 1) if quick else (1.0, 3)
    rivals = contest.installed()
    rates = interleave(candidates(rivals, share, QUICK if quick else None), rounds)
    figures: dict[str, Figure] = {
        f"{name}_events_per_s": round(rate.median) for name, rate in rates.items()
    }
    for rival in contest.RIVALS:
        if rival not in rivals:
            figures[f"{rival}_skipped"] = str(contest.missing(rival))
    return Result("peers", figures, bars(rates))


def candidates(
    rivals: list[str], share: float, only: Collection[str] | None
) -> dict[str, Callable[[], float]]:
    events = round(EVENTS * share)
    found: dict[str, Callable[[], float]] = {
        rival: partial(contest.throughput, rival, round(RIVAL_EVENTS[rival] * share))
        for rival in rivals
    }
    found |= {way: partial(measure, way, events) for way in (*WAYS, *SYNC_WAYS)}
    found["by_batch"] = partial(measure_batches, round(BATCHED_EVENTS * share))
    found["latest_per_key"] = partial(measure, "async_for", events, keyed=True)
    return {name: found[name] for name in found if only is None or name in only}


def bars(rates: Mapping[str, Rates]) -> list[Bar]:
    ours = rates["async_for"]
    found = [
        Bar(f"vs_{rival}", GOALS[rival], "at least", ours.over(rates[rival]), "x")
        for rival in GOALS
        if rival in rates
    ]
    if "zeromq" in rates:
        ratio = rates["by_batch"].over(rates["zeromq"])
        found.append(Bar("batches_vs_zeromq", BATCH_GOAL, "at least", ratio, "x"))
    ways = {way: rates[way] for way in (*WAYS, *SYNC_WAYS) if way in rates}
    fastest = max((way for way in ways if way not in BY_BATCH), key=lambda way: ways[way].median)
    slowest = min(ways, key=lambda way: ways[way].median)
    ratio = ways[fastest].over(ways[slowest])
    found.append(Bar("slowest_way_vs_fastest", SLOWEST_GOAL, "at most", ratio, "x"))
    return found


def speeds() -> dict[str, Callable[[], float]]:
    """For `bench.compare`."""
    return {
        "async_for": partial(measure, "async_for", EVENTS),
        "sync_pull": partial(measure, "sync_pull", EVENTS),
        "by_batch": partial(measure_batches, BATCHED_EVENTS),
    }


def measure(way: str, events: int, *, keyed: bool = False) -> float:
    """Events per second that reached the slowest subscriber."""
    return _measure(("publish", events, keyed), ("subscribe", way, events, keyed), keyed)


def measure_batches(events: int) -> float:
    """The same, by batch from end to end."""
    return _measure(("publish_batches", events), ("subscribe", "batches", events, False), False)


def _measure(publishing: Role, receiving: Role, keyed: bool) -> float:
    events = publishing[1]
    with assembled(publishing, receiving, keyed=keyed) as (publisher, subscribers):
        publisher.tell("go")
        started = publisher.hear(PATIENCE_S)
        finished = [subscriber.hear(PATIENCE_S) for subscriber in subscribers]
    return events / (max(finished) - started) * 1e9


@contextmanager
def assembled(
    publishing: Role, receiving: Role, *, keyed: bool = False
) -> Iterator[tuple[Part, list[Part]]]:
    """A region with a publisher and three subscribers, connected and waiting."""
    with LocalGeoplex(parse_geoplex(document(keyed), "bench"), any_ports=True) as local:
        address = local.address(REGION)
        with Team() as team:
            parts = [
                team.start(MODULE, role, address, *arguments)
                for role, *arguments in (publishing, *[receiving] * SUBSCRIBERS)
            ]
            for part in parts:
                assert part.hear(PATIENCE_S) == "ready"
            yield parts[0], parts[1:]


def document(keyed: bool) -> str:
    """One region, its history in memory."""
    return f"""
        name = "bench"
        [regions.{REGION}]
        proxy = "127.0.0.1:1"
        [streams.{STREAM}]
        owner = "{REGION}"
        ack = "memory"
        latest_per_key = {str(keyed).lower()}
    """
