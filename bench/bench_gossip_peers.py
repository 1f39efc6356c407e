"""200 peers of one gossip topic over loopback, with loss and crashes: does everybody get it all?

Several processes hold the peers, all of which join by one known address. Every datagram is lost
with a probability of 10 %. In the middle of publishing 5 % of the peers crash: some vanish without
a word, and one process is killed. Judged is the share of all events that each peer got that stays
from the first event to the last, and the most that any peer sent in any second, joining included
and those that crash, too: each writes it down as it goes. Those who crash publish nothing, so no
event is left out.

Then once more with as many events per second, published by about half of the peers in small
batches: more sources than a digest has room to name. Figures only, `many_publishers.*`.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.gossip_peer_parts import DELAY_STEP_NS, read_most
from bench.harness import Bar, Figure, Result
from bench.rivals.processes import Part, Team

MODULE = "bench.gossip_peer_parts"
LOSS = 0.1
RATIO_GOAL = 0.999
_PATIENCE_S = 180.0
_DRAIN_S = 30.0


@dataclass(frozen=True)
class Load:
    """So many processes with so many peers each, of which some crash; `killed` peers more are in a
    process of their own."""

    processes: int
    peers: int
    crashing: tuple[int, ...]
    killed: int
    publishers: int
    """In each process."""
    batches: int
    events: int
    size: int
    every_s: float
    rate_goal: float
    """Events per second, all publishers together: a little less than they try."""
    settings: dict[str, Any]

    @property
    def crashed(self) -> int:
        return sum(self.crashing) + self.killed

    @property
    def owed(self) -> int:
        return self.processes * self.publishers * self.events * self.batches


SETTINGS: dict[str, Any] = {
    # After `epicast plan gossip --nodes 200 --loss 0.1 --crash 0.05 --rate 1040 --size 8
    # --batch 130 --period 500ms --within 6`; docs/topics.md says where it differs, and why.
    "gossip_period_ns": 500_000_000,
    "fanout": 4,
    "view_size": 20,
    "max_events": 6000,
    "max_age_rounds": 8,
    "critical_age_rounds": 6,
    "max_datagrams": 40,
    "max_message_bytes": 1300,
    "retrieve_after_rounds": 4,
    "max_retrievals": 2000,
    "max_stored_events": 20_000,
    "late_events": 10_000,
    "settling_rounds": 3,
    "max_event_bytes": 64_000,
    "bytes_per_s": 120_000,
}
FULL = Load(
    processes=4, peers=49, crashing=(2, 2, 1, 1), killed=4,
    publishers=2, batches=30, events=130, size=8, every_s=1.0, rate_goal=1000, settings=SETTINGS,
)  # fmt: skip
MANY = replace(FULL, publishers=26, batches=15, events=10)
QUICK = Load(
    processes=2, peers=6, crashing=(1, 0), killed=1,
    publishers=1, batches=8, events=20, size=8, every_s=0.25, rate_goal=150,
    settings=SETTINGS | {"gossip_period_ns": 100_000_000, "view_size": 8},
)  # fmt: skip


QUICK_MANY = replace(QUICK, publishers=4, events=5)


def run(quick: bool) -> Result:
    few, many = (QUICK, QUICK_MANY) if quick else (FULL, MANY)
    with Team() as team:
        result = measure(few, team)
    with Team() as team:
        return with_many(result, measure(many, team))


def with_many(result: Result, many: Result) -> Result:
    """The figures and what was held against bars of the second setting beside the first."""
    more = {bar.name: round(bar.measured, 5) for bar in many.bars} | dict(many.figures)
    figures = {f"many_publishers.{name}": value for name, value in more.items()}
    return replace(result, figures=dict(result.figures) | figures)


def measure(load: Load, team: Team) -> Result:
    parts: list[Part] = []
    contact = None
    files = [team.folder / f"{number}.most" for number in range(load.processes + 1)]
    for number in range(load.processes):
        part = team.start(
            MODULE, "peers", contact, load.peers, LOSS, number, load.settings, str(files[number])
        )
        parts.append(part)
        contact = contact or part.hear(_PATIENCE_S)["address"]
    doomed = team.start(
        MODULE, "peers", contact, load.killed, LOSS, 99, load.settings, str(files[-1])
    )
    for part in (*parts[1:], doomed):
        part.hear(_PATIENCE_S)
    # Who has just joined takes what it hears of for what was before its time.
    time.sleep((load.settings["settling_rounds"] + 2) * load.settings["gossip_period_ns"] / 1e9)
    how = {
        "publishers": load.publishers, "batches": load.batches, "events": load.events,
        "size": load.size, "every_s": load.every_s,
    }  # fmt: skip
    for part in parts:
        part.tell({"do": "publish", "how": how})
    time.sleep(load.batches * load.every_s / 2)
    doomed.process.kill()
    for part, peers in zip(parts, load.crashing, strict=True):
        part.tell({"do": "crash", "peers": peers})
    published = [part.hear(_PATIENCE_S) for part in parts]
    took = max(load.batches * load.every_s, *(answer["took_s"] for answer in published))
    return judge(load, _drained(parts, load.owed), took, *most_sent(load, files))


def most_sent(load: Load, files: list[Path]) -> tuple[list[int], list[int]]:
    """The most that each peer sent in any second: of those that stay, and of those that crash,
    which in every process are the last to have joined."""
    staying: list[int] = []
    crashed: list[int] = []
    for file, peers, crashing in zip(
        files,
        (*[load.peers] * load.processes, load.killed),
        (*load.crashing, load.killed),
        strict=True,
    ):
        found = read_most(file)
        if len(found) != peers:
            raise RuntimeError(f"{len(found)} of {peers} peers wrote down what they sent")
        staying += found[: peers - crashing]
        crashed += found[peers - crashing :]
    return staying, crashed


def _drained(parts: list[Part], owed: int) -> list[dict[str, Any]]:
    """What the processes report once everybody has everything, or it took too long."""
    until = time.monotonic() + _DRAIN_S
    while True:
        time.sleep(2)
        for part in parts:
            part.tell({"do": "report"})
        reports = [part.hear(_PATIENCE_S) for part in parts]
        got = [sum(peer["got"].values()) for report in reports for peer in report["peers"]]
        if min(got) >= owed or time.monotonic() > until:
            for part in parts:
                part.tell({"do": "end"})
            return reports


def _delays(peers: list[dict[str, Any]]) -> dict[str, Figure]:
    """From publishing to the application, over all events and peers."""
    counts = np.sum([peer["delays"] for peer in peers], axis=0)
    shares = np.cumsum(counts) / counts.sum()
    step_ms = DELAY_STEP_NS / 1e6
    return {
        f"delay_p{name}_ms": step_ms * (1 + int(np.searchsorted(shares, share)))
        for name, share in (("50", 0.5), ("99", 0.99), ("99.9", 0.999))
    }


def judge(
    load: Load,
    reports: list[dict[str, Any]],
    took_s: float,
    staying: list[int],
    crashed: list[int],
) -> Result:
    """By what those that stay report, and the most bytes in a second of them and of the others."""
    peers = [peer for report in reports for peer in report["peers"]]
    got = [sum(peer["got"].values()) for peer in peers]
    budget = load.settings["bytes_per_s"]
    most = max(*staying, *crashed)
    events_per_s = load.owed / took_s
    figures: dict[str, Figure] = {
        "peers_at_the_end": len(peers),
        "crashed": load.crashed,
        "publishers": load.processes * load.publishers,
        "events": load.owed,
        "events_per_s": events_per_s,
        "peers_with_everything": sum(each == load.owed for each in got),
        "delivered_twice": sum(peer["twice"] for peer in peers),
        "given_up_by_subscriptions": sum(peer["gaps"] for peer in peers),
        "copies_of_an_event": round(1 + sum(p["duplicates"] for p in peers) / max(1, sum(got)), 2),
        "budget_bytes_per_s": budget,
        "most_bytes_per_s": most,
        "most_bytes_per_s_of_crashed": max(crashed),
        "peers_measured": len(staying) + len(crashed),
        "mean_bytes_sent": round(sum(peer["bytes_sent"] for peer in peers) / len(peers)),
        "datagrams_received": sum(peer["datagrams_received"] for peer in peers),
        "retrieved_events_asked": sum(peer["retrieval_asked"] for peer in peers),
        "retrieval_abandoned": sum(peer["retrieval_abandoned"] for peer in peers),
        "purged_young": sum(peer["purged_young"] for peer in peers),
        "bytes_withheld": sum(peer["bytes_withheld"] for peer in peers),
        "dropped_at_the_socket": sum(peer["over_budget"] for peer in peers),
        **_delays(peers),
        "join_s": round(max(report["join_s"] for report in reports), 1),
        "cpu_s": round(sum(report["cpu_s"] for report in reports), 1),
    }
    bars = [
        Bar("delivery_ratio", RATIO_GOAL, "at least", sum(got) / (load.owed * len(got))),
        Bar("events_per_s", load.rate_goal, "at least", events_per_s, "/s"),
        Bar("bytes_per_peer_per_s", budget, "at most", most, "B/s"),
    ]
    return Result("gossip-peers", figures, bars)
