"""How long an event takes from the publisher's code to the subscriber's: Epicast beside NATS.

One region with its history in memory, a publisher and three subscribers (`async for`), all
processes of their own. A thousand single events per second, each with its time of publication
inside, in turns with NATS doing the same; then ours alone at rising rates, until what is asked for
cannot be had any more.
"""

import statistics
from collections.abc import Callable

import numpy as np

from bench.bench_peers import PATIENCE_S, assembled
from bench.harness import Bar, Figure, Result
from bench.rivals import contest

RATE = 1000
LOADS = (10_000, 30_000, 100_000, 200_000, 400_000, 800_000)
LOAD_EVENTS = 100_000
"""Enough to judge a rate by, unless that takes less than a second."""
SUSTAINED = 0.9
"""Of the rate asked for; below that it is saturated."""
RIVAL = "nats"


def run(quick: bool) -> Result:
    seconds, rounds, loads = (0.5, 1, LOADS[:1]) if quick else (5.0, 5, LOADS)
    figures: dict[str, Figure] = {}
    skipped = contest.missing(RIVAL)
    ours, theirs = [], []
    for number in range(rounds):
        turns = [True, False] if number % 2 else [False, True]
        for is_ours in turns:
            if is_ours:
                ours.append(percentiles(latency(RATE, seconds)[0]))
            elif skipped is None:
                theirs.append(percentiles(contest.latency(RIVAL, RATE, seconds)))
    figures |= microseconds("", ours)
    if skipped is None:
        figures |= microseconds(f"{RIVAL}_", theirs)
    else:
        figures[f"{RIVAL}_skipped"] = skipped
    for rate in loads:
        delays, achieved = latency(rate, min(seconds, max(1.0, LOAD_EVENTS / rate)))
        figures |= microseconds(f"at_{rate}_", [percentiles(delays)])
        if achieved < SUSTAINED * rate:
            figures["saturated_at_events_per_s"] = round(achieved)
            break
    return Result("latency", figures, bars(ours, theirs))


def bars(ours: list[tuple[float, float]], theirs: list[tuple[float, float]]) -> list[Bar]:
    """The median over the rounds, as for rates; without the rival there is nothing to judge."""
    if not theirs:
        return []
    ratios = [
        [mine / other for mine, other in zip(own, others, strict=True)]
        for own, others in zip(ours, theirs, strict=True)
    ]
    p50, p99 = (statistics.median(column) for column in zip(*ratios, strict=True))
    return [
        Bar(f"p50_vs_{RIVAL}", 1.0, "at most", p50, "x"),
        Bar(f"p99_vs_{RIVAL}", 1.0, "at most", p99, "x"),
    ]


def latency(rate: int, seconds: float) -> tuple[list[int], float]:
    """Nanoseconds of every event at every subscriber, and the rate that was reached."""
    warmup = round(rate * contest.WARMUP_SECONDS)
    events = warmup + round(rate * seconds)
    publishing, receiving = ("publish_paced", events, rate), ("subscribe_timed", events)
    with assembled(publishing, receiving) as (publisher, subscribers):
        publisher.tell("go")
        elapsed = publisher.hear(PATIENCE_S)
        measured = [subscriber.hear(PATIENCE_S) for subscriber in subscribers]
    return [delay for delays in measured for delay in delays[warmup:]], events / elapsed


def percentiles(delays: list[int]) -> tuple[float, float]:
    p50, p99 = np.percentile(delays, [50, 99])
    return float(p50), float(p99)


def microseconds(prefix: str, found: list[tuple[float, float]]) -> dict[str, Figure]:
    p50, p99 = (statistics.median(column) / 1000 for column in zip(*found, strict=True))
    return {f"{prefix}p50_us": round(p50, 1), f"{prefix}p99_us": round(p99, 1)}


def speeds() -> dict[str, Callable[[], float]]:
    """For `bench.compare`, which wants rates: how often the median, or the 99th percentile, goes
    into a second."""

    def rate(place: int) -> float:
        return 1e9 / percentiles(latency(RATE, 5.0)[0])[place]

    return {"p50_per_s": lambda: rate(0), "p99_per_s": lambda: rate(1)}
