"""50 peers of one ordered topic over loopback, half of which come and go: is it one order?

Half of the peers are stable: they are there from the first event to the last. Of the others a tenth
is replaced in every round, which is as long as the peers' own: they leave by turns politely and
without a word, and fresh ones join at once. All peers publish, those that join as soon as their
order has begun. What was published and delivered is judged from the logs of the peers alone
(`ordered_logs`).
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bench.harness import Bar, Figure, Result
from bench.ordered_logs import Findings, check
from bench.rivals.processes import Part, Team

MODULE = "bench.ordered_peer_parts"
_PATIENCE_S = 180.0
_DRAIN_S = 40.0
_LOOK_S = 1.0


@dataclass(frozen=True)
class Load:
    stable: tuple[int, ...]
    """Peers in each process with peers that stay."""
    volatile: tuple[int, ...]
    """The same for those that do not."""
    round_s: float
    rounds: int
    churn: float
    """Share of the volatile peers replaced in a round."""
    stable_events: int
    """Published by each peer in each round, in one call."""
    volatile_events: int
    size: int
    rate_goal: float
    """Events per second, all publishers together."""

    @property
    def settings(self) -> dict[str, Any]:
        """Of the protocol: rounds that do not get shorter, and neighbours looked after as often."""
        round_ns = int(self.round_s * 1e9)
        return {
            "round_period_ns": round_ns,
            "min_round_ns": round_ns,
            "shuffle_period_ns": round_ns,
            "ping_period_ns": round_ns,
        }

    @property
    def peers(self) -> int:
        return sum(self.stable) + sum(self.volatile)


FULL = Load(
    stable=(13, 12), volatile=(13, 12), round_s=0.5, rounds=120, churn=0.1,
    stable_events=40, volatile_events=10, size=8, rate_goal=2000,
)  # fmt: skip
QUICK = Load(
    stable=(4,), volatile=(4,), round_s=0.1, rounds=40, churn=0.1,
    stable_events=5, volatile_events=2, size=8, rate_goal=200,
)  # fmt: skip


def run(quick: bool) -> Result:
    load = QUICK if quick else FULL
    with Team() as team:
        return measure(load, team)


def measure(load: Load, team: Team) -> Result:
    logs = team.folder / "logs"
    logs.mkdir()
    counts = [("stable", count) for count in load.stable]
    counts += [("volatile", count) for count in load.volatile]
    parts: list[Part] = []
    addresses: list[str] = []
    for seed, (kind, count) in enumerate(counts):
        part = team.start(MODULE, "peers", kind, addresses, count, load.settings, str(logs), seed)
        parts.append(part)
        found = part.hear(_PATIENCE_S)["addresses"]
        addresses += found if kind == "stable" else []
    steady, moving = parts[: len(load.stable)], parts[len(load.stable) :]
    for part in parts:
        part.tell({"do": "know", "contacts": addresses})
        part.tell({"do": "settle"})
    for part in parts:
        part.hear(_PATIENCE_S)
    work = {"do": "work", "rounds": load.rounds, "round_s": load.round_s, "size": load.size}
    for part in steady:
        part.tell({**work, "churn": 0.0, "events": load.stable_events})
    for part in moving:
        part.tell({**work, "churn": load.churn, "events": load.volatile_events})
    took = max(part.hear(_PATIENCE_S + load.rounds * load.round_s)["took_s"] for part in parts)
    reports = _drained(parts, load)
    for part in parts:
        part.tell({"do": "end"})
    for part in parts:
        part.hear(_PATIENCE_S)
    return judge(load, check(logs), reports, took)


def _drained(parts: list[Part], load: Load) -> list[dict[str, Any]]:
    """What the processes report once nothing more is delivered, or it took too long."""
    until = time.monotonic() + _DRAIN_S
    before = -1
    while True:
        time.sleep(max(_LOOK_S, 4 * load.round_s))
        for part in parts:
            part.tell({"do": "report"})
        reports = [part.hear(_PATIENCE_S) for part in parts]
        delivered = sum(peer["delivered"] for report in reports for peer in report["peers"])
        if delivered == before or time.monotonic() > until:
            return reports
        before = delivered


def judge(load: Load, found: Findings, reports: list[dict[str, Any]], took_s: float) -> Result:
    peers = [peer for report in reports for peer in report["peers"]]
    sums = sum((Counter(report["figures"]) for report in reports), Counter())
    replaced = sum(report["left"] + report["crashed"] for report in reports)
    took_s = max(took_s, load.rounds * load.round_s)
    rounds = took_s / load.round_s
    events_per_s = found.events / took_s
    churn = replaced / rounds / sum(load.volatile)
    figures: dict[str, Figure] = {
        "peers": len(peers),
        "stable": found.stable,
        "rounds": round(rounds),
        "round_ms": 1000 * load.round_s,
        "longest_round_ms": max(peer["epto.round_period_ns"] for peer in peers) / 1e6,
        "left": sum(report["left"] for report in reports),
        "crashed": sum(report["crashed"] for report in reports),
        "joined_and_delivered": found.volatile,
        "publications": found.publications,
        "events": found.events,
        "events_of_volatile": found.events_of_volatile,
        "missing_of_stable": found.missing_of_stable,
        "missing_at_volatile": found.missing_at_volatile,
        "gaps_reported": found.gaps,
        "delay_p50_ms": found.delay_ms(0.5),
        "delay_p99_ms": found.delay_ms(0.99),
        "delay_p50_rounds": round(found.delay_ms(0.5) / (1000 * load.round_s), 2),
        "fanout": max(peer["epto.fanout"] for peer in peers),
        "ttl": max(peer["epto.ttl"] for peer in peers),
        "bytes_per_peer_per_s": round(sums["bytes_sent"] / load.peers / took_s),
        "cpu_per_peer": sum(report["cpu_s"] for report in reports) / load.peers / took_s,
        "balls_withheld": sums["epto.withheld"],
        "silent_neighbours": sums["cyclon.silent"],
        **{name: sums[name] for name in sorted(sums) if name.startswith("drop.")},
    }
    bars = [
        Bar("peers", load.peers, "at least", len(peers)),
        Bar("events_per_s", load.rate_goal, "at least", events_per_s, "/s"),
        Bar("churn_per_round", 0.97 * load.churn, "at least", churn),
        Bar("different_sequences", 1, "at most", found.sequences),
        Bar("missing_at_stable", 0, "at most", found.missing),
        Bar("delivered_twice", 0, "at most", found.twice),
        Bar("out_of_order", 0, "at most", found.out_of_order),
        Bar("never_published", 0, "at most", found.never_published),
    ]
    return Result("ordered-peers", figures, bars)


def speeds() -> dict[str, Callable[[], float]]:
    """For `bench.compare`: the load is given, so what counts is what it costs, for a third of the
    time."""
    load = replace(FULL, rounds=40)

    def events_per_cpu_s() -> float:
        with Team() as team:
            result = measure(load, team)
        rate = next(bar.measured for bar in result.bars if bar.name == "events_per_s")
        return rate / (float(result.figures["cpu_per_peer"]) * load.peers)

    return {"events_per_cpu_s": events_per_cpu_s}
